"""One case played by compiled code and by Python."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from hypothesis import reject

from sim.errors import EndlessRun, SimulationError
from sim.jobs import Demands
from sim.protocols import Scheduler
from sim.run import Run
from sim.simulator import Simulator, simulate
from sim.topology.outages import NO_OUTAGES
from tests.oracle.cases import Case
from tests.oracle.forms import by_hand
from tests.sim.worlds import Job, cluster, world

Make = Callable[[], Scheduler]


def played(case: Case, scheduler: Scheduler, *, compiled: bool) -> Run:
    """The run, or as far as it got before it was stuck: then its name is the message."""
    simulator = Simulator(**case.arguments())
    assert not compiled or simulator.python_decides(scheduler) == ""
    try:
        return simulate(simulator, scheduler, 0, None, compiled=compiled)
    except EndlessRun:
        reject()  # noticed between calls of compiled code: where that is differs
    except SimulationError as error:
        return simulator.outcome(str(error), -1, 0.0, 0.0)


def assert_same_run(case: Case, make: Make) -> Run:
    """As compiled code plays it and by hand: the same log, byte for byte, and outcome."""
    mine = played(case, make(), compiled=True)
    assert_same(mine, played(case, by_hand(make()), compiled=False))
    return mine


def assert_same_decisions(case: Case, make: Make) -> Run:
    """As the engine decides for who asks, and by hand: the same log, byte for byte."""
    mine = played(case, make(), compiled=False)
    assert_same(mine, played(case, by_hand(make()), compiled=False))
    return mine


def assert_same(mine: Run, theirs: Run) -> None:
    assert mine.scheduler == theirs.scheduler
    assert mine.decisions == theirs.decisions
    for column in ("time_s", "kind", "job", "partition"):
        assert getattr(mine.log, column).tobytes() == getattr(theirs.log, column).tobytes(), column
    assert mine.log.gpus.first.tobytes() == theirs.log.gpus.first.tobytes()
    assert mine.log.gpus.ids.tobytes() == theirs.log.gpus.ids.tobytes()
    for column in ("start_s", "finish_s", "run_s", "preemptions", "lost_s", "comm_s", "outcome"):
        assert np.array_equal(getattr(mine, column), getattr(theirs, column), equal_nan=True)


def asking(jobs: Sequence[Job], demands: Demands | None) -> Simulator:
    """The jobs on two servers of two GPUs, each asking for what its row of `demands` says."""
    plain = world(jobs, cluster(2, 2))
    return Simulator(
        jobs=replace(plain.jobs, demands=demands), topology=plain.topology, physics=plain.physics,
        belief=plain.belief, partition_of_server=plain.partition_of_server, rules=plain.rules,
        outages=NO_OUTAGES,
    )  # fmt: skip
