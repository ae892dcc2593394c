"""The features of a placement: spread, slow-downs of itself and of neighbours, what it holds up."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.jit import kernel
from sim.kernel.allocation import gather_tenants
from sim.physics.communication import Comm, Spread, busy_s, comm_of, quiet_s
from sim.physics.slowing import hit_of, slow_in
from sim.scoring.ahead import compact_in_s, holds_up, prolongs, wait_over_loss
from sim.scoring.room import choose_gpus, count_taken, left_s
from sim.scoring.scratch import Scratch
from sim.scoring.table import OfPair


@kernel
def compute_s_of(scratch: Scratch, p: int) -> float:
    """Compute seconds of profile `p` on the slowest server of the placement at hand, alone."""
    slowest_s = 0.0
    for i in range(scratch.game[0].num_used):
        kind = scratch.state.server[scratch.used[i]].type
        slowest_s = max(slowest_s, scratch.belief.compute_s[p, kind])
    return slowest_s


@kernel
def comm_here(scratch: Scratch, p: int) -> Comm:
    """Communication of profile `p` at the placement at hand, itself counted on links."""
    game, state = scratch.game[0], scratch.state
    game.stamp += 1
    most, racks, nic, uplink = 0, 0, 0, 0
    for i in range(game.num_used):
        where = state.server[scratch.used[i]]
        most, nic = max(most, scratch.server[scratch.used[i]].taken), max(nic, where.nic_jobs)
        uplink = max(uplink, state.rack[where.rack].uplink_jobs)
        racks += scratch.rack_stamp[where.rack] != game.stamp
        scratch.rack_stamp[where.rack] = game.stamp
    spread = Spread(most, game.num_used, racks, nic + 1, uplink + 1)
    return comm_of(scratch.belief, p, spread)


@kernel
def weigh_placement(scratch: Scratch, job: int, m: int) -> float:
    """Fill `pair` for the placement at hand; all but `legal` and `compact`.

    `spread`, `contention` and `own_slowdown` add up to the logarithm of the predicted step over
    `reference_step_s`; the kernel's rate (`sim.kernel.rates`) is its inverse where the prediction
    is right. Columns that look ahead stay as they are unless `game.look_ahead`.

    Returns:
        `spread` and `contention` in one.
    """
    row, x, game, shared = (
        scratch.job[job],
        scratch.pair,
        scratch.game[0],
        scratch.here[0].shared != 0,
    )
    if shared or game.look_ahead != 0 or game.num_placed > 0:
        choose_gpus(scratch)
    if game.num_placed > 0:
        count_taken(scratch, scratch.chosen[: row.gang])
    compute_s, comm = compute_s_of(scratch, row.profile), comm_here(scratch, row.profile)
    alone_s, step_s = compute_s + quiet_s(comm), compute_s + busy_s(comm)
    spread = np.log(step_s / row.reference_step_s)
    x[OfPair.SPREAD] = np.log(alone_s / row.reference_step_s)
    x[OfPair.CONTENTION] = np.log(step_s / alone_s)
    x[OfPair.OWN_SLOWDOWN] = 0.0
    x[OfPair.WORST_VICTIM] = 0.0
    x[OfPair.VICTIMS_DELAY] = 0.0
    x[OfPair.SHARED] = 0.0
    x[OfPair.SERVERS] = game.num_used / 8.0
    x[OfPair.FRAGMENTS] = _empty_left(scratch) / scratch.partition[m].largest
    if shared:
        _weigh_neighbours(scratch, job, compute_s, busy_s(comm))
    if game.look_ahead != 0:
        _weigh_ahead(scratch, job, m, spread + x[OfPair.OWN_SLOWDOWN])
    return float(spread)


@kernel
def _empty_left(scratch: Scratch) -> int:
    """Empty GPUs left over on the servers of the placement at hand."""
    left = 0
    for i in range(scratch.game[0].num_used):
        server = scratch.used[i]
        left += max(scratch.state.free_gpus.usable[server] - scratch.server[server].taken, 0)
    return int(left)


@kernel
def _weigh_neighbours(scratch: Scratch, job: int, compute_s: float, comm_s: float) -> None:
    """Own slow-down is that of the slowest worker.

    Victims' delay is what the victims are held up while this job runs beside them, over its own
    work; a victim that shares several GPUs counts once a GPU with 1 / its gang of its delay.
    """
    row, x, state = scratch.job[job], scratch.pair, scratch.state
    worst_s, victim, delay_s, shared = 0.0, 1.0, 0.0, 0
    mine_s = left_s(scratch, job)
    for i in range(row.gang):
        gpu = scratch.chosen[i]
        kind = state.server[state.gpu[gpu].server].type
        last = gather_tenants(state, row, gpu, scratch.tenants)
        shared += last > 0
        own = slow_in(scratch.belief.slowing, kind, scratch.tenants, last + 1, last)
        for k in range(last):
            beside = state.tenant[gpu, k]
            hit = hit_of(scratch.belief.slowing, kind, scratch.tenants, last + 1, k)
            victim = max(victim, hit)
            held_up_s = min(left_s(scratch, beside), mine_s)
            delay_s += (hit - 1.0) * held_up_s / scratch.job[beside].gang
        worst_s = max(worst_s, scratch.belief.compute_s[row.profile, kind] * own)
    x[OfPair.OWN_SLOWDOWN] = np.log((worst_s + comm_s) / (compute_s + comm_s))
    x[OfPair.WORST_VICTIM] = np.log(victim)
    x[OfPair.VICTIMS_DELAY] = np.log1p(delay_s / mine_s)
    x[OfPair.SHARED] = shared / row.gang


@kernel
def _weigh_ahead(scratch: Scratch, job: int, m: int, slowed: float) -> None:
    """Fill what looks ahead; a step there is exp(`slowed`) times as long as at best."""
    x, ahead, gang, job_s = scratch.pair, scratch.ahead, scratch.job[job].gang, left_s(scratch, job)
    gpus = scratch.chosen[:gang]
    wait_s = compact_in_s(ahead, ahead.release_s, gang, m)
    x[OfPair.WAIT_OVER_LOSS] = wait_over_loss(wait_s, slowed, job_s)
    x[OfPair.PROLONGS] = prolongs(ahead, gpus, job_s)
    x[OfPair.HOLDS_UP] = holds_up(ahead, gpus, job_s, m)


@kernel
def measure_links(scratch: Scratch, running: IntArray, nic: FloatArray, uplink: FloatArray) -> None:
    """Add to nic (S,) and uplink (R,) how busy running jobs are predicted to make them.

    A job adds the share of its undisturbed step for which it communicates between servers: a link
    has 2 where two jobs would always communicate.
    """
    for job in running:
        row, game = scratch.state.job[job], scratch.game[0]
        count_taken(scratch, scratch.state.placed[row.first : row.first + row.held])
        if game.num_used == 1:
            continue
        comm = comm_here(scratch, row.profile)
        between_s = comm.server_s + comm.rack_s
        share = between_s / (compute_s_of(scratch, row.profile) + comm.local_s + between_s)
        game.stamp += 1
        for i in range(game.num_used):
            nic[scratch.used[i]] += share
        if not _spans_racks(scratch):
            continue
        for i in range(game.num_used):
            rack = scratch.state.server[scratch.used[i]].rack
            uplink[rack] += 0.0 if scratch.rack_stamp[rack] == game.stamp else share
            scratch.rack_stamp[rack] = game.stamp


@kernel
def _spans_racks(scratch: Scratch) -> bool:
    """Whether the placement at hand is in several racks."""
    first, several = scratch.state.server[scratch.used[0]].rack, False
    for i in range(scratch.game[0].num_used):
        several = several or scratch.state.server[scratch.used[i]].rack != first
    return several
