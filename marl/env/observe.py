"""One agent's observation, written into arrays that the caller owns."""

from dataclasses import dataclass
from typing import NamedTuple

from marl.env.actions import EXCLUSIVE, MODES, SHARED, SUSPEND
from marl.env.memory import Memory, is_sent
from sim.arrays import FloatArray, IntArray
from sim.handle import Handle, one_by_one
from sim.jit import kernel
from sim.scoring.features import (
    MOST_LOAD,
    context_row,
    hide_others,
    job_row,
    log_work_ahead,
    measure_work_ahead,
    peer_row,
    server_rows,
    weigh_forward,
    weigh_placement,
)
from sim.scoring.room import (
    ALONE,
    BESIDE,
    could_run,
    count_usable,
    fewest_servers,
    fill_outwards,
    is_old,
    load_of,
    placeable_now,
)
from sim.scoring.scratch import Scratch
from sim.scoring.suspending import best_room, may_make_room
from sim.scoring.table import FORWARD_OF_OTHERS, OfForward, OfJob, OfPair, OfSuspension
from sim.scoring.window import choose_window, look_at_window, put_off_the_homeless

OF_OTHERS = tuple(map(int, FORWARD_OF_OTHERS))


class Limits(NamedTuple):
    """What may be done now."""

    max_forwards: int
    only_placeable: bool
    sharing: bool
    pressed: bool  # nothing runs in the partition, and it has waited: it has to start a job
    alone: bool  # nothing is seen of other partitions, and no job sent there


class Begun(NamedTuple):
    """A gang of which some workers have a place already, where agents place worker by worker."""

    row: int  # of its job in the window
    mode: int
    gpus: IntArray  # of its workers so far


@dataclass(frozen=True, eq=False)
class Buffers(Handle):
    """The observation's arrays, all zero before; shapes in `Layout.shapes`."""

    jobs: FloatArray
    gpus: FloatArray  # empty for a policy that is but a prior: what only others read stays zero
    servers: FloatArray
    server_rack: IntArray
    pairs: FloatArray
    peers: FloatArray
    forwards: FloatArray
    suspensions: FloatArray  # empty where agents may not suspend
    context: FloatArray
    action_mask: IntArray
    all_gpus: FloatArray  # these three are empty but for agents that see the whole datacenter
    all_servers: FloatArray
    all_racks: IntArray


@kernel
def _is_whole(buffers: Buffers) -> bool:
    """Whether more is read of them than the prior does."""
    return len(buffers.gpus) > 0


@kernel
def blank(buffers: Buffers) -> None:
    """Make them all zero."""
    buffers.jobs[:] = 0.0
    buffers.gpus[:] = 0.0
    buffers.servers[:] = 0.0
    buffers.server_rack[:] = 0
    buffers.pairs[:] = 0.0
    buffers.peers[:] = 0.0
    buffers.forwards[:] = 0.0
    buffers.suspensions[:] = 0.0
    buffers.context[:] = 0.0
    buffers.all_gpus[:] = 0.0
    buffers.all_servers[:] = 0.0
    buffers.all_racks[:] = 0
    buffers.action_mask[:] = 0


@kernel
def begin_turn(scratch: Scratch, own: int) -> None:
    """Fill the window of partition `own`, and what is foreseen of it."""
    put_off_the_homeless(scratch, own)
    choose_window(scratch, own)
    look_at_window(scratch, own)


@kernel
def copy_to(features: FloatArray, row: FloatArray) -> None:
    """Element by element: assigning a whole slice would make an array."""
    for k in range(len(features)):
        row[k] = features[k]
        one_by_one()


@kernel
def _pair_rows(
    scratch: Scratch, m: int, job: int, first_mode: int, last_mode: int, pairs: FloatArray,
    mask: IntArray,
) -> bool:  # fmt: skip
    """Fill pairs (S, MODES, OfPair) and mask (S * MODES,); whether any start is legal.

    Where workers of the gang have a place already (`begin_gang`), a start is one of the next.
    """
    any_legal, room = False, count_usable(scratch, job, m)
    part, here, fewest = (
        scratch.state.partition[m],
        scratch.here[0],
        fewest_servers(scratch, job, m),
    )
    for mode in range(first_mode, last_mode + 1):  # amid a gang, only that of its first worker
        if room < (BESIDE if mode == SHARED else ALONE):
            continue
        for i in range(part.last_own - part.first_own):  # by the places that actions name
            here.server = scratch.state.own[part.first_own + i]
            here.shared = mode == SHARED
            if not fill_outwards(scratch, job, m):
                continue
            any_legal = True
            weigh_placement(scratch, job, m)
            scratch.pair[OfPair.LEGAL] = 1.0
            scratch.pair[OfPair.COMPACT] = scratch.scalars[0].num_used <= fewest
            copy_to(scratch.pair, pairs[i, mode])
            mask[i * MODES + mode] = 1
    return any_legal


@kernel
def _forward_rows(
    scratch: Scratch, i: int, own: int, limits: Limits, rows: FloatArray, mask: IntArray,
    whole: bool,
) -> None:  # fmt: skip
    """Fill rows (M, OfForward) and mask (M,) for place `i` of the window.

    Not `whole`: those of legal forwards are enough.
    """
    x, job = scratch.forward, scratch.waiting[scratch.window[i]].job
    hops_left = limits.max_forwards - scratch.state.job[job].forwards
    stuck, own_load = not could_run(scratch, job, own), load_of(scratch, own)
    if whole:
        measure_work_ahead(scratch, job)
    for m in range(len(scratch.partition)):  # one at a time: the scratch holds one row
        legal = m != own and hops_left > 0 and could_run(scratch, job, m)
        if not (legal or whole):
            continue
        weigh_forward(scratch, i, own, m)
        if limits.only_placeable and not stuck:
            legal = legal and x[OfForward.PLACEABLE] > 0.0
        difference = load_of(scratch, m) - own_load
        x[OfForward.LEGAL] = legal
        x[OfForward.LOAD_DIFFERENCE] = min(max(difference, -MOST_LOAD), MOST_LOAD)
        if whole:
            x[OfForward.WORK_AHEAD] = log_work_ahead(scratch, m)
            x[OfForward.WORK_AHEAD_HERE] = log_work_ahead(scratch, own)
        x[OfForward.HOPS_LEFT] = hops_left / 3.0
        copy_to(x, rows[m])
        mask[m] = legal


@kernel
def _state_rows(scratch: Scratch, own: int, alone: bool, buffers: Buffers) -> None:
    """Fill what does not depend on the waiting jobs one by one."""
    whole = _is_whole(buffers)
    if whole:
        server_rows(scratch, own, buffers.gpus, buffers.servers)
    for m in range(len(scratch.partition) if whole else 0):  # what is but a prior reads none
        peer_row(scratch, own, m, buffers.peers[m])
        if len(buffers.all_gpus) > 0 and (m == own or not alone):
            server_rows(scratch, m, buffers.all_gpus[m], buffers.all_servers[m])
    context_row(scratch, own, buffers.context)
    if alone:
        hide_others(own, buffers.peers, buffers.context)


@kernel
def observe_agent(scratch: Scratch, own: int, limits: Limits, buffers: Buffers) -> int:
    """Fill the observation of partition `own`; the number of legal actions besides *wait*.

    `begin_turn` comes first. Where `limits.pressed` and a start is legal, only starts are; where a
    job older than the patience fits compactly on empty GPUs, *wait* is not legal: waiting cannot
    starve anyone. Servers that are away are no part of any of it.
    """
    width, room = buffers.jobs.shape[0], buffers.servers.shape[0]
    starts = buffers.action_mask[: width * room * MODES].reshape(width, room * MODES)
    first, last = width * room * MODES, width * (room * MODES + buffers.forwards.shape[1])
    sends = buffers.action_mask[first:last].reshape(width, -1)
    _state_rows(scratch, own, limits.alone, buffers)
    can_start, overdue, whole = False, False, _is_whole(buffers)
    last_mode = SHARED if limits.sharing else EXCLUSIVE
    for w in range(scratch.scalars[0].num_window):  # by place: actions name it
        job = scratch.waiting[scratch.window[w]].job
        legal = _pair_rows(scratch, own, job, EXCLUSIVE, last_mode, buffers.pairs[w], starts[w])
        can_start = can_start or legal
        overdue = overdue or (placeable_now(scratch, job, own) and is_old(scratch, job))
        job_row(scratch, w, own, buffers.jobs[w], whole)
        buffers.jobs[w, OfJob.CAN_START] = legal
        if not limits.alone:
            _forward_rows(scratch, w, own, limits, buffers.forwards[w], sends[w], whole)
    if limits.pressed and can_start:
        sends[:] = 0
    elif not overdue:
        buffers.action_mask[len(buffers.action_mask) - 1] = 1
    return int(buffers.action_mask[:-1].sum())


@kernel
def observe_rooms(
    scratch: Scratch, memory: Memory, buffers: Buffers, own: int, first: int, most: int,
    pressed: int,
) -> int:  # fmt: skip
    """Fill `suspensions` and their part of the mask; arguments and result as SEES says.

    None are legal where only starts are, nor is one elsewhere for a job sent in this epoch.
    """
    partitions, legal = buffers.suspensions.shape[1], 0
    for w in range(scratch.scalars[0].num_window):  # one that can start rules all of them out
        if pressed != 0 and buffers.jobs[w, OfJob.CAN_START] > 0.0:
            return 0
    scratch.here[0].shared = EXCLUSIVE
    for w in range(scratch.scalars[0].num_window):  # by place: actions name it
        job = scratch.waiting[scratch.window[w]].job
        may_go = scratch.state.job[job].forwards < most and not is_sent(memory, job)
        for m in range(len(scratch.partition)):  # at home, too: longer jobs may run there
            if may_make_room(scratch, job, own, m, may_go) and best_room(scratch, job, own, m) >= 0:
                copy_to(scratch.suspension, buffers.suspensions[w, m])
                buffers.action_mask[first + w * partitions + m] = 1
                legal += 1
    return legal


# What fills the rows of the kinds of actions that have a rule, and their part of the mask, where it
# holds: (scratch, memory, buffers, own partition, first action of the kind, forwards that a job may
# make, whether it has to start a job), the number of legal ones. `observe_agent` comes first.
SEES = {SUSPEND: observe_rooms}


@kernel
def observe_next_worker(
    scratch: Scratch, own: int, limits: Limits, begun: Begun, buffers: Buffers
) -> int:
    """Fill the observation of partition `own` amid a gang; how many places its next worker has.

    A place is a server from which the rest of the gang can be completed; its row of `pairs` is
    that of the whole gang, if the workers after this one go outwards from here. Nothing else is
    legal: whoever has begun a gang completes it.
    """
    width, room = buffers.jobs.shape[0], buffers.servers.shape[0]
    starts = buffers.action_mask[: width * room * MODES].reshape(width, room * MODES)
    _state_rows(scratch, own, limits.alone, buffers)
    for w in range(scratch.scalars[0].num_window):  # all are seen, though one alone can go on
        job, legal = scratch.waiting[scratch.window[w]].job, False
        if w == begun.row:
            legal = _pair_rows(
                scratch, own, job, begun.mode, begun.mode, buffers.pairs[w], starts[w]
            )
        job_row(scratch, w, own, buffers.jobs[w], _is_whole(buffers))
        buffers.jobs[w, OfJob.CAN_START] = legal
    return int(buffers.action_mask.sum())


@kernel
def hide_peers(own: int, seen: Buffers) -> None:
    """Leave of other partitions that jobs may be sent there, and no more: an ablation."""
    hide_others(own, seen.peers, seen.context)
    for column in OF_OTHERS:  # legality and what is the job's own stay
        seen.forwards[:, :, column] = 0.0
    for m in range(len(seen.all_gpus)):  # none unless the whole datacenter is seen
        if m != own:
            seen.all_gpus[m] = 0.0
            seen.all_servers[m] = 0.0
    for m in range(seen.suspensions.shape[1]):  # none where agents may not suspend
        if m != own:
            seen.suspensions[:, m, OfSuspension.LEGAL + 1 :] = 0.0
