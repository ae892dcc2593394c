"""`benchmarks/simulator.py --cliffs --quick` measures every extra."""

from pathlib import Path

import pytest

from tests.benchmarks.running import ROOT, run_benchmark

EXTRAS = (
    "cores", "memory", "gpu_parts", "gpu_parts_shared", "gpu_types", "outage", "outage_stealing",
    "uneven_servers", "partitions_stealing", "own_order", "own_keys", "own_preemption", "spjf",
)  # fmt: skip
GROUPS = {"placer": {"packed", "random"}, "sharing": {"off"}, "forwarding": {"own"}}


def of_groups() -> list[str]:
    """One for each file of the groups but those that the others are compared with."""
    return [
        f"{group}_{path.stem}"
        for group, left_out in GROUPS.items()
        for path in (ROOT / "conf" / group).glob("*.yaml")
        if path.stem not in left_out
    ]


@pytest.mark.slow
def test_quick_numbers(tmp_path: Path) -> None:
    numbers, _ = run_benchmark("simulator", "--cliffs", folder=tmp_path)
    names = {f"cliff_{name}" for name in (*EXTRAS, *of_groups())}
    assert {key for key in numbers if not key.endswith("_s")} == names
    assert min(numbers.values()) > 0
    # Loose: one short run on a machine that does other things too.
    assert max(numbers[name] for name in names) < 1000
