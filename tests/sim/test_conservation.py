"""What no scheduler can change: GPU-seconds, tenants, work, and that equal seeds are equal."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.event_log import Kind
from sim.run import Run
from sim.simulator import Simulator, simulate
from tests.oracle.cases import Case, cases
from tests.oracle.catalogue import ORDERS, PLACERS, SHARINGS
from tests.oracle.random_decider import RandomDecider


def anything(case: Case, seed: int) -> Run:
    return simulate(Simulator(**case.arguments()), RandomDecider(whims=60), seed, None)


def best_speed(case: Case) -> np.ndarray:
    """(J,) an upper bound: no communication, no neighbour, the fastest GPU type."""
    reference_s = Simulator(**case.arguments()).state.job["reference_step_s"]
    return reference_s / case.physics.catalogue.compute_s.min(axis=1)[case.jobs.profile]


@settings(max_examples=60)
@given(case=cases(most_partitions=3), seed=st.integers(0, 99))
def test_gpu_seconds_tenants_and_starts(case: Case, seed: int) -> None:
    run = anything(case, seed)
    holders: Counter[int] = Counter()
    began: dict[int, float] = {}
    gpu_s, starts = 0.0, Counter()
    rows = zip(run.log.time_s, run.log.kind, run.log.job.tolist(), run.log.gpus, strict=True)
    for time_s, kind, job, gpus in rows:
        if kind == Kind.START:
            assert job not in began and len(set(gpus.tolist())) == run.jobs.num_gpus[job]
            began[job] = time_s
            starts[job] += 1
            holders.update(gpus.tolist())
            assert max(holders.values()) <= case.rules.max_tenants
        elif kind in (Kind.FINISH, Kind.PREEMPT):
            gpu_s += (time_s - began.pop(job)) * len(gpus)
            holders.subtract(gpus.tolist())
    assert not began and not any(holders.values())
    assert gpu_s == pytest.approx(float(run.run_s @ run.jobs.num_gpus))
    assert [starts[job] for job in range(len(run.jobs))] == (run.preemptions + 1).tolist()
    assert np.all(np.diff(run.log.time_s) >= 0)
    assert np.all(run.forwards <= case.rules.max_forwards)


@settings(max_examples=40)
@given(case=cases(most_partitions=2, physics=True), seed=st.integers(0, 99))
def test_nobody_is_faster_than_the_best_gpu_alone(case: Case, seed: int) -> None:
    run = anything(case, seed)
    least_s = run.jobs.duration_s / best_speed(case)
    assert np.all(run.run_s >= least_s * (1 - 1e-9))
    assert np.all(run.finish_s - run.jobs.submit_s >= least_s * (1 - 1e-9))


@settings(max_examples=40)
@given(case=cases(most_partitions=2, physics=False), seed=st.integers(0, 99))
def test_preemption_saves_the_work_and_costs_at_most_a_restart(case: Case, seed: int) -> None:
    run = anything(case, seed)
    extra_s = run.run_s - run.jobs.duration_s
    assert np.all(extra_s >= -1e-9)
    assert np.all(extra_s <= run.preemptions * case.rules.restart_s + 1e-9)


@pytest.mark.parametrize("order", sorted(set(ORDERS) - {"las", "srtf"}))
@settings(max_examples=10)
@given(case=cases(most_partitions=1, physics=False), sharing=st.sampled_from(sorted(SHARINGS)))
def test_without_physics_a_job_runs_for_its_duration_exactly(
    order: str, case: Case, sharing: str
) -> None:
    scheduler = ORDERS[order](PLACERS["packed"](), SHARINGS[sharing]())
    run = simulate(Simulator(**case.arguments()), scheduler, 0, None)
    assert np.array_equal(run.finish_s, run.start_s + run.jobs.duration_s)
    assert np.all(run.start_s >= run.jobs.submit_s)
    assert not run.preemptions.any()


@settings(max_examples=25)
@given(case=cases(most_partitions=3), seed=st.integers(0, 99))
def test_equal_seeds_give_equal_bytes(case: Case, seed: int) -> None:
    one, two = anything(case, seed), anything(case, seed)
    for column in ("time_s", "kind", "job", "partition"):
        assert getattr(one.log, column).tobytes() == getattr(two.log, column).tobytes()
    assert [g.tobytes() for g in one.log.gpus] == [g.tobytes() for g in two.log.gpus]
