"""Compiled schedulers against the Python ones: the same log, byte for byte."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import SimulationError
from sim.protocols import Scheduler
from sim.run import Run
from sim.simulator import Simulator, simulate
from tests.oracle.cases import Case, cases
from tests.oracle.catalogue import ORDERS, PLACERS, SHARINGS

COMPILED_ORDERS = ("fifo", "fifo_skip", "sjf", "smallest_gang", "srtf", "las", "load_balance")
COMPILED_PLACERS = ("first_fit", "worst_fit", "consolidated", "packed", "least_loaded")


def played(case: Case, scheduler: Scheduler, compiled: bool) -> Run:
    """The run, or as far as it got before it was stuck."""
    simulator = Simulator(**case.arguments())
    assert simulator.plan_of(scheduler) is not None or not compiled
    try:
        return simulate(simulator, scheduler, 0, None, compiled=compiled)
    except SimulationError as error:
        assert "wait forever" in str(error)
        return simulator.outcome(str(error), -1, 0.0, 0.0)


def assert_same_run(case: Case, make: Callable[[], Scheduler]) -> Run:
    mine, theirs = played(case, make(), True), played(case, make(), False)
    assert mine.scheduler == theirs.scheduler
    assert mine.decisions == theirs.decisions
    for column in ("time_s", "kind", "job", "partition"):
        assert getattr(mine.log, column).tobytes() == getattr(theirs.log, column).tobytes(), column
    assert [gpus.tolist() for gpus in mine.log.gpus] == [gpus.tolist() for gpus in theirs.log.gpus]
    for column in ("start_s", "finish_s", "run_s", "preemptions", "lost_s", "comm_s"):
        assert np.array_equal(getattr(mine, column), getattr(theirs, column), equal_nan=True)
    return mine


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize("placer", COMPILED_PLACERS)
@pytest.mark.parametrize("order", COMPILED_ORDERS)
@settings(max_examples=25)
@given(data=st.data())
def test_every_order_with_every_placer_and_sharing(
    order: str, placer: str, sharing: str, data: st.DataObject
) -> None:
    case = data.draw(cases(most_partitions=1))
    if sharing == "selective" and case.rules.max_tenants > 2:
        return  # left to Python: see the test below
    assert_same_run(case, lambda: ORDERS[order](PLACERS[placer](), SHARINGS[sharing]()))
