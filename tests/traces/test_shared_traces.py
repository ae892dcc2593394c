"""Every shared trace of GPUYARD_DATA, read whole through its preset."""

from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sim.jobs import ANY_TYPE, CANCELLED
from sim.traces.csv_reader import trace_csv
from tests.traces.trace_samples import DATA, catalogue, preset, setting

# preset -> file, jobs, jobs left out, largest gang
TRACES = {
    "philly": ("traces/philly_jobs.csv.gz", 79_515, 0, 128),
    "helios_venus": ("traces/helios_venus_jobs.csv.gz", 99_707, 0, 200),
    "alibaba_pai_tasks": ("traces/alibaba_pai_tasks.csv.gz", 42_409, 0, 400),
    "alibaba_openb": ("traces/alibaba_openb_pods.csv.gz", 5_585, 936, 8),
    "alibaba_lingjun_jobs": ("traces/alibaba_lingjun_jobs.csv.gz", 1_257, 0, 744),
    "alibaba_dag_tasks": ("dag/alibaba2018_tasks_1h.csv.gz", 54_756, 0, 16),
    "sia_newtrace": ("traces/sia_workloads_newtrace.csv.gz", 960, 5_760, 16),
    "sia_saturn": ("traces/sia_workloads_saturn.csv.gz", 160, 960, 16),
    "sia_philly": ("traces/sia_workloads_philly.csv.gz", 160, 800, 16),
    "tiresias": ("traces/tiresias_60_job.csv", 60, 0, 8),
}
KINDS = ("p100", "v100")
SETTING = setting(
    gpus=2496, partitions=4, gpu_types=KINDS,
    catalogue=catalogue("ResNet-50/16", "LM/5", gpu_types=KINDS),
)  # fmt: skip


def workload(name: str, *options: str):
    """The preset on its shared file."""
    path = DATA / TRACES[name][0]
    if not path.exists():
        pytest.skip(f"GPUYARD_DATA has no {TRACES[name][0]}")
    return preset(name, f"path={path}", *options)


@cache
def read(name: str):
    """The trace and the notes of the shared file."""
    source = workload(name)
    return source._reader.read(
        path=source._path, columns=source._columns, name=name, strict=source._strict
    )


@pytest.mark.parametrize("name", TRACES)
def test_a_shared_trace_is_read_whole_and_makes_a_job_table_and_windows(name: str) -> None:
    _, jobs, left_out, largest = TRACES[name]
    trace, notes = read(name)
    assert len(trace) == jobs
    assert sum(notes.left_out.values()) == left_out
    assert notes.rows == jobs + left_out
    assert trace.num_gpus.max() == largest
    assert np.all(np.diff(trace.submit_s) >= 0)
    options = ["max_gang=64", "load=0.8", "num_jobs=20", "thin=2"]
    if name == "alibaba_openb":  # nearly all pods come late
        options.append("window.start_s=9.3e6")
    source = workload(name, *options)
    source._reader = SimpleNamespace(read=lambda **_: (trace, notes))  # read already
    whole = source.whole(setting=SETTING, seed=0)
    assert 0.98 * jobs < len(whole) <= jobs
    window = source.window(part="train", index=0, setting=SETTING, seed=0)
    assert 20 <= len(window) <= 20 + (100 if name == "alibaba_dag_tasks" else 0)
    assert window.num_gpus.max() <= 64


def test_openb_shares_types_and_pods_that_never_ran() -> None:
    trace, _ = read("alibaba_openb")
    assert np.mean(trace.gpu_milli < 1000) == pytest.approx(0.40, abs=0.03)
    assert np.mean(trace.gpu_types != "") == pytest.approx(0.33, abs=0.02)
    never = np.isfinite(trace.withdraw_s)
    assert np.all(trace.duration_s[never] == 0)
    assert set(trace.outcome[never].tolist()) == {CANCELLED}
    table = workload("alibaba_openb").whole(setting=SETTING, seed=0)
    masks = set(table.demands.type_mask.tolist())
    assert masks == {ANY_TYPE, 0b01, 0b10, 0b11}  # P100, V100M16 or V100M32, both


def test_the_batch_dags_have_the_published_shape() -> None:
    trace, _ = read("alibaba_dag_tasks")
    links = trace.precedence
    tasks = np.unique(links.workflow, return_counts=True)[1]
    assert len(tasks) == 13_316
    assert np.median(tasks) == 3
    assert tasks.max() == 91
    owner = np.repeat(np.arange(len(trace)), np.diff(links.first))
    assert np.all(links.workflow[owner] == links.workflow[links.parents])
    assert np.all(trace.submit_s[owner] == trace.submit_s[links.parents])


def test_a_shared_trace_survives_writing(tmp_path: Path) -> None:
    trace, _ = read("alibaba_dag_tasks")
    path = tmp_path / "again.csv"
    path.write_text(trace_csv(trace))
    names = ("outcome", "parents", "workflow")
    again = preset("csv", f"path={path}", *(f"columns.{name}={name}" for name in names[1:]))
    table = again.whole(setting=SETTING, seed=0)
    assert table.precedence.parents.tolist() == trace.precedence.parents.tolist()
