"""What an order or a placer of one's own has to have and to give, and what is told instead."""

import re
from typing import Any

import numpy as np
import pytest

from sim.engine.arithmetic import as_arithmetic
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


CALLS: list[float] = []
PRIORITIES = {  # what it gives: whether that is arithmetic which compiled code takes
    "jobs.attained_gpu_s[rows]": True,
    "2 - (jobs.progress_s * jobs.num_gpus)[rows] / self.weight": True,
    "(jobs.restarts[rows] > 0) * -np.floor(jobs.submit_s[rows])": True,
    "np.exp(jobs.progress_s[rows])": False,  # compiled code's may differ in the last bit
    "-np.sqrt(np.abs(jobs.submit_s[rows] - view.now_s) / jobs.num_gpus[rows])": True,
    "(jobs.submit_s - view.now_s)[rows] + (view.now_s > 60) * 2": True,
    "view.now_s": False,
    "view.now_s[rows]": False,
    "jobs.submit_s[rows] * len(view.queued)": False,
    "jobs.resume_s[rows]": False,
    "jobs.remaining_s[rows]": False,  # the run says that it needs DURATION
    "jobs.num_gpus[rows][::-1]": False,
    "(jobs.num_gpus[rows] > 2) + (jobs.restarts[rows] > 0)": False,  # true and true is true
    "jobs.num_gpus + jobs.num_gpus[rows]": False,
    "np.where(jobs.num_gpus[rows] > 2, 1.0, 0.0)": False,
    "jobs.submit_s[rows] if jobs.num_gpus[rows] > 1 else jobs.num_gpus[rows]": False,
    "jobs.num_gpus[rows] * len(CALLS)": False,
    "jobs.num_gpus[rows] * np.random.random()": False,
    "jobs.num_gpus[rows] * self.counted[0]": False,
    "jobs.num_gpus[rows] * self.count()": False,
    "jobs.num_gpus": False,
    "rows": False,
}
KEYS = {
    "jobs.attained_gpu_s / jobs.num_gpus": True,
    "np.sqrt(jobs.num_gpus) - np.arange(3) * jobs.progress_s": True,
    "np.lexsort((jobs.num_gpus, jobs.submit_s))": False,  # told once
    "np.cbrt(jobs.progress_s)": False,
    "np.ones(2) * jobs.progress_s": False,
    "(jobs.num_gpus > 1) * jobs.progress_s": True,
    "(jobs.num_gpus > 1) + (jobs.progress_s > 1)": False,
    "jobs.num_gpus * 2**60 + jobs.progress_s": False,  # no float is as exact
    "jobs.progress_s * np.random.random(3)": False,
}


class Weighed(PreemptiveScheduler):
    order_name, order_needs = "weighed", Signal.NONE
    weight, counted = 3.0, (1.0,)

    def count(self):
        self.weight += 1.0
        return self.weight


def weighed(given: str, *, by_keys: bool = False) -> Weighed:
    """An order with these `keys` or this `priority`."""
    names: dict[str, Any] = {}
    head = "keys(self, jobs)" if by_keys else "priority(self, view, rows)"
    text = f"def {head}:\n    {'' if by_keys else 'jobs = view.jobs'}\n    return {given}"
    exec(text, globals(), names)
    return type("Own", (Weighed,), names)(**ROLE)


@pytest.mark.parametrize(("given", "taken"), [*PRIORITIES.items(), *KEYS.items()])
def test_arithmetic_on_columns_is_taken_by_compiled_code(given: str, taken: bool):
    jobs = world(JOBS, cluster(2, 2)).views(Signal.NONE).view().jobs
    by_keys = given in KEYS
    own = weighed(given, by_keys=by_keys)
    assert (as_arithmetic(own, jobs, by_keys=by_keys) is not None) == taken


class Doubled(Weighed):
    def priority(self, view, rows):
        return view.jobs.num_gpus[rows] * self.weight


class Aged(Doubled):
    def priority(self, view, rows):
        return super().priority(view, rows) - (view.now_s - view.jobs.submit_s)[rows]


class Counted(Weighed):
    def count(self):
        return super().count()

    def priority(self, view, rows):
        return view.jobs.num_gpus[rows] * self.count()


@pytest.mark.parametrize(("kind", "taken"), [(Aged, True), (Counted, False)])
def test_what_a_priority_calls_of_its_parents_is_looked_through(kind: type[Weighed], taken: bool):
    jobs = world(JOBS, cluster(2, 2)).views(Signal.NONE).view().jobs
    own = kind(**ROLE)
    assert (as_arithmetic(own, jobs, by_keys=False) is not None) == taken
    assert own.weight == 3.0


def test_a_priority_that_is_no_number_is_told_wherever_it_is_worked_out():
    told = [
        refused(type(weighed("jobs.num_gpus[rows] * np.nan")), compiled=compiled)
        for compiled in (True, False)
    ]
    assert told[0] == told[1]
    assert "Own.priority gives (1,) numbers, 1 of them NaN" in told[0]


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
