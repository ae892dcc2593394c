"""`benchmarks/NAME.py --quick` writes the numbers that it promises.

Bounds are loose: short runs on a machine that does other things too.
"""

import json
from pathlib import Path

import pytest

from tests.forking import run_program

ROOT = Path(__file__).resolve().parents[2]
RATIOS = ("fifo_over_floor", "las_over_floor", "srtf_over_floor", "physics_over_floor")
CELLS = [
    f"{trace}_{policy}_{placer}_over_peer"
    for trace in "SMLH"
    for policy in ("fifo", "las", "srtf")
    for placer in ("consolidated", "packed")
]
EXTRAS = (
    "cores", "memory", "gpu_parts", "gpu_parts_shared", "gpu_types", "outage", "outage_stealing",
    "uneven_servers", "partitions_stealing", "own_order", "own_keys", "own_order_stealing",
    "own_preemption", "own_preemption_stealing", "own_preemption_by_keys",
    "own_preemption_by_keys_stealing", "own_preemption_aged", "own_preemption_aged_stealing",
    "own_preemption_asked", "own_preemption_asked_stealing", "spjf",
)  # fmt: skip
# Those of these groups, but for those that the others are compared with.
GROUPS = {"placer": {"packed", "random"}, "sharing": {"off"}, "forwarding": {"own"}}
pytestmark = pytest.mark.slow


def run_benchmark(name: str, *options: str, folder: Path) -> tuple[dict[str, float], str]:
    """Its numbers, and what it printed."""
    path = folder / f"{name}.json"
    words = [f"benchmarks/{name}.py", *options, "--quick", "--json", str(path)]
    done = run_program(words, timeout=900.0)
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text()), done.stdout


def test_ratios_to_the_floor_and_to_the_peer(tmp_path: Path) -> None:
    numbers, printed = run_benchmark("simulator", folder=tmp_path)
    for key in (*RATIOS, *CELLS):
        assert isinstance(numbers[key], float) and numbers[key] > 0, key
        assert f"{key} " in printed, key
    assert max(numbers[key] for key in RATIOS) < 300
    assert min(numbers[key] for key in CELLS) > 2


def test_every_extra_is_measured(tmp_path: Path) -> None:
    numbers, _ = run_benchmark("simulator", "--cliffs", folder=tmp_path)
    of_groups = [
        f"{group}_{path.stem}"
        for group, left_out in GROUPS.items()
        for path in (ROOT / "conf" / group).glob("*.yaml")
        if path.stem not in left_out
    ]
    names = {f"cliff_{name}" for name in (*EXTRAS, *of_groups)}
    assert {key for key in numbers if not key.endswith("_s")} == names
    assert min(numbers.values()) > 0
    assert max(numbers[name] for name in names) < 1000


def test_the_first_run_compiles_and_the_second_finds_it_again(tmp_path: Path) -> None:
    numbers, printed = run_benchmark("first_run", folder=tmp_path)
    cold, warm = numbers["first_sjf_cold_s"], numbers["first_sjf_warm_s"]
    assert cold > warm > 0
    assert numbers["first_sjf_over_warm"] == pytest.approx(cold / warm)
    assert "sjf " in printed


def test_it_answers_a_hundred_requests_a_second_of_its_own_time(tmp_path: Path):
    """Of SJF; the agents, who decide 60 times a request, do so on an idle machine only."""
    rows, printed = run_benchmark("serving", "--folder", str(tmp_path), folder=tmp_path)
    assert "sjf" in printed and "agents" in printed
    assert min(row["starts"] for row in rows.values()) > 1
    assert rows["sjf"]["requests_per_busy_s"] > 100  # 240 or so where it was written
    assert rows["agents"]["requests_per_busy_s"] > 60  # 116 or so


def test_knowing_the_future_is_played_on_held_out_windows() -> None:
    words = ["benchmarks/hindsight.py", "held_out.windows=2", "workload.num_jobs=60"]
    done = run_program(words, timeout=300.0)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["window 1000", "window 1001"]
    assert float(lines[1].partition("so far ")[2].split()[0]) < 1.02
