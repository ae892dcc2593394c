"""What every placer in `conf/placer/` promises on whatever it is offered."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.decision import Decision
from sim.engine.occupancy import ANY_SPEED, Occupancy
from sim.errors import SimulationError
from sim.protocols import PatientPlacer, Placer
from sim.simulator import Simulator
from sim.view import Slots
from tests.contract.compositions import made, stems
from tests.oracle.cases import Case, cases
from tests.sim.placed import EVERYTHING

PLACERS = stems("placer")


def placer_of(stem: str) -> Placer:
    return made("scheduler=fifo", f"placer={stem}").placer


def check(placer: Placer, gang: int, slots: Slots) -> None:
    """Distinct usable GPUs, as many as asked for, or None; the same when asked again."""
    before = [np.array(value) for value in vars(slots).values() if isinstance(value, np.ndarray)]
    first, again = (placer.place(gang, slots, np.random.default_rng(1)) for _ in range(2))
    after = [value for value in vars(slots).values() if isinstance(value, np.ndarray)]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    if first is None:
        assert again is None
        return
    assert first.tolist() == again.tolist()
    assert first.dtype == np.int64
    assert len(first) == gang == len(set(first.tolist()))
    assert slots.usable[first].all()


def offers(case: Case, rng: np.random.Generator) -> Iterator[tuple[Slots, int]]:
    """What some waiting job is offered at the first decisions of a run in which nobody starts."""
    simulator = Simulator(**case.arguments())
    views = simulator.views(EVERYTHING)
    for _ in range(3):
        try:
            if not simulator.advance():
                return
        except SimulationError:  # nothing more will happen by itself
            return
        view = views.view()
        if len(view.queued) > 0:
            occupancy, job = Occupancy(view), int(rng.choice(view.queued))
            # Some GPUs are held by jobs of this very decision, which the view does not show.
            for other in view.queued[view.queued != job].tolist():
                gpus = np.flatnonzero(occupancy.exclusive(view, other).usable)
                gpus = gpus[rng.random(len(gpus)) < 0.5][: view.jobs.num_gpus[other]]
                if len(gpus) == view.jobs.num_gpus[other]:
                    occupancy.occupy(other, gpus)
            here = view.narrowed(int(rng.integers(view.num_partitions)), view.queued)
            yield occupancy.exclusive(here, job), job
            yield occupancy.shared(here, job, ANY_SPEED), job
        simulator.apply(Decision())


@settings(max_examples=15)
@given(case=cases(most_partitions=3, most_jobs=12, life=True), seed=st.integers(0, 99))
def test_answers_are_legal(case: Case, seed: int) -> None:
    for slots, job in offers(case, np.random.default_rng(seed)):
        for placer in map(placer_of, PLACERS):
            for gang in (1, 2, int(slots.view.jobs.num_gpus[job]), int(slots.usable.sum()) + 1):
                check(placer, gang, slots)
            if isinstance(placer, PatientPlacer):
                wake_s = placer.wake_s(slots.view, job)
                assert wake_s is None or wake_s > slots.view.now_s


@pytest.mark.parametrize("stem", PLACERS)
def test_it_is_named_after_its_file_and_says_what_it_does(stem: str) -> None:
    assert placer_of(stem).name == stem
    assert len(type(placer_of(stem)).__doc__ or "") > 40
