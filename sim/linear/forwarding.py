"""The features of a forward, and its score; `docs/linear_score.md` has a table."""

from sim.jit import kernel
from sim.linear.ahead import compact_in_s, wait_difference
from sim.linear.costs import left_s
from sim.linear.desk import Desk
from sim.linear.features import duration_feature, gang_feature
from sim.linear.room import most_workers, placeable_now
from sim.linear.there import effects_there
from sim.scoring.table import ForwardWeight

MOST_DIFFERENCE = 3.0  # an empty partition beside a swamped one is not worth more


@kernel
def load_of(desk: Desk, m: int) -> float:
    """GPUs wanted by waiting and running jobs, over those that are up."""
    return float(desk.partition[m].wanted / max(desk.partition[m].up, 1))


@kernel
def may_go(desk: Desk, job: int, target: int) -> bool:
    """Whether `target`, were it empty, could run `job`."""
    if desk.job[job].picky == 0:
        return bool(desk.partition[target].up >= desk.job[job].gang)
    return bool(most_workers(desk, job, target, False) >= desk.job[job].gang)


@kernel
def forward_score(desk: Desk, i: int, home: int, target: int) -> float:
    """Score of handing place `i` of the window of partition `home` to `target`."""
    x, job = desk.forward_x, desk.waiting[desk.window[i]].job
    difference = load_of(desk, home) - load_of(desk, target)
    x[ForwardWeight.BIAS] = 1.0
    x[ForwardWeight.LOAD_DIFFERENCE] = min(max(difference, -MOST_DIFFERENCE), MOST_DIFFERENCE)
    x[ForwardWeight.PLACEABLE] = 1.0 if placeable_now(desk, job, target) else 0.0
    x[ForwardWeight.DURATION] = duration_feature(desk, job)
    x[ForwardWeight.GANG] = gang_feature(desk, job)
    x[ForwardWeight.HOPS] = desk.shown.forwards[job] / desk.game[0].max_forwards
    if desk.game[0].look_ahead != 0:
        _look_ahead(desk, i, home, target)
    score = 0.0
    for f in range(len(x)):
        score += x[f] * desk.forward_weight[f]
    return score


@kernel
def _look_ahead(desk: Desk, i: int, home: int, target: int) -> None:
    """Fill the features that look ahead."""
    x, job, ahead = desk.forward_x, desk.waiting[desk.window[i]].job, desk.ahead
    gang, start_in_s = desk.job[job].gang, desk.start_in_s
    here_s = compact_in_s(ahead, ahead.release_s, gang, home)
    there_s = compact_in_s(ahead, ahead.release_s, gang, target)
    x[ForwardWeight.WAIT_DIFFERENCE] = wait_difference(here_s, there_s)
    x[ForwardWeight.START_DIFFERENCE] = wait_difference(start_in_s[home, i], start_in_s[target, i])
    there = effects_there(ahead, gang, left_s(desk, job), target)
    x[ForwardWeight.PROLONGS] = there.prolongs
    x[ForwardWeight.FRAGMENTS] = there.fragments
    x[ForwardWeight.PUTS_OFF] = there.puts_off
