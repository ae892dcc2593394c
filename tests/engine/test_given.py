"""What an order or a placer of one's own has to have and to give, and what is told instead."""

import re

import numpy as np
import pytest

from sim.engine.composed import PreemptiveScheduler, QueueScheduler
from sim.errors import GpuYardError
from sim.placers.by_room import FirstFit
from sim.schedulers.gavel import Gavel
from sim.sharing import NoSharing
from sim.simulator import simulate
from sim.view import Signal
from tests.sim.worlds import Job, cluster, world

JOBS = [Job(0.0, 4, 10.0), Job(1.0, 4, 5.0), Job(1.0, 2, 5.0)]
ROLE = {"placer": FirstFit(), "sharing": NoSharing()}


class Own(QueueScheduler):
    order_name, order_needs = "own", Signal.NONE


def refused(cls: type, *, compiled: bool = True, **parts) -> str:
    """What is told of a run under a class with parts."""
    more = {} if issubclass(cls, PreemptiveScheduler) else {"skip_blocked": True}
    with pytest.raises(GpuYardError) as error:
        simulate(
            world(JOBS, cluster(2, 2)), cls(**{**ROLE, **more, **parts}), 0, None, compiled=compiled
        )
    return re.sub(r"\S*<locals>\.", "", str(error.value))


@pytest.mark.parametrize(
    ("base", "other"), [(QueueScheduler, "order"), (PreemptiveScheduler, "priority")]
)
@pytest.mark.parametrize("compiled", [True, False])
def test_an_order_has_keys_or_else_order_or_priority(base: type, other: str, compiled: bool):
    class Neither(base):
        order_name, order_needs = "own", Signal.NONE

    told = refused(Neither, compiled=compiled)
    assert told.startswith(f"Neither has neither `keys` nor `{other}`; give it keys(self, jobs), o")


def test_an_order_has_a_name_and_needs():
    class NoName(QueueScheduler):
        order_needs = Signal.NONE

        def keys(self, jobs):
            return jobs.num_gpus

    class NoNeeds(Own):
        order_needs = None

    assert refused(NoName) == 'NoName has no `order_name`; add order_name = "mine" to the class'
    assert refused(NoNeeds) == (
        "NoNeeds.order_needs is None; write order_needs = Signal.NONE (from sim.view)"
    )


def test_parts_are_what_their_role_asks_for():
    class NoNeeds:
        name = "no_needs"

        def place(self, gang, slots, rng):
            del gang, slots, rng

    class NoName(NoNeeds):
        name, needs = 3, Signal.NONE

    add = "has no `needs`; add needs = Signal.NONE (from sim.view) to the class"
    assert refused(Own, placer=NoNeeds()) == f"NoNeeds {add}"
    with pytest.raises(GpuYardError, match="has no `needs`"):
        Gavel(placer=NoNeeds(), round_s=60.0, policy="max_min")
    assert refused(Own, placer=NoName()) == 'NoName.name is 3; write name = "mine"'
    assert refused(Own, sharing="off").startswith(
        "sharing is 'off' (builtins.str), which has no method `place`; name one of conf/sharing"
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["a", "b", "c"], "gives ['a', 'b', 'c']"), (None, "gives None"),
        (np.zeros(2), "gives (2,) numbers, 0 of them NaN"), (3, "gives 3"),
        (np.full(3, np.nan), "gives (3,) numbers, 3 of them NaN"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("compiled", [True, False])
def test_keys_are_one_number_a_job(given: object, words: str, compiled: bool):
    class Keys(Own):
        def keys(self, jobs):  # noqa: ARG002  (the role asks for it)
            return given

    told = refused(Keys, compiled=compiled)
    assert told.startswith(f"Keys.keys {words}; it must give one number for each of the 3 jobs")


@pytest.mark.parametrize("compiled", [True, False])
def test_priorities_are_one_number_a_job_that_is_asked_for(compiled: bool):
    class Priority(PreemptiveScheduler):
        order_name, order_needs = "own", Signal.NONE

        def priority(self, view, jobs):  # noqa: ARG002
            return 3

    told = refused(Priority, compiled=compiled)
    assert told.startswith("Priority.priority gives 3; it must give one number for each of the ")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "None"), (["a"], "['a']"), (0, "0"), ([0.5], "[0.5]"), ([True], "[True]"),
        ([[0], [0, 1]], "[[0], [0, 1]]"),
    ],
)  # fmt: skip
def test_an_order_gives_waiting_jobs(given: object, words: str):
    class Order(Own):
        def order(self, view):  # noqa: ARG002
            return given

    assert refused(Order).startswith(f"Order.order gives {words}; it must give the jobs of view.q")
