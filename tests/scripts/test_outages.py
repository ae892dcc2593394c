"""`outages=` on the command line: every file of the group builds, and changes what happens."""

import json
from pathlib import Path

import pandas as pd

ONE_SERVER = (
    "topology=small_leaf_spine", "topology.servers=1", "topology.servers_per_rack=1",
    "interference=none", "network=none", "workload=csv",
)  # fmt: skip


def finishes(outcome) -> dict[str, float]:
    assert outcome.status == 0, outcome.err
    jobs = pd.read_parquet(outcome.folder / "jobs.parquet")
    return dict(zip(jobs["job_id"], jobs["finish_s"], strict=True))


def test_a_file_of_changes_moves_what_runs(start, trace, tmp_path: Path):
    # a (0 to 10) and b (1 to 11) lose all they did at 5; back at 6 they pay no restart and start
    # anew: 16 both. c (0 s) ends then; d, 5 s, comes at 30, is sent away at 32 with 2 s done, and
    # ends 3 s after 40.
    changes = tmp_path / "changes.csv"
    changes.write_text("time_s,server,change\n5,0,fail\n6,0,open\n32,0,close\n40,0,open\n")
    words = (*ONE_SERVER, f"workload.path={trace}", "restart_s=0", "outages=file")
    outcome = start("simulate", *words, f"outages.path={changes}")
    assert finishes(outcome) == {"a": 16.0, "b": 16.0, "c": 16.0, "d": 43.0}
    metrics = json.loads((outcome.folder / "metrics.json").read_text())
    assert metrics["jobs_finished"] == 4


def test_a_bad_line_is_named(start, trace, tmp_path: Path):
    changes = tmp_path / "changes.csv"
    changes.write_text("time_s,server,change\n5,9,fail\n")
    words = (*ONE_SERVER, f"workload.path={trace}", "outages=file", f"outages.path={changes}")
    start("simulate", *words).failed_with(f"{changes}:2: server is '9'")


def test_maintenance_closes_the_server_in_its_turn(start, trace):
    words = (*ONE_SERVER, f"workload.path={trace}", "restart_s=0", "outages=maintenance",
             "outages.first_s=5", "outages.duration_s=1", "outages.every_s=1000")  # fmt: skip
    assert finishes(start("simulate", *words)) == {"a": 11.0, "b": 12.0, "c": 12.0, "d": 35.0}


def test_failures_are_seeded(start, trace):
    words = (*ONE_SERVER, f"workload.path={trace}", "restart_s=0", "outages=failures",
             "outages.mtbf_s=8", "outages.repair_median_s=1", "outages.horizon_s=40")  # fmt: skip
    one, again = (finishes(start("simulate", *words, folder=name)) for name in ("one", "again"))
    assert one == again
    assert one["a"] > 10.0
    start("simulate", *words, "outages.shape=0", folder="bad").failed_with("outages.shape is 0")


def test_failures_and_maintenance_together_are_each_of_them_where_the_other_is_silent(start, trace):
    words = (*ONE_SERVER, f"workload.path={trace}", "restart_s=0")
    silent = ("outages=both", "outages.failures.horizon_s=1e-9")
    closed = ("outages.maintenance.first_s=5", "outages.maintenance.duration_s=1",
              "outages.maintenance.every_s=1000")  # fmt: skip
    joint = finishes(start("simulate", *words, *silent, *closed, folder="closed"))
    assert joint == {"a": 11.0, "b": 12.0, "c": 12.0, "d": 35.0}
    fails = ("mtbf_s=8", "repair_median_s=1", "horizon_s=40")
    alone = start("simulate", *words, "outages=failures", *(f"outages.{f}" for f in fails))
    never = ("outages=both", "outages.maintenance.first_s=1e9")
    joint = start("simulate", *words, *never, *(f"outages.failures.{f}" for f in fails),
                  folder="failing")  # fmt: skip
    assert finishes(joint) == finishes(alone)
