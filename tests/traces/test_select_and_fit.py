"""Choosing jobs of a trace, making them fit a cluster, and their homes in it."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import gpuyard
from sim.errors import TraceError
from sim.traces.prepare import cap, homes_by_vc, offered_load, scale_load
from sim.traces.setting import Owners
from sim.traces.trace import split, thinned_window, time_window, without_vcs
from tests.traces.trace_samples import HEADER, caps, trace_of

PARTS = {"train": 0.5, "validation": 0.15, "test": 0.35}


submissions = st.lists(st.floats(0, 1e6), min_size=2, max_size=60).map(sorted)


def test_a_gang_above_the_capacity_names_job_gang_capacity_and_both_fixes() -> None:
    trace = trace_of([0, 1, 2], num_gpus=[1, 16, 32])
    words = (
        r"job j1: a gang of 16 GPUs cannot run on a cluster of 8 GPUs \(2 such jobs in trace "
        r"small\); set workload\.max_gang=8 .*workload\.drop_too_large=true"
    )
    with pytest.raises(TraceError, match=words):
        cap(trace, caps(), 8)


def test_gangs_are_capped_or_dropped_and_drops_are_counted() -> None:
    trace = trace_of([0, 1, 2], num_gpus=[1, 16, 32], duration_s=[1.0, 2.0, 3.0])
    capped, dropped = cap(trace, caps(max_gang=4), 8)
    assert (capped.num_gpus.tolist(), dropped) == ([1, 4, 4], 0)
    assert capped.duration_s.tolist() == [1.0, 2.0, 3.0]
    kept, dropped = cap(trace, caps(drop_too_large=True), 16)
    assert (list(kept.job_id), dropped) == (["j0", "j1"], 1)
    assert trace.num_gpus.tolist() == [1, 16, 32]  # the input is untouched


def test_dropping_every_job_is_an_error() -> None:
    with pytest.raises(TraceError, match=r"leaves no job; set workload\.max_gang=8"):
        cap(trace_of([0], num_gpus=[9]), caps(drop_too_large=True), 8)


def test_durations_are_clipped_from_both_sides() -> None:
    trace = trace_of([0, 1, 2], duration_s=[0.0, 50.0, 900.0])
    capped, _ = cap(trace, caps(min_duration_s=30.0, max_duration_s=60.0), 8)
    assert capped.duration_s.tolist() == [30.0, 50.0, 60.0]
    never_began = replace(trace, withdraw_s=np.array([10.0, 5.0, np.inf]))
    capped, _ = cap(never_began, caps(min_duration_s=30.0, max_duration_s=60.0), 8)
    assert capped.duration_s.tolist() == [0.0, 50.0, 60.0]


def test_a_time_window_is_half_open_and_either_end_may_be_missing() -> None:
    trace = trace_of([0, 1, 2, 3])
    assert list(time_window(trace, 1.0, 3.0).job_id) == ["j1", "j2"]
    assert list(time_window(trace, None, 1.0).job_id) == ["j0"]
    assert len(time_window(trace, None, None)) == 4
    with pytest.raises(TraceError, match=r"no job in workload\.window \[7, inf\).*0 to 3 s"):
        time_window(trace, 7.0, None)


def test_virtual_clusters_are_left_out_by_name() -> None:
    trace = trace_of([0, 1, 2], vc=["alpha", "beta", ""])
    assert list(without_vcs(trace, ["alpha"]).job_id) == ["j1", "j2"]
    assert without_vcs(trace, []) is trace
    with pytest.raises(TraceError, match="'alpa', which has no job; did you mean 'alpha'"):
        without_vcs(trace, ["alpa"])
    with pytest.raises(TraceError, match="leaves no job"):
        without_vcs(trace, ["alpha", "beta", ""])


def test_parts_take_their_share_of_the_time_span() -> None:
    trace = trace_of(list(range(101)))
    sizes = {part: len(split(trace, part, PARTS)) for part in PARTS}
    assert sizes == {"train": 50, "validation": 15, "test": 36}


@given(submit_s=submissions)
def test_parts_are_disjoint_in_time_and_hold_every_job_once(submit_s: list[float]) -> None:
    trace = trace_of(submit_s)
    seen: list[str] = []
    last_s = -1.0
    for part in PARTS:
        try:
            piece = split(trace, part, PARTS)
        except TraceError:
            continue
        assert piece.submit_s[0] > last_s
        last_s = float(piece.submit_s[-1])
        seen += list(piece.job_id)
    assert seen == list(trace.job_id)


def test_wrong_parts_and_shares_are_named() -> None:
    trace = trace_of([0, 1, 2])
    with pytest.raises(TraceError, match="part 'tets' is unknown; did you mean 'test'"):
        split(trace, "tets", PARTS)
    with pytest.raises(TraceError, match=re.escape("shares must be above 0, sum 1")):
        split(trace, "a", {"a": 0.5, "b": 0.6})
    with pytest.raises(TraceError, match="no job falls into part 'validation'"):
        split(trace_of([0, 2]), "validation", PARTS)


@given(
    jobs=st.integers(1, 80), num_jobs=st.integers(1, 40), thin=st.integers(1, 5),
    seed=st.integers(0, 1000),
)  # fmt: skip
def test_a_thinned_window_is_a_sorted_sample_of_a_short_stretch(
    jobs: int, num_jobs: int, thin: int, seed: int
) -> None:
    trace = trace_of(list(range(jobs)))
    if jobs < num_jobs:
        with pytest.raises(TraceError, match=rf"needs {num_jobs} jobs, this part has {jobs};"):
            thinned_window(trace, num_jobs, thin, np.random.default_rng(seed))
        return
    kept = thinned_window(trace, num_jobs, thin, np.random.default_rng(seed))
    assert len(set(kept.job_id)) == num_jobs
    assert np.all(np.diff(kept.submit_s) > 0)
    assert kept.submit_s[-1] - kept.submit_s[0] < thin * num_jobs


def test_thinned_windows_reach_the_whole_trace_and_differ() -> None:
    trace = trace_of(list(range(100)))
    rng = np.random.default_rng(3)
    windows = [thinned_window(trace, 5, 2, rng) for _ in range(400)]
    seen = np.unique(np.concatenate([window.submit_s for window in windows]))
    assert (seen[0], seen[-1]) == (0.0, 99.0)
    assert len({window.submit_s.tobytes() for window in windows}) > 350


@given(
    submit_s=submissions, load=st.floats(0.05, 3), gpus=st.integers(1, 512),
    lengths=st.data(),
)  # fmt: skip
@settings(max_examples=60)
def test_scaling_gives_the_load_by_one_factor(submit_s, load, gpus, lengths) -> None:
    assume(submit_s[-1] - submit_s[0] > 1e-3)
    jobs = len(submit_s)
    gangs = lengths.draw(st.lists(st.integers(1, 64), min_size=jobs, max_size=jobs))
    trace = trace_of(submit_s, num_gpus=gangs)
    scaled = scale_load(trace, load, gpus)
    assert offered_load(scaled, gpus) == pytest.approx(load)
    assert scaled.submit_s[0] == 0.0
    before_s, after_s = trace.submit_s - trace.submit_s[0], scaled.submit_s
    assert np.allclose(after_s * before_s[-1], before_s * after_s[-1])
    assert scaled.duration_s.tolist() == trace.duration_s.tolist()


def test_a_load_by_hand() -> None:
    # 2 GPUs for 10 s and 1 GPU for 30 s on 5 GPUs: 50 GPU-s; load 0.5 needs a span of 20 s
    trace = trace_of([100, 104, 108], num_gpus=[2, 1, 1], duration_s=[10.0, 30.0, 0.0])
    assert scale_load(trace, 0.5, 5).submit_s.tolist() == [0.0, 10.0, 20.0]


@pytest.mark.parametrize("load", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_loads(load: float) -> None:
    with pytest.raises(TraceError, match=r"workload\.load is .*above 0"):
        scale_load(trace_of([0, 1]), load, 8)


def test_jobs_whose_load_cannot_be_scaled() -> None:
    for trace in (trace_of([5, 5]), trace_of([5]), trace_of([0, 1], duration_s=[0.0, 0.0])):
        with pytest.raises(TraceError, match=r"set workload\.load=null"):
            scale_load(trace, 0.9, 8)


TWO = np.array([8, 8])


@pytest.mark.parametrize(
    ("gpu_milli", "of_group", "home"),
    [
        (None, {}, [0, 1, 1, 1]),  # a: 4 GPUs, b: 1 + 1, c: 2, dealt by their work
        ([100, 1000, 1000, 1000], {}, [0, 0, 1, 0]),  # a: 0.4 GPUs
        (None, {"b": 0, "a": 1}, [1, 0, 0, 0]),  # a group of servers takes the one of its name
    ],
)
def test_virtual_clusters_are_dealt_to_partitions(gpu_milli, of_group, home) -> None:
    made = trace_of(range(4), num_gpus=[4, 1, 2, 1], vc="abcb")
    if gpu_milli is not None:
        made = replace(made, gpu_milli=np.array(gpu_milli))
    assert homes_by_vc(made, Owners(partition_gpus=TWO, of_group=of_group)).tolist() == home


def test_jobs_that_name_none_are_refused() -> None:
    with pytest.raises(TraceError, match=r"agents\.homes=drawn"):
        homes_by_vc(trace_of([0]), Owners(partition_gpus=TWO, of_group={}))


def test_any_run_can_have_homes_by_virtual_cluster(tmp_path) -> None:
    path = tmp_path / "jobs.csv"
    rows = [f"{job},{job},1,60,{'ab'[job % 2]}" for job in range(8)]
    path.write_text("\n".join([f"{HEADER},vc", *rows]))
    words = ["agents.homes=vc", "workload.columns.vc=vc"]
    run = gpuyard.simulate(path, "small_leaf_spine", "fifo", agents=2, overrides=words)
    assert run.jobs["home"].tolist() == [0, 1] * 4
