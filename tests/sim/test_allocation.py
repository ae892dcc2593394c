"""A decision tried out shows what the state shows, whatever was tried out before."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.decision import Decision, Start
from sim.engine.occupancy import Occupancy
from sim.errors import GpuYardError, SimulationError
from sim.kernel.allocation import Allocation, allocation_of
from sim.simulator import Simulator, simulate
from sim.view import ClusterView, Signal, state_of
from tests.oracle.cases import Case, cases
from tests.oracle.random_decider import RandomDecider
from tests.sim.scripted import looked
from tests.sim.worlds import Job, cluster, world


def told(allocation: Allocation) -> list[list[object]]:
    """All that `Allocation` say of who holds what, but for versions."""
    free_gpus = [
        array.tolist() for name, array in allocation.free_gpus._asdict().items() if name != "cost"
    ]
    gpu, server = allocation.gpu, allocation.server
    columns = (gpu["tenants"], gpu["milli"], server["cpu_free_milli"], server["memory_free_mib"])
    return [*free_gpus, allocation.tenant.tolist(), *(column.tolist() for column in columns)]


def assert_shown(occupancy: Occupancy, view: ClusterView) -> None:
    assert told(occupancy._allocation) == told(allocation_of(state_of(view)).copied())


class Trying(RandomDecider):
    """Before it decides it moves half of the running jobs, in copies of copies."""

    def decide(self, view: ClusterView) -> Decision:
        first = Occupancy(view)
        assert_shown(first, view)
        moved = [job for job in view.running.tolist() if self._rng.random() < 0.5]
        first.vacate_all((job, view.gpus_of(job)) for job in moved)
        second = first.copy()
        for job in moved:
            gpus = view.gpus_of(job)
            if (second.exclusive(view, job).usable[gpus]).all():
                second.occupy(job, gpus)
                second.vacate(job, gpus)
        assert told(second._allocation) == told(first._allocation)
        third = second.copy()
        third.bar(np.arange(view.topology.num_gpus))
        assert not any(third.exclusive(view, job).usable.any() for job in view.queued.tolist())
        assert_shown(Occupancy(view), view)
        return super().decide(view)


@settings(max_examples=60)
@given(case=cases(most_partitions=3, most_jobs=15, life=True), seed=st.integers(0, 9))
def test_an_occupancy_is_the_state_whatever_was_tried_before(case: Case, seed: int) -> None:
    with contextlib.suppress(SimulationError):  # some jobs may wait for ever
        simulate(Simulator(**case.arguments()), Trying(whims=40), seed, None)


def tried(look) -> None:
    """Let `look` try things out where job 0 holds GPUs 0 and 1 of a server of 3."""
    yard = world([Job(0, 2, 9), Job(1, 1, 5)], cluster(1, 3))
    first = Decision(starts=(Start(0, np.array([0, 1])),))
    looked(yard, lambda view: look(Occupancy(view), view), first, needs=Signal.NONE)


@pytest.mark.parametrize("gpus", [[0], [2, 2], [3], [-1]])
def test_who_has_no_seat_is_told_so_and_nothing_changes(gpus: list[int]) -> None:
    def look(occupancy: Occupancy, view: ClusterView) -> None:
        with pytest.raises(GpuYardError, match=f"job row 1 cannot be booked on GPU {gpus[-1]}"):
            occupancy.occupy(1, np.array(gpus))
        assert_shown(occupancy, view)

    tried(look)


@pytest.mark.parametrize("gpus", [[0, 0], [2], [7]])
def test_nobody_leaves_a_gpu_that_he_does_not_hold(gpus: list[int]) -> None:
    def look(occupancy: Occupancy, view: ClusterView) -> None:
        with pytest.raises(GpuYardError, match=f"job row 0 cannot leave GPU {gpus[-1]}"):
            occupancy.vacate(0, np.array(gpus))
        with pytest.raises(GpuYardError, match="job row 0 cannot leave GPUs"):
            occupancy.vacate_all([(0, np.array(gpus))])
        assert_shown(occupancy, view)

    tried(look)
