"""Running one case in the kernel and in the reference, and comparing line by line."""

import math
from collections.abc import Callable

from hypothesis import reject

from sim.errors import EndlessRun, SimulationError
from sim.jobs import CANCELLED
from sim.protocols import Scheduler
from sim.run import Kind, Run
from sim.simulator import Simulator, simulate
from tests.oracle.cases import Case
from tests.oracle.forms import by_hand
from tests.oracle.reference import ReferenceSimulator, Stuck
from tests.oracle.reference_job import Event, ReferenceJob
from tests.oracle.watching import Watching


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
