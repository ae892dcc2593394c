"""The engine against Python's `decide`: the same log, byte for byte."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.partitioned import PartitionedScheduler
from sim.placers.best_fit import BestFit
from sim.placers.closest import Closest
from sim.placers.compact_wait import CompactWait
from sim.placers.delay import Delay
from sim.placers.heavy_edge import HeavyEdge
from sim.placers.lwf import Lwf
from sim.placers.skew import Skew
from sim.preempting import PreemptiveScheduler
from sim.protocols import Placer, Scheduler
from sim.queueing import QueueScheduler
from sim.schedulers.spjf import Spjf
from sim.schedulers.spwf import Spwf
from sim.schedulers.srsf import Srsf
from sim.signals import Signal
from tests.engine.playing import assert_same_run
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


QUEUES: dict[str, Make] = {
    **{name: ORDERS[name] for name in ORDERS.keys() - {"srtf", "las"}},
    "spjf": lambda p, s: Spjf(placer=p, sharing=s, skip_blocked=False),
    "spwf": lambda p, s: Spwf(placer=p, sharing=s, skip_blocked=False),
    "largest_gang": lambda p, s: LargestGang(placer=p, sharing=s, skip_blocked=True),
    "least_left_gang": lambda p, s: LeastLeftGang(placer=p, sharing=s, skip_blocked=False),
    "newest": lambda p, s: Newest(placer=p, sharing=s, skip_blocked=True),
}
PREEMPTIVE: dict[str, Make] = {
    "srtf": ORDERS["srtf"],
    "las": ORDERS["las"],
    "srsf": lambda p, s: Srsf(placer=p, sharing=s),
    "least_done": lambda p, s: LeastDone(placer=p, sharing=s),
}
PLAIN: dict[str, Callable[[], Placer]] = {
    **{name: make for name, make in PLACERS.items() if name != "random"},
    "best_fit": BestFit,
    "closest": Closest,
    "lwf": lambda: Lwf(kappa=1),
    "lwf_3": lambda: Lwf(kappa=3),
    "heavy_edge": HeavyEdge,
}
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
    return PartitionedScheduler(child=child, forwarding=FORWARDINGS[forwarding]())


def is_played(case: Case, forwarding: str) -> bool:
    return forwarding != "random" or case.jobs.precedence is None


@pytest.mark.parametrize("sharing", sorted(SHARINGS))
@pytest.mark.parametrize("placer", sorted(PLAIN | JUDGING))
@settings(max_examples=25)
@given(
    case=ANY_CASE,
    order=st.sampled_from(sorted(QUEUES)),
    forwarding=st.sampled_from(sorted(FORWARDINGS)),
)
def test_queue_schedulers(placer: str, sharing: str, case: Case, order: str, forwarding: str):
    if not is_played(case, forwarding):
        return
    make = (PLAIN | JUDGING)[placer]
    case = knowing_links(case) if placer == "heavy_edge" else case
    assert_same_run(
        case, lambda: composed(case, QUEUES[order](make(), SHARINGS[sharing]()), forwarding)
    )


@pytest.mark.parametrize("order", sorted(PREEMPTIVE))
@pytest.mark.parametrize("sharing", ["off", "always", "fallback"])
@settings(max_examples=40)
@given(
    case=ANY_CASE, placer=st.sampled_from(sorted(PLAIN)),
    forwarding=st.sampled_from(sorted(FORWARDINGS)),
)  # fmt: skip
def test_preemptive_schedulers(order: str, sharing: str, case: Case, placer: str, forwarding: str):
    if not is_played(case, forwarding):
        return
    assert_same_run(
        case,
        lambda: composed(case, PREEMPTIVE[order](PLAIN[placer](), SHARINGS[sharing]()), forwarding),
    )
