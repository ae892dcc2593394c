"""What a placement is predicted to cost: spread, own slow-down, slow-down of those it joins."""

import numpy as np

from sim.jit import kernel
from sim.linear.desk import Desk
from sim.linear.layout import HERE
from sim.linear.room import gather
from sim.physics.slowing import hit_of, slow_in
from sim.scoring.table import StartWeight

LEAST_LEFT_S = 60.0  # a job that outlives its prediction counts as this far from its end
PLAIN_LEFT_S = 3600.0  # of every job where durations are not looked at


@kernel
def left_s(desk: Desk, job: int) -> float:
    """Predicted work left; the same for all who start where durations are not looked at."""
    game, done_s = desk.game[0], desk.shown.progress_s[job]
    left = PLAIN_LEFT_S
    if game.use_durations != 0:
        left = max(desk.job[job].estimate_s - done_s, LEAST_LEFT_S)
    return float(max(left, game.rest_share * done_s))


@kernel
def _last(index: int, length: int) -> int:
    return index if index < length else length - 1


@kernel
def _comm_s(desk: Desk, p: int) -> float:
    """Seconds of exposed communication of profile `p` at the placement at hand, itself counted."""
    belief, game = desk.belief, desk.game[0]
    game.stamp += 1
    most, racks, nic, uplink = 0, 0, 0, 0
    for i in range(game.num_used):
        where = desk.server[desk.used[i]]
        rack = desk.rack[where.rack]
        most, nic = max(most, where.taken), max(nic, where.nic_jobs)
        uplink = max(uplink, rack.uplink_jobs)
        racks += rack.stamp != game.stamp
        rack.stamp = game.stamp
    comm_s = belief.local_s[p, _last(most, belief.local_s.shape[1])]
    if game.num_used > 1:
        factor = belief.nic_factor[_last(nic + 1, len(belief.nic_factor))]
        comm_s += belief.server_s[p, _last(game.num_used, belief.server_s.shape[1])] * factor
    if racks > 1:
        factor = belief.uplink_factor[_last(uplink + 1, len(belief.uplink_factor))]
        comm_s += belief.rack_s[p, _last(racks, belief.rack_s.shape[1])] * factor
    return float(comm_s)


@kernel
def weigh_costs(desk: Desk, job: int, m: int) -> None:
    """Fill the features of the placement at hand that are costs."""
    row, x = desk.job[job], desk.start_x
    compute_s, fragments = 0.0, 0
    for i in range(desk.game[0].num_used):
        where = desk.server[desk.used[i]]
        compute_s = max(compute_s, desk.belief.compute_s[row.profile, where.type])
        fragments += max(where.empty - where.taken, 0)
    comm_s = _comm_s(desk, row.profile)
    x[StartWeight.SPREAD] = np.log((compute_s + comm_s) / row.reference_step_s)
    x[StartWeight.FRAGMENTS] = fragments / desk.partition[m].largest
    x[StartWeight.OWN_SLOWDOWN] = 0.0
    x[StartWeight.WORST_VICTIM] = 0.0
    x[StartWeight.VICTIMS_DELAY] = 0.0
    if desk.place[HERE].shared != 0:
        _weigh_neighbours(desk, job, compute_s, comm_s)


@kernel
def _weigh_neighbours(desk: Desk, job: int, compute_s: float, comm_s: float) -> None:
    """Own slow-down is that of the slowest worker.

    Victims' delay is what the victims are held up while this job runs beside them, over its own
    work; a victim that shares several GPUs counts once a GPU with 1 / its gang of its delay.
    """
    row, x = desk.job[job], desk.start_x
    worst_s, victim, delay_s = 0.0, 1.0, 0.0
    mine_s = left_s(desk, job)
    for i in range(row.gang):
        gpu = desk.seats[i]
        kind = desk.server[desk.gpu[gpu].server].type
        last = gather(desk, job, gpu)
        own = slow_in(desk.belief.slowing, kind, desk.crowd, last + 1, last)
        for k in range(last):
            beside = desk.tenant[gpu, k]
            hit = hit_of(desk.belief.slowing, kind, desk.crowd, last + 1, k)
            victim = max(victim, hit)
            held_up_s = min(left_s(desk, beside), mine_s)
            delay_s += (hit - 1.0) * held_up_s / desk.job[beside].gang
        worst_s = max(worst_s, desk.belief.compute_s[row.profile, kind] * own)
    x[StartWeight.OWN_SLOWDOWN] = np.log((worst_s + comm_s) / (compute_s + comm_s))
    x[StartWeight.WORST_VICTIM] = np.log(victim)
    x[StartWeight.VICTIMS_DELAY] = np.log1p(delay_s / mine_s)
