"""`reproduce.py experiment=topdrl_main`: files, resuming."""

import csv
from pathlib import Path

import pytest
import torch

from marl.topdrl.codec import NetworkSpec, ObservationSpec
from marl.topdrl.network import build_network, save_picker
from marl.topdrl.proximity import GpuScores, ProximitySpec, save_proximity

OBSERVED = ObservationSpec(
    slots=8, oldest_slots=0, order="worth", rows=10, row_s=60.0, row_growth=1.5, block_gpus=8
)
RUNS = 2 * 11  # windows x schedulers, one cell, one seed


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Random policies for the 64 GPUs of debug=quick, as words of the command line."""
    root = tmp_path_factory.mktemp("policies")
    torch.manual_seed(0)
    for name, branches in (("topdrl", "multi"), ("single_branch", "single")):
        spec = NetworkSpec(branches=branches, channels=2, hidden=8, server_gpus=8, racks=2,
                           rack_servers=4)  # fmt: skip
        save_picker(root / name, build_network(spec, OBSERVED).state_dict(), spec, OBSERVED)
    gpus = ProximitySpec(row_s=100.0, most_rows=50, most_gang=8, server_weight=0.25,
                         rack_weight=0.5, hidden=8, gpus=64)  # fmt: skip
    save_proximity(root / "proximity", GpuScores(gpus).state_dict(), gpus)
    return [f"reproduce.pickers.{path.name}.folder='{path}'" for path in sorted(root.iterdir())]


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / name).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_it_compares_all_and_goes_on_where_it_stopped(done, policies):
    words = ["experiment=topdrl_main", "debug=quick", "reproduce.seeds=[3]", "most_cells=1",
             "workload.num_jobs=40"]  # fmt: skip
    first = done("reproduce", *words, *policies, folder="first")
    compared = rows(first.folder, "comparison.csv")
    assert len(compared) == RUNS
    assert {row["seed"] for row in compared} == {"3"}
    for row in compared:
        assert float(row["throughput_tflops"]) > 0
        assert float(row["placement_cost_ratio"]) >= 1 - 1e-9
        assert row["information"] in {"none", "oracle"}
    tests = rows(first.folder, "tests.csv")
    assert sum(row["role"] == "published" for row in tests) == 6
    assert "claimed: up to 0.47 higher" in first.out
    assert (first.folder / "page.md").read_text().startswith("| over | gen. 0.64 |")
    for name in ("throughput.md", "throughput.png", "jct_all_mean_s.png"):
        assert (first.folder / name).stat().st_size > 0
    stamps = {path.name: path.stat().st_mtime_ns for path in (first.folder / "parts").iterdir()}
    assert len(stamps) == RUNS
    dropped = sorted(stamps)[0]
    (first.folder / "parts" / dropped).unlink()
    again = done("reproduce", *words, *policies, folder="first")
    after = {path.name: path.stat().st_mtime_ns for path in (again.folder / "parts").iterdir()}
    assert {name for name in after if after[name] != stamps[name]} == {dropped}
