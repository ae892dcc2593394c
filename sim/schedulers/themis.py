"""Themis: finish-time fairness, GPUs auctioned among those who are treated worst."""

import math

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.errors import check_numbers
from sim.jit import array_kernel
from sim.protocols import Placer
from sim.rounds import RoundScheduler, Share, gang_gpus, gpus_up, present, shares_of
from sim.view import ClusterView, Signal

ROUNDING = 1e-12  # of values: equal sums differ by the order of adding


@array_kernel
def _choose(sizes: IntArray, values: FloatArray, room: int) -> BoolArray:
    best = np.zeros(room + 1)
    taken = np.zeros((len(sizes), room + 1), dtype=np.bool_)
    for item in range(len(sizes)):  # then `best` is that of the items so far
        size = sizes[item]
        for space in range(room, size - 1, -1):  # downwards, or an item would count twice
            value = best[space - size] + values[item]
            if value > best[space] + ROUNDING:
                best[space] = value
                taken[item, space] = True
    chosen = np.zeros(len(sizes), dtype=np.bool_)
    space = room
    for item in range(len(sizes) - 1, -1, -1):  # last first: a mark counts the items up to its own
        if taken[item, space]:
            chosen[item] = True
            space -= sizes[item]
    return chosen


def most_valuable(sizes: IntArray, values: FloatArray, room: int) -> BoolArray:
    """(n,) which to take so that the sum of values is the largest that fits; exact.

    Dynamic programming, n x room steps. Of equally good choices the one with earlier items.

    Args:
        sizes: (n,) 1 or more each.
        values: (n,) above 0.
        room: what the sizes of those taken may come to; 0 or more.
    """
    if sizes.sum() <= room:
        return np.ones(len(sizes), dtype=np.bool_)
    return _choose(sizes, values, room)


DIGITS = 9  # of a count's: (1 - 0.7) x 10 is a little above 3
FAIR = 1.0  # rho above which a job would be better off with 1/N of the cluster
SHORTEST_S = 1.0  # predictions below this, and those exceeded, count as this much


class Themis(RoundScheduler):
    """Every lease an auction among the jobs with the worst finish-time fairness.

    Source: Mahajan and others, "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020.

    How it works: rho = T_shared / T_independent of each job, on predictions. T_shared is its age
    plus its predicted remaining time with the gang it asks for; T_independent what it would take
    with 1/N of the cluster: predicted duration x max(1, N x gang / GPUs), N the jobs present. Of
    them the 1 - `fairness_knob` with the largest rho bid. The auction (partial allocation: the
    product of 1 / rho is made as large as it can be) chooses the gangs with the largest sum of
    logarithmic improvements that fit into the GPUs that are up: an exact knapsack. An improvement
    is the rho of a job that sits out the round over the rho of one that runs: T_independent
    cancels, and 1 + round / T_shared is left. Bidders whose rho is above 1 are not asked: they get
    their gangs before the auction. What they do not use goes to the others, worst rho first, so
    that no GPU stays idle that somebody can use.

    What the paper leaves open or does otherwise: its apps are searches of many jobs that take any
    number of GPUs; ours are single gangs, all or nothing. Its rho of a job without GPUs is
    infinite; sitting out one round makes it comparable. That improvement shrinks with the age of a
    job: a large gang would lose against small ones for as long as these keep coming, where an app
    of the paper's gets some GPUs at least. So the sharing incentive (rho at most 1) that the paper
    aims at is kept by rule: whom it fails comes first, the worst first. Its leases run out one by
    one; here all end at the round's end, and jobs that come or find GPUs in between hold theirs
    until then, by the same auction. Leftovers go to jobs at random there. Its hidden payments,
    which keep apps from lying in their bids, are left out: the bids are computed here. Where GPUs
    are placed is the placer's choice and no part of a bid. A job of a DAG ages from its submission.
    """

    order_name = "themis"
    order_needs = Signal.PREDICTION
    makes_room = True

    def __init__(self, *, placer: Placer, round_s: float, fairness_knob: float) -> None:
        """`round_s`: a lease; `fairness_knob`: share (0 to below 1) not offered GPUs first."""
        super().__init__(placer=placer, round_s=round_s)
        check_numbers("scheduler", "from 0 to below 1", fairness_knob=fairness_knob)
        self.fairness_knob = fairness_knob

    def allot(self, view: ClusterView) -> list[Share]:
        """The auction over all GPUs that are up."""
        return self._auctioned(view, present(view), int(gpus_up(view).sum()))

    def leftovers(self, view: ClusterView) -> list[Share]:
        """Everybody, worst rho first."""
        jobs = present(view)
        return _gangs(view, jobs[_worst_first(self._rho(view, jobs))])

    def newcomers(self, view: ClusterView) -> list[Share]:
        """The auction of what is free among those who wait, then everybody."""
        free = int(view.server_free[view.servers].sum())
        first = self._auctioned(view, view.queued, free)
        won = {share.job for share in first}
        jobs = view.queued[_worst_first(self._rho(view, view.queued))]
        return first + [share for share in _gangs(view, jobs) if share.job not in won]

    def _auctioned(self, view: ClusterView, jobs: IntArray, gpus: int) -> list[Share]:
        """Winners, then who else fits into `gpus`; both worst rho first."""
        rho = self._rho(view, jobs)
        worst = _worst_first(rho)
        jobs, rho = jobs[worst], rho[worst]
        asked = np.ceil(gang_gpus(view, jobs)).astype(np.int64)
        bidders = max(1, math.ceil(round((1.0 - self.fairness_knob) * len(jobs), DIGITS)))
        wronged = int((rho[:bidders].round(DIGITS) > FAIR).sum())
        wins = np.zeros(len(jobs), dtype=np.bool_)
        wins[:wronged] = _first_that_fit(asked[:wronged], gpus)
        left = gpus - int(asked[wins].sum())
        gain = np.log1p(self.round_s / _shared_s(view, jobs[wronged:bidders]))
        wins[wronged:bidders] = most_valuable(asked[wronged:bidders], gain, left)
        others = jobs[~wins][_first_that_fit(asked[~wins], gpus - int(asked[wins].sum()))]
        return _gangs(view, np.concatenate([jobs[wins], others]))

    def _rho(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """(len(jobs),) predicted finish-time fairness; larger is worse."""
        together = len(view.queued) + len(view.running)
        gpus = max(1, int(gpus_up(view).sum()))
        turns = np.maximum(1.0, together * gang_gpus(view, jobs) / gpus)
        alone_s = np.maximum(view.jobs.estimate_s[jobs], SHORTEST_S) * turns
        rho: FloatArray = _shared_s(view, jobs) / alone_s
        return rho


def _shared_s(view: ClusterView, jobs: IntArray) -> FloatArray:
    """(len(jobs),) age and predicted remaining time."""
    left_s = np.maximum(view.jobs.predicted_remaining_s[jobs], SHORTEST_S)
    return view.now_s - view.jobs.submit_s[jobs] + left_s


def _worst_first(rho: FloatArray) -> IntArray:
    # Rounded: jobs of one gang that have just come are equal, and the first submitted is first.
    return np.argsort(-rho.round(DIGITS), kind="stable")


def _first_that_fit(sizes: IntArray, room: int) -> BoolArray:
    """(n,) whom to take, in order, passing over those for whom too little is left."""
    taken = np.zeros(len(sizes), dtype=np.bool_)
    for at in np.flatnonzero(sizes <= room).tolist():
        if sizes[at] <= room:
            room -= int(sizes[at])
            taken[at] = True
    return taken


def _gangs(view: ClusterView, jobs: IntArray) -> list[Share]:
    return shares_of(jobs, view.jobs.num_gpus[jobs])
