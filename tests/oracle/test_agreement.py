"""The kernel against the reference simulator, line by line, on small random worlds."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from sim.decision import Decision
from sim.engine.composed import PartitionedScheduler
from sim.errors import EndlessRun, SimulationError
from sim.jobs import CANCELLED
from sim.protocols import Scheduler
from sim.run import Kind, Run
from sim.simulator import Simulator, simulate
from sim.view import ClusterView, Signal
from tests.oracle.cases import Case, cases
from tests.oracle.catalogue import FORWARDINGS, ORDERS, PLACERS, SHARINGS
from tests.oracle.forms import by_hand
from tests.oracle.random_decider import RandomDecider
from tests.oracle.reference import ReferenceSimulator, Stuck
from tests.oracle.reference_job import Event, ReferenceJob

OF_THE_CLUSTER = (
    "queued", "running", "tenants", "tenant", "server_free", "nic_jobs", "uplink_jobs",
    "server_closed", "server_cpu_free_milli", "server_memory_free_mib", "gpu_milli",
)  # fmt: skip
OF_JOBS = ("partition", "forwards", "preemptions", "remaining_s", "progress_s", "attained_gpu_s",
           "restarts")  # fmt: skip
OF_RUNNING = ("resume_s", "lease_end_s")


class Watching:
    """Records every view as plain numbers."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.name = scheduler.name
        self.needs = scheduler.needs | Signal.DURATION
        self.seen: list[dict[str, Any]] = []

    def reset(self, seed: int) -> None:
        self._scheduler.reset(seed)

    def decide(self, view: ClusterView) -> Decision:
        running = view.running.tolist()
        here, jobs = [*view.queued.tolist(), *running], view.jobs
        shown = {name: getattr(view, name).tolist() for name in OF_THE_CLUSTER}
        shown |= {name: getattr(jobs, name)[here].tolist() for name in OF_JOBS}
        shown |= {name: getattr(jobs, name)[running].tolist() for name in OF_RUNNING}
        gpus = [view.gpus_of(job).tolist() for job in running]
        limit = view.gpu_limit_milli
        self.seen.append({"now_s": view.now_s, "gpus": gpus, "gpu_limit_milli": limit, **shown})
        return self._scheduler.decide(view)


def events_of(run: Run) -> list[Event]:
    """A run's log as the reference writes it."""
    log = run.log
    return [
        Event(float(time_s), Kind(kind), int(job), int(partition), tuple(gpus.tolist()))
        for time_s, kind, job, partition, gpus in zip(
            log.time_s, log.kind, log.job, log.partition, log.gpus, strict=True
        )
    ]


def assert_agreement(case: Case, make: Callable[[], Scheduler], seed: int) -> Run:
    """Both simulators show the same views, log the same events, and reach the same outcome."""
    simulator, kernel_eye = Simulator(**case.arguments()), Watching(by_hand(make()))
    reference, reference_eye = ReferenceSimulator(**case.arguments()), Watching(by_hand(make()))
    stuck = []
    try:
        run = simulate(simulator, kernel_eye, seed, None)
    except EndlessRun:
        reject()  # the reference would not end either
    except SimulationError:
        run = simulator.outcome("stuck", 0, 0.0, 0.0)
        stuck.append("kernel")
    try:
        reference.run(reference_eye, seed)
    except Stuck:
        stuck.append("reference")
    assert stuck in ([], ["kernel", "reference"])
    assert events_of(run) == reference.events  # times to the last bit
    assert kernel_eye.seen == reference_eye.seen
    _assert_same_outcome(run, reference)
    return run


def _assert_same_outcome(run: Run, reference: ReferenceSimulator) -> None:
    for job in reference.jobs:
        row = job.row
        for mine, theirs in (
            (run.start_s[row], job.first_start_s),
            (run.finish_s[row], job.finish_s),
            (run.run_s[row], job.held_s),
            (run.run_gpu_s[row], job.held_gpu_s),
            (run.lost_s[row], job.lost_s / job.work_per_s),
            (run.comm_s[row], job.comm_s),
            (run.interference_s[row], job.slow_s),
            (run.preemptions[row], job.preemptions),
            (run.restarts[row], job.restarts),
            (run.forwards[row], job.forwards),
            (run.partition[row], job.partition),
            (run.outcome[row], _outcome(job)),
        ):
            assert mine == theirs or (math.isnan(mine) and math.isnan(theirs)), (row, mine, theirs)


def _outcome(job: ReferenceJob) -> int:
    return {"finished": job.outcome, "withdrawn": CANCELLED}.get(job.state, -1)


ANYTHING = st.one_of(
    cases(most_partitions=3), cases(most_partitions=3, life=True),
    cases(most_partitions=2, most_jobs=30, physics=True, mixes=True),  # three a GPU, scarce hosts
    cases(most_partitions=2, mixes=True, life=True),  # parts of GPUs, and servers that go away
)  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
@settings(max_examples=120)
@given(case=ANYTHING)
def test_anything_legal(seed: int, case: Case) -> None:
    assert_agreement(case, lambda: RandomDecider(whims=60), seed)


@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=60)
@given(
    case=ANYTHING,
    placer=st.sampled_from(sorted(PLACERS)),
    sharing=st.sampled_from(sorted(SHARINGS)),
    forwarding=st.sampled_from(sorted(FORWARDINGS)),
)
def test_every_order_with_any_rules(
    order: str, case: Case, placer: str, sharing: str, forwarding: str
) -> None:
    def make() -> Scheduler:
        child = ORDERS[order](PLACERS[placer](), SHARINGS[sharing]())
        if case.partition_of_server.max() == 0 and forwarding == "own":
            return child
        return PartitionedScheduler(child=child, forwarding=FORWARDINGS[forwarding]())

    assert_agreement(case, make, 1)
