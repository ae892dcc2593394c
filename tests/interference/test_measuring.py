"""Parts of measuring that need no process: plans, windows, tables, what nvidia-smi says."""

import math

import numpy as np
import pytest
import torch

from interference.data_sets import rows_of_csv, write_csv
from interference.measuring import table, together
from interference.measuring import training_loops as loops
from interference.measuring.table import Group, groups_to_measure, tables_of
from interference.measuring.together import Device, MeasureError, Ran, Together, Use, find_device

CPU = Device(form="cpu", gpu_type="cpu_1_core", how="cpu_cores", cores=(0,))
GPU = Device(form="cuda", gpu_type="X100", how="mps", uuid="GPU-0")


def test_a_plan_has_each_group_once_and_loops_alone_first():
    groups = groups_to_measure(["b/1", "a/2"], "all", [["b/1", "a/2", "b/1"]])
    assert [group.members for group in groups] == [
        ("b/1",), ("a/2",), ("b/1", "b/1"), ("a/2", "b/1"), ("a/2", "a/2"), ("a/2", "b/1", "b/1"),
    ]  # fmt: skip
    assert [group.number for group in groups] == list(range(6))
    assert len(groups_to_measure(["a/1"], [["a/1", "a/1"]] * 2, [])) == 2
    many = [f"a/{batch}" for batch in range(1, 9)]
    assert groups_to_measure(many, [], [many[:7]])[-1].members == tuple(many[:7])
    with pytest.raises(MeasureError, match="or more than 7"):  # no reader takes it
        groups_to_measure(many, [], [many])


@pytest.mark.parametrize("name", ["a", "a/", "/1", "a/0", "a/x", "a+b/1"])
def test_a_profile_is_model_and_batch(name):
    with pytest.raises(MeasureError, match="is no model/batch"):
        groups_to_measure([name], "all", [])


def test_speeds_are_taken_while_all_loops_run():
    # seconds   0    1    2    3    4    5    6
    # first     |----|----|----|----|----|           ends first, at 5
    # second         |---------|---------|----------|  (steps of 2 s, begins at 1)
    first = Ran(np.arange(6.0), np.array([0.0, 1.0, 1.0, 1.0, 1.0, 1.0]))
    second = Ran(np.array([1.0, 3.0, 5.0, 7.0]), np.array([0.0, 1.0, 2.0, 3.0]))
    speeds = together.common_speeds([first, second], warmup_s=0.5)
    assert speeds.window_s == pytest.approx(3.5)  # 1.5 to 5
    assert speeds.steps_per_s == pytest.approx((1.0, 0.5))
    assert speeds.busy == pytest.approx((0.0, 0.5))
    # Who is faster after the others ended gains nothing.
    slow, late = Ran(np.array([0.0, 2, 4]), np.zeros(3)), Ran(np.array([0.0, 2, 4, 4.1, 4.2, 4.3]),
                                                             np.zeros(6))  # fmt: skip
    assert together.common_speeds([slow, late], 0.0).steps_per_s == pytest.approx((0.5, 0.5))


@pytest.mark.parametrize("make", ["mlp", "cnn", "lstm", "transformer", "recommender"])
def test_models_learn(make):
    """The loss of the batches it sees falls; its steps take the path that is timed."""
    torch.manual_seed(0)
    work = getattr(loops, make)("cpu", 8)
    batch = work.batch(torch.Generator().manual_seed(0))
    assert all(len(part) == 8 for part in batch)
    step = loops.steps_of(work, "cpu", seed=0)
    before = [parameter.clone() for parameter in work.model.parameters()]
    start = mean_loss(work, batch)
    for _ in range(40):
        step()
    assert mean_loss(work, batch) < start
    changed = [not a.equal(b) for a, b in zip(before, work.model.parameters(), strict=True)]
    assert all(changed)


def mean_loss(work, batch) -> float:
    torch.manual_seed(1)  # dropout
    with torch.no_grad():
        return float(work.loss(work.model, batch))


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (MemoryError(), True),
        (torch.cuda.OutOfMemoryError("CUDA out of memory"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"), True),
        (RuntimeError("shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_out_of_memory_is_told_from_other_errors(error, is_memory):
    assert together.is_out_of_memory(error) is is_memory


@pytest.mark.parametrize("path", ["mlp", "no.such.module", f"{loops.__name__}.nothing"])
def test_a_maker_that_is_not_there_is_named(path):
    with pytest.raises(MeasureError, match=path):
        together.run_loop(together.LoopTask("a/1", path, 1, "cpu", (), 0), 0, None)


def test_use_is_read_from_the_lines_of_nvidia_smi():
    lines = ["50, 20, 1000", "100, 40, 3000", "90, 1"]  # the last line is cut
    assert together.use_of(lines, 400.0) == Use(
        gpu_util=0.75, gmem_util=pytest.approx(0.3), gmem_mib=2600.0
    )
    partly = together.use_of(["[N/A], [N/A], 700"], 0.0)
    assert math.isnan(partly.gpu_util) and partly.gmem_mib == 700.0
    assert math.isnan(together.use_of([], 0.0).gmem_mib)


def test_programs_of_nvidia_are_asked_where_they_are(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert math.isnan(together.memory_held_mib("GPU-0"))
    with together.watching("GPU-0") as lines:
        pass
    assert lines == []
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    fake(
        tmp_path / "nvidia-smi",
        'echo \'80, 30, 900\'; touch "$0.ran"; test -z "$4" || exec sleep 60',
    )
    assert together.memory_held_mib("GPU-0") == 900.0
    (tmp_path / "nvidia-smi.ran").unlink()
    with together.watching("GPU-0") as lines:
        while not (tmp_path / "nvidia-smi.ran").exists():
            pass
    assert lines == ["80, 30, 900"]
    with together.watching(None) as lines:
        pass
    assert lines == []


def test_a_step_of_a_gpu_ends_when_the_next_is_under_way():
    happened = []

    class Event:
        def __init__(self):
            self.number = sum(what == "mark" for what, _ in happened)
            happened.append(("mark", self.number))

        def synchronize(self):
            happened.append(("wait", self.number))

    step = loops.steps_of(loops.mlp("cpu", 1), "cpu", 0, mark=Event)
    stamps_s = [step() for _ in range(3)]
    assert happened == [("mark", 0), ("mark", 1), ("wait", 0), ("mark", 2), ("wait", 1)]
    assert stamps_s == sorted(stamps_s)


def test_auto_takes_the_gpu_where_there_is_one(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    cuda = tmp_path / "torch" / "cuda.py"  # of a PyTorch that knows no GPU
    cuda.touch()
    assert find_device("auto", 1).form == "cpu"
    with pytest.raises(MeasureError, match="device=cpu"):
        find_device("cuda", 1)
    cuda.write_text("""
class get_device_properties:
    name = "X100"

    def __init__(self, number):
        self.uuid = number
""")
    assert find_device("cuda", 1) == GPU._replace(how="time_slicing")
    fake(tmp_path / "nvidia-cuda-mps-control", "exit 1")
    assert find_device("auto", 1).how == "time_slicing"
    fake(tmp_path / "nvidia-cuda-mps-control", 'read word; test "$word" = get_server_list')
    assert find_device("auto", 1) == GPU
    assert find_device("cpu", 1).form == "cpu"


def fake(path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def ran(*speeds: float, use: Use | None = None) -> Together:
    if len(speeds) == 1 and use is None:
        use = Use(0.5, math.nan, math.nan)
    return Together(len(speeds) > 0, 1.0, speeds, (0.5,) * len(speeds), use, "")


A, B, BOTH = Group(0, ("a/1",)), Group(1, ("b/1",)), Group(2, ("a/1", "b/1"))
MEASURED = {
    A: {0: ran(10.0), 1: ran(20.0)},
    B: {0: ran(4.0), 1: ran(8.0)},
    BOTH: {0: ran(5.0, 3), 1: ran(8.0, 4)},
}


def test_each_round_is_compared_with_itself_and_the_files_are_read_again(tmp_path):
    rows, solos, odd = tables_of(MEASURED, CPU)
    told = zip(rows.group, rows.victim, rows.aggressors, rows.measured, strict=True)
    assert list(told) == [
        (0, "a/1", (), False), (1, "b/1", (), False),
        (2, "a/1", ("b/1",), True), (2, "b/1", ("a/1",), True),
    ]  # fmt: skip
    # a: 5/10 and 8/20; b: 3/4 and 4/8
    assert rows.norm_speed.tolist() == pytest.approx([1.0, 1.0, 0.45, 0.625])
    assert solos.step_s.tolist() == pytest.approx([(0.1 + 0.05) / 2, (0.25 + 0.125) / 2])
    assert (solos.gpu_util.tolist(), set(solos.source)) == ([0.5, 0.5], {"own_cpu_cores"})
    assert np.isnan(solos.gmem_mib).all()
    assert odd == []
    write_csv(tmp_path, rows, solos)
    again, _ = rows_of_csv(tmp_path)
    np.testing.assert_array_equal(again.norm_speed, rows.norm_speed)


def test_groups_that_once_did_not_fit_or_were_cut_short_or_say_nothing():
    rows, _, _ = tables_of(MEASURED | {BOTH: MEASURED[BOTH] | {1: ran()}}, CPU)
    assert rows.feasible.tolist() == [True, True, False, False]
    assert np.isnan(rows.norm_speed[2:]).all()
    # A profile that once did not fit alone is in no row.
    rows, _, _ = tables_of(MEASURED | {B: MEASURED[B] | {1: ran()}}, CPU)
    assert (rows.victim.tolist(), rows.aggressors.tolist()) == (["a/1"], [()])
    rows, solos, _ = tables_of({A: {0: ran()}}, CPU)
    assert (len(rows), len(solos)) == (0, 0)
    # A round that was cut short does no harm.
    rows, _, _ = tables_of(MEASURED | {BOTH: {0: ran(5.0, 3)}}, CPU)
    assert rows.norm_speed[2:].tolist() == pytest.approx([0.5, 0.75])
    # Twice as fast as alone: somebody else slowed it then, and readers refuse such a speed.
    rows, _, odd = tables_of(MEASURED | {BOTH: {0: ran(21.0, 3)}}, CPU)
    assert (rows.victim.tolist(), odd) == (["a/1", "b/1"], [BOTH])


def test_use_of_a_gpu_is_that_of_the_loop_alone():
    uses = Use(0.5, 0.2, 900.0), Use(0.7, 0.4, 1000.0)
    _, solos, _ = tables_of({A: {i: ran(10.0, use=use) for i, use in enumerate(uses)}}, GPU)
    assert (solos.gpu_util[0], solos.gmem_util[0]) == pytest.approx((0.6, 0.3))
    assert (solos.gmem_mib[0], solos.source[0]) == (1000.0, "own_mps")


def test_a_stored_group_comes_back(tmp_path):
    path = tmp_path / "parts" / "x.json"
    assert table.read_part(path) is None
    for stored in (MEASURED[BOTH][0], ran(1.0, use=Use(0.5, 0.2, 900.0))):
        table.write_part(path, stored)
        assert table.read_part(path) == stored
    path.write_text("{}")
    with pytest.raises(MeasureError, match="remove it to measure again"):
        table.read_part(path)
