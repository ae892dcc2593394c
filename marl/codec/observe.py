"""One agent's observation, written into arrays that the caller owns."""

from typing import NamedTuple

from marl.turns.actions import EXCLUSIVE, MODES, SHARED
from sim.arrays import FloatArray, IntArray
from sim.jit import kernel
from sim.scoring.costs import weigh_placement
from sim.scoring.desk import Desk
from sim.scoring.filling import fill_outwards
from sim.scoring.room import (
    ALONE,
    BESIDE,
    could_run,
    count_usable,
    fewest_servers,
    is_old,
    load_of,
    placeable_now,
)
from sim.scoring.rows import (
    MOST_LOAD,
    context_row,
    hide_others,
    job_row,
    log_work_ahead,
    measure_work_ahead,
    peer_row,
    server_rows,
    weigh_forward,
)
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


class Canvas(NamedTuple):
    """The observation's arrays, all zero before; shapes in `Layout.shapes`."""

    jobs: FloatArray
    gpus: FloatArray
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
def begin_turn(desk: Desk, own: int) -> None:
    """Fill the window of partition `own`, and what is foreseen of it."""
    put_off_the_homeless(desk, own)
    choose_window(desk, own)
    look_at_window(desk, own)


@kernel
def copy_to(features: FloatArray, row: FloatArray) -> None:
    """Element by element: assigning a whole slice would make an array."""
    for k in range(len(features)):
        row[k] = features[k]


@kernel
def _pair_rows(
    desk: Desk, m: int, job: int, first_mode: int, last_mode: int, pairs: FloatArray,
    mask: IntArray,
) -> bool:  # fmt: skip
    """Fill pairs (S, MODES, OfPair) and mask (S * MODES,); whether any start is legal.

    Where workers of the gang have a place already (`begin_gang`), a start is one of the next.
    """
    any_legal, room = False, count_usable(desk, job, m)
    part, here, fewest = desk.state.partition[m], desk.here[0], fewest_servers(desk, job, m)
    for mode in range(first_mode, last_mode + 1):
        if room < (BESIDE if mode == SHARED else ALONE):
            continue
        for i in range(part.last_own - part.first_own):
            here.server = desk.state.own[part.first_own + i]
            here.shared = mode == SHARED
            if not fill_outwards(desk, job, m):
                continue
            any_legal = True
            weigh_placement(desk, job, m)
            desk.pair[OfPair.LEGAL] = 1.0
            desk.pair[OfPair.COMPACT] = desk.game[0].num_used <= fewest
            copy_to(desk.pair, pairs[i, mode])
            mask[i * MODES + mode] = 1
    return any_legal


@kernel
def _forward_rows(
    desk: Desk, i: int, own: int, limits: Limits, rows: FloatArray, mask: IntArray
) -> None:
    """Fill rows (M, OfForward) and mask (M,) for place `i` of the window."""
    x, job = desk.forward, desk.waiting[desk.window[i]].job
    hops_left = limits.max_forwards - desk.state.job[job].forwards
    stuck = not could_run(desk, job, own)
    measure_work_ahead(desk, job)
    for m in range(len(desk.partition)):
        weigh_forward(desk, i, own, m)
        legal = m != own and hops_left > 0 and could_run(desk, job, m)
        if limits.only_placeable and not stuck:
            legal = legal and x[OfForward.PLACEABLE] > 0.0
        difference = load_of(desk, m) - load_of(desk, own)
        x[OfForward.LEGAL] = legal
        x[OfForward.LOAD_DIFFERENCE] = min(max(difference, -MOST_LOAD), MOST_LOAD)
        x[OfForward.WORK_AHEAD] = log_work_ahead(desk, m)
        x[OfForward.WORK_AHEAD_HERE] = log_work_ahead(desk, own)
        x[OfForward.HOPS_LEFT] = hops_left / 3.0
        copy_to(x, rows[m])
        mask[m] = legal


@kernel
def _state_rows(desk: Desk, own: int, alone: bool, canvas: Canvas) -> None:
    """Fill what does not depend on the waiting jobs one by one."""
    server_rows(desk, own, canvas.gpus, canvas.servers)
    for m in range(len(desk.partition)):
        peer_row(desk, own, m, canvas.peers[m])
        if len(canvas.all_gpus) > 0 and (m == own or not alone):
            server_rows(desk, m, canvas.all_gpus[m], canvas.all_servers[m])
    context_row(desk, own, canvas.context)
    if alone:
        hide_others(own, canvas.peers, canvas.context)


@kernel
def observe_agent(desk: Desk, own: int, limits: Limits, canvas: Canvas) -> int:
    """Fill the observation of partition `own`; the number of legal actions besides *wait*.

    `begin_turn` comes first. Where `limits.pressed` and a start is legal, only starts are; where a
    job older than the patience fits compactly on empty GPUs, *wait* is not legal: waiting cannot
    starve anyone. Servers that are away are no part of any of it.
    """
    width, room = canvas.jobs.shape[0], canvas.servers.shape[0]
    starts = canvas.action_mask[: width * room * MODES].reshape(width, room * MODES)
    first, last = width * room * MODES, width * (room * MODES + canvas.forwards.shape[1])
    sends = canvas.action_mask[first:last].reshape(width, -1)
    _state_rows(desk, own, limits.alone, canvas)
    can_start, overdue = False, False
    last_mode = SHARED if limits.sharing else EXCLUSIVE
    for w in range(desk.game[0].num_window):
        job = desk.waiting[desk.window[w]].job
        legal = _pair_rows(desk, own, job, EXCLUSIVE, last_mode, canvas.pairs[w], starts[w])
        can_start = can_start or legal
        overdue = overdue or (placeable_now(desk, job, own) and is_old(desk, job))
        job_row(desk, w, own, canvas.jobs[w])
        canvas.jobs[w, OfJob.CAN_START] = legal
        if not limits.alone:
            _forward_rows(desk, w, own, limits, canvas.forwards[w], sends[w])
    if limits.pressed and can_start:
        sends[:] = 0
    elif not overdue:
        canvas.action_mask[-1] = 1
    return int(canvas.action_mask[:-1].sum())


@kernel
def observe_rooms(desk: Desk, own: int, limits: Limits, canvas: Canvas) -> int:
    """Fill `suspensions` and their part of the mask; the number of legal ones.

    `observe_agent` comes first. None are legal where only starts are.
    """
    width, partitions = canvas.suspensions.shape[0], canvas.suspensions.shape[1]
    first, legal = len(canvas.action_mask) - 1 - width * partitions, 0
    for w in range(desk.game[0].num_window):
        if limits.pressed and canvas.jobs[w, OfJob.CAN_START] > 0.0:
            return 0
    desk.here[0].shared = EXCLUSIVE
    for w in range(desk.game[0].num_window):
        job = desk.waiting[desk.window[w]].job
        may_go = not limits.alone and desk.state.job[job].forwards < limits.max_forwards
        for m in range(len(desk.partition)):
            if may_make_room(desk, job, own, m, may_go) and best_room(desk, job, own, m) >= 0:
                copy_to(desk.suspension, canvas.suspensions[w, m])
                canvas.action_mask[first + w * partitions + m] = 1
                legal += 1
    return legal


@kernel
def observe_next_worker(desk: Desk, own: int, limits: Limits, begun: Begun, canvas: Canvas) -> int:
    """Fill the observation of partition `own` amid a gang; how many places its next worker has.

    A place is a server from which the rest of the gang can be completed; its row of `pairs` is
    that of the whole gang, if the workers after this one go outwards from here. Nothing else is
    legal: whoever has begun a gang completes it.
    """
    width, room = canvas.jobs.shape[0], canvas.servers.shape[0]
    starts = canvas.action_mask[: width * room * MODES].reshape(width, room * MODES)
    _state_rows(desk, own, limits.alone, canvas)
    for w in range(desk.game[0].num_window):
        job, legal = desk.waiting[desk.window[w]].job, False
        if w == begun.row:
            legal = _pair_rows(desk, own, job, begun.mode, begun.mode, canvas.pairs[w], starts[w])
        job_row(desk, w, own, canvas.jobs[w])
        canvas.jobs[w, OfJob.CAN_START] = legal
    return int(canvas.action_mask.sum())


@kernel
def hide_peers(own: int, seen: Canvas) -> None:
    """Leave of other partitions that jobs may be sent there, and no more: an ablation."""
    hide_others(own, seen.peers, seen.context)
    for column in OF_OTHERS:
        seen.forwards[:, :, column] = 0.0
    for m in range(len(seen.all_gpus)):
        if m != own:
            seen.all_gpus[m] = 0.0
            seen.all_servers[m] = 0.0
    for m in range(seen.suspensions.shape[1]):
        if m != own:
            seen.suspensions[:, m, OfSuspension.LEGAL + 1 :] = 0.0
