"""`outages=`: every file of the group builds, and changes what happens."""

from collections.abc import Callable
from pathlib import Path

import pytest

import gpuyard
from sim.errors import GpuYardError

ONE_SERVER = (
    "topology.servers=1", "topology.servers_per_rack=1", "interference=none", "network=none",
    "restart_s=0",
)  # fmt: skip
CLOSED = {"first_s": "5", "duration_s": "1", "every_s": "1000"}
FAILS = {"mtbf_s": "8", "repair_median_s": "1", "horizon_s": "40"}
Finishes = Callable[..., dict[str, float]]


@pytest.fixture
def finishes(trace: Path) -> Finishes:
    """When jobs end on one server whose outages are of that kind."""

    def found(kind: str, *words: str, under: str = "", **values: str) -> dict[str, float]:
        told = (f"outages.{under}{key}={value}" for key, value in values.items())
        given = [*ONE_SERVER, f"outages={kind}", *words, *told]
        jobs = gpuyard.simulate(trace, "small_leaf_spine", overrides=given).jobs
        return dict(zip(jobs["job_id"], jobs["finish_s"], strict=True))

    return found


def test_a_file_of_changes_moves_what_runs(finishes: Finishes, tmp_path: Path):
    # a (0 to 10) and b (1 to 11) lose all they did at 5; back at 6 they pay no restart and start
    # anew: 16 both. c (0 s) ends then; d, 5 s, comes at 30, is sent away at 32 with 2 s done, and
    # ends 3 s after 40.
    changes = tmp_path / "changes.csv"
    changes.write_text("time_s,server,change\n5,0,fail\n6,0,open\n32,0,close\n40,0,open\n")
    assert finishes("file", path=str(changes)) == {"a": 16.0, "b": 16.0, "c": 16.0, "d": 43.0}


def test_a_bad_line_is_named(start, trace: Path, tmp_path: Path):
    changes = tmp_path / "changes.csv"
    changes.write_text("time_s,server,change\n5,9,fail\n")
    words = ("topology=small_leaf_spine", *ONE_SERVER, "workload=csv", f"workload.path={trace}")
    start("simulate", *words, "outages=file", f"outages.path={changes}").failed_with(
        f"{changes}:2: server is '9'"
    )


def test_maintenance_closes_the_server_in_its_turn(finishes: Finishes):
    closed = {"a": 11.0, "b": 12.0, "c": 12.0, "d": 35.0}
    assert finishes("maintenance", **CLOSED) == closed
    silent = "outages.failures.horizon_s=1e-9"
    assert finishes("both", silent, under="maintenance.", **CLOSED) == closed


def test_failures_are_seeded(finishes: Finishes):
    one = finishes("failures", **FAILS)
    assert one == finishes("failures", **FAILS)
    assert one["a"] > 10.0
    silent = "outages.maintenance.first_s=1e9"
    assert finishes("both", silent, under="failures.", **FAILS) == one
    with pytest.raises(GpuYardError, match=r"outages\.shape is 0"):
        finishes("failures", **FAILS, shape="0")
