"""One case played by compiled code and by Python."""

from collections.abc import Callable

from hypothesis import reject

from sim.errors import EndlessRun, SimulationError
from sim.protocols import Scheduler
from sim.run import Run
from sim.simulator import Simulator, simulate
from tests.oracle.cases import Case
from tests.oracle.forms import by_hand
from tests.sim import same_runs

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
    """Of one scheduler, after as many decisions."""
    assert (mine.scheduler, mine.decisions) == (theirs.scheduler, theirs.decisions)
    same_runs.assert_same(mine, theirs)
