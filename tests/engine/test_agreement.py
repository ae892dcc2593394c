"""The engine against plain Python (`tests.oracle.forms`): the same log, byte for byte."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.engine.composed import PartitionedScheduler, PreemptiveScheduler, QueueScheduler
from sim.placers.by_job import CompactWait, HeavyEdge, Lwf
from sim.placers.by_room import BestFit, Closest, Delay, Random, Skew
from sim.protocols import Placer, Scheduler
from sim.schedulers.ada_srsf import AdaSrsf
from sim.schedulers.drf import Drf
from sim.schedulers.easy import Easy
from sim.schedulers.orders import Spjf, Spwf, Srsf
from sim.schedulers.tiresias import Tiresias, TiresiasGittins
from sim.sharing import NoSharing
from sim.view import Signal
from tests.engine.playing import assert_same_decisions, assert_same_run
from tests.oracle.cases import Case, cases
from tests.oracle.catalogue import FORWARDINGS, ORDERS, PLACERS, SHARINGS, Make


class LargestGang(QueueScheduler):
    """An own order by keys."""

    order_name, order_needs = "largest_gang", Signal.NONE

    def keys(self, jobs):
        return -jobs.num_gpus.astype(np.float64)


class LeastLeftGang(QueueScheduler):
    """An own order by keys that change as a job gets on."""

    order_name, order_needs = "least_left_gang", Signal.PREDICTION

    def keys(self, jobs):
        return jobs.predicted_remaining_s * np.sqrt(jobs.num_gpus)


class Newest(QueueScheduler):
    """An own order that is asked for at each decision."""

    order_name, order_needs = "newest", Signal.NONE

    def order(self, view):
        return view.queued[::-1]


class LeastDone(PreemptiveScheduler):
    """An own order with preemption."""

    order_name, order_needs = "least_done", Signal.NONE

    def priority(self, view, jobs):
        return np.floor(view.jobs.attained_gpu_s[jobs] / 3.0)


class LeastShare(PreemptiveScheduler):
    """One by every column that arithmetic may take, and every step of it."""

    order_name, order_needs = "least_share", Signal.PREDICTION | Signal.DURATION
    long_s = 5.0

    def priority(self, view, jobs):
        columns = view.jobs
        left_s = np.maximum(columns.remaining_s[jobs], columns.predicted_remaining_s[jobs] / 2)
        is_long = (columns.duration_s >= self.long_s)[jobs] * (columns.estimate_s[jobs] > 3)
        late = np.minimum(-columns.submit_s, columns.progress_s)[jobs]
        lost = columns.preemptions[jobs] + columns.restarts[jobs]
        return left_s * columns.num_gpus[jobs] + self.weight() * is_long + late - 2 * lost

    def weight(self):
        return self.long_s * 3


class LeastWaited(PreemptiveScheduler):
    """One that changes with the time: who waits, or has run, for long comes first by and by."""

    order_name, order_needs = "least_waited", Signal.PREDICTION

    def priority(self, view, jobs):
        columns = view.jobs
        age_s = np.sqrt(view.now_s - columns.submit_s[jobs])
        return (
            columns.predicted_remaining_s[jobs] - age_s * (np.abs(columns.num_gpus - 3) < 2)[jobs]
        )


class LeastWaitedGang(LeastWaited):
    """One that goes by its parent's."""

    order_name = "least_waited_gang"

    def priority(self, view, jobs):
        return super().priority(view, jobs) * view.jobs.num_gpus[jobs]


class LeastLogged(PreemptiveScheduler):
    """One that is asked for at each decision."""

    order_name, order_needs = "least_logged", Signal.DURATION

    def priority(self, view, jobs):
        return np.log1p(view.jobs.remaining_s[jobs])


class LeastLeft(PreemptiveScheduler):
    """An own order with preemption by keys that change as a job gets on."""

    order_name, order_needs = "least_left", Signal.PREDICTION

    def keys(self, jobs):
        left_s = jobs.predicted_remaining_s * np.sqrt(jobs.num_gpus) - jobs.attained_gpu_s / 3.0
        return left_s + np.arange(len(jobs.num_gpus)) % 2


class ClassFirst(PreemptiveScheduler):
    """An own order with preemption by keys that stay: classes of priority."""

    order_name, order_needs = "class_first", Signal.NONE

    def keys(self, jobs):
        return (np.arange(len(jobs.num_gpus)) * 5) % 3


QUEUES: dict[str, Make] = {
    **{name: ORDERS[name] for name in ORDERS.keys() - {"srtf", "las"}},
    "spjf": lambda p, s: Spjf(placer=p, sharing=s, skip_blocked=False),
    "spwf": lambda p, s: Spwf(placer=p, sharing=s, skip_blocked=False),
    "largest_gang": lambda p, s: LargestGang(placer=p, sharing=s, skip_blocked=True),
    "least_left_gang": lambda p, s: LeastLeftGang(placer=p, sharing=s, skip_blocked=False),
    "newest": lambda p, s: Newest(placer=p, sharing=s, skip_blocked=True),
    "easy": lambda p, s: Easy(placer=p, sharing=s, overrun_s=2.0),
    "drf": lambda p, s: Drf(placer=p, sharing=s, skip_blocked=True),
    "drf_blocked": lambda p, s: Drf(placer=p, sharing=s, skip_blocked=False),
}
PREEMPTIVE: dict[str, Make] = {
    "srtf": ORDERS["srtf"], "las": ORDERS["las"], "srsf": lambda p, s: Srsf(placer=p, sharing=s),
    "least_done": lambda p, s: LeastDone(placer=p, sharing=s),
    "least_share": lambda p, s: LeastShare(placer=p, sharing=s),
    "least_waited": lambda p, s: LeastWaited(placer=p, sharing=s),
    "least_waited_gang": lambda p, s: LeastWaitedGang(placer=p, sharing=s),
    "least_logged": lambda p, s: LeastLogged(placer=p, sharing=s),
    "least_left": lambda p, s: LeastLeft(placer=p, sharing=s),
    "class_first": lambda p, s: ClassFirst(placer=p, sharing=s),
}  # fmt: skip
PLAIN: dict[str, Callable[[], Placer]] = {
    **{name: make for name, make in PLACERS.items() if name != "random"}, "best_fit": BestFit,
    "closest": Closest, "lwf": lambda: Lwf(kappa=1), "lwf_3": lambda: Lwf(kappa=3),
    "heavy_edge": HeavyEdge,
}  # fmt: skip
JUDGING: dict[str, Callable[[], Placer]] = {
    "compact_wait": lambda: CompactWait(most_slowdown=1.3),
    "delay": lambda: Delay(rack_wait_s=2.0, anywhere_wait_s=5.0),
    "skew": lambda: Skew(models=("p1",)),
}


def knowing_links(case: Case) -> Case:
    """The same where it is believed what jobs send, if anything knows it."""
    return replace(case, belief=replace(case.belief, links=case.physics.links))


ANY_CASE = st.one_of(
    cases(most_partitions=1), cases(most_partitions=3), cases(most_partitions=2, life=True),
    cases(most_partitions=2, mixes=True),
)  # fmt: skip


def composed(case: Case, child: QueueScheduler, forwarding: str) -> Scheduler:
    """One child a partition; alone where there is one."""
    if case.partition_of_server.max() == 0 and forwarding == "own":
        return child
    return PartitionedScheduler(
        child=child, forwarding={**FORWARDINGS, "upwards": Upwards}[forwarding]()
    )


class LastFit:
    """A placer of a user's own, in Python."""

    name, needs = "last_fit", Signal.NONE

    def place(self, gang, slots, rng):
        del rng
        gpus = np.flatnonzero(slots.usable)
        return gpus[-gang:] if len(gpus) >= gang else None


class Sulking(LastFit):
    """One that lets every job wait for a while after its submission, and asks to be woken then."""

    name = "sulking"

    def place(self, gang, slots, rng):
        view = slots.view
        waits = view.now_s < view.jobs.submit_s[slots.job] + 3.0
        return None if waits else super().place(gang, slots, rng)

    def wake_s(self, view, job):
        over_s = float(view.jobs.submit_s[job]) + 3.0
        return over_s if over_s > view.now_s else None


class Upwards:
    """A forwarding rule of a user's own."""

    name, steals = "upwards", False

    def route(self, gang, home, fits_at_home, loads, rng):
        del gang, rng
        higher = (home + 1) % len(loads.wanted)
        return home if fits_at_home or loads.wanted[higher] > loads.wanted[home] else higher


@pytest.mark.parametrize("sharing", sorted(SHARINGS))
@pytest.mark.parametrize("placer", sorted(PLAIN | JUDGING))
@settings(max_examples=15)
@given(
    case=ANY_CASE,
    order=st.sampled_from(sorted(QUEUES)),
    forwarding=st.sampled_from(sorted(FORWARDINGS)),
)
def test_queue_schedulers(placer: str, sharing: str, case: Case, order: str, forwarding: str):
    make = (PLAIN | JUDGING)[placer]
    case = knowing_links(case) if placer == "heavy_edge" else case
    assert_same_run(
        case, lambda: composed(case, QUEUES[order](make(), SHARINGS[sharing]()), forwarding)
    )


@pytest.mark.parametrize("order", sorted(PREEMPTIVE))
@pytest.mark.parametrize("sharing", sorted(SHARINGS))
@settings(max_examples=25)
@given(
    case=ANY_CASE, placer=st.sampled_from(sorted(PLAIN | JUDGING)),
    forwarding=st.sampled_from(sorted(FORWARDINGS)),
)  # fmt: skip
def test_preemptive_schedulers(order: str, sharing: str, case: Case, placer: str, forwarding: str):
    assert_same_run(
        case,
        lambda: composed(
            case, PREEMPTIVE[order]((PLAIN | JUDGING)[placer](), SHARINGS[sharing]()), forwarding
        ),
    )


PUBLISHED: dict[str, Make] = {
    "ada_srsf": lambda p, s: AdaSrsf(placer=p, sharing=s, skip_blocked=True, eta_frac=0.3),
    "tiresias": lambda p, s: Tiresias(
        placer=p, sharing=s, thresholds_gpu_s=(4.0, 16.0), promote_knob=2.0
    ),
}
ASKED: dict[str, Make] = {**QUEUES, **PREEMPTIVE, **PUBLISHED}
IN_PYTHON: dict[str, Callable[[], Placer]] = {
    "last_fit": LastFit, "random": Random, "sulking": Sulking,
}  # fmt: skip


@pytest.mark.parametrize("order", sorted(ASKED))
@settings(max_examples=25)
@given(
    case=ANY_CASE,
    placer=st.sampled_from(sorted(PLAIN | JUDGING | IN_PYTHON)),
    sharing=st.sampled_from(sorted(SHARINGS)),
    forwarding=st.sampled_from([*sorted(FORWARDINGS), "upwards"]),
)
def test_who_is_asked_in_python(
    order: str, case: Case, placer: str, sharing: str, forwarding: str
) -> None:
    places = {**PLAIN, **JUDGING, **IN_PYTHON}[placer]
    assert_same_decisions(
        case, lambda: composed(case, ASKED[order](places(), SHARINGS[sharing]()), forwarding)
    )


@settings(max_examples=25)
@given(case=cases(most_partitions=1), placer=st.sampled_from(sorted(PLAIN | IN_PYTHON)))
def test_who_learns_in_one_queue(case: Case, placer: str) -> None:
    assert_same_decisions(
        case,
        lambda: TiresiasGittins(
            placer={**PLAIN, **IN_PYTHON}[placer](), sharing=NoSharing(), quantum_gpu_s=4.0,
            least_history=3, refit_growth_frac=0.1,
        ),
    )  # fmt: skip
