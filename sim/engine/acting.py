"""Orders as they are carried out: on the state itself, at once.

The log tells a decision as preemptions, forwards, starts; what was done in another order is sorted
when the decision is made (`close_decision`).
"""

import numpy as np

from sim.codes import ALIKE, COMPACT_WAIT, NEVER, TETRIS
from sim.engine.layout import NOBODY, NOTE, PYTHON_PLACE, RAISED, Memory
from sim.engine.offers import ALONE, SHARED, TIGHT, make_offer
from sim.engine.placing import choose
from sim.engine.queues import forget_rank
from sim.jit import array_kernel, kernel
from sim.jobs import WHOLE_GPU_MILLI
from sim.kernel.apply import LEGAL, check_gpus, hand_over, preempt, start_on
from sim.kernel.layout import State
from sim.kernel.rates import rerate
from sim.kernel.records import sort_orders
from sim.routine import call_python, tell


@kernel
def _place_on_empty(state: State, memory: Memory, m: int, job: int) -> bool:
    """GPUs for a job that any empty ones are good for."""
    memory.game[0].priced, memory.game[0].whole = 0, 1
    return choose(state, memory, 1, m, job)


@array_kernel
def _place_alone(state: State, memory: Memory, m: int, job: int) -> bool:
    """GPUs that the job has to itself, or the part of one that it asks for.

    A part goes where least is left over, and opens an empty GPU only where no other has room.
    """
    number = memory.waiter[job].kind
    if memory.kind[number].picky == 0:
        return _place_on_empty(state, memory, m, job)
    if memory.kind[number].gpu_milli < WHOLE_GPU_MILLI:
        make_offer(state, memory, m, number, TIGHT)
        if choose(state, memory, 0, m, job):
            return True
    make_offer(state, memory, m, number, ALONE)
    return choose(state, memory, 0, m, job)


@array_kernel
def place_plainly(state: State, memory: Memory, m: int, job: int) -> bool:
    """As `place`, where empty GPUs are all that any job needs and none are shared."""
    return _place_on_empty(state, memory, m, job)


@array_kernel
def place(state: State, memory: Memory, m: int, job: int) -> bool:
    """Write GPUs of partition `m` for a job under placer and sharing rule; False: it waits."""
    sharing = memory.rule[0].sharing
    if sharing != ALIKE and _place_alone(state, memory, m, job):
        return True
    if sharing == NEVER:
        return False
    make_offer(state, memory, m, memory.waiter[job].kind, SHARED)
    return choose(state, memory, 0, m, job)


@array_kernel
def place_by_python(state: State, memory: Memory, m: int, job: int) -> bool:  # noqa: ARG001
    """The same, where placer or sharing rule is a Python object."""
    if memory.game[0].verdict != LEGAL:
        return False
    found = call_python(memory.routine[PYTHON_PLACE], m, job)
    if found == RAISED:
        memory.game[0].verdict = RAISED
    return found == 1


@kernel
def _is_legal(state: State, memory: Memory, job: int) -> bool:
    """Whether the chosen GPUs take the job; else why not is written down."""
    verdict, gpu = check_gpus(state, job, memory.gpus, state.job[job].num_gpus)
    if verdict != LEGAL:
        memory.game[0].verdict = verdict
        memory.game[0].job = job
        memory.game[0].what = gpu
    return bool(verdict == LEGAL)


@kernel
def start(state: State, memory: Memory, job: int) -> None:
    """Start a waiting job of this partition on the chosen GPUs."""
    if memory.rule[0].checks != 0 and not _is_legal(state, memory, job):
        return
    gang = state.job[job].num_gpus
    if memory.routine[NOTE] != 0:
        for i in range(gang):
            tell(memory.routine[NOTE], state, memory, memory.gpus[i])
    start_on(state, job, memory.gpus, gang, np.inf)
    memory.waiter[job].started_in = memory.game[0].decisions
    forget_rank(memory, job)


@kernel
def forward(state: State, memory: Memory, job: int, partition: int) -> None:
    """Hand a waiting job to another partition."""
    hand_over(state, job, partition)
    memory.game[0].mixed = 1


@kernel
def note_leaving(state: State, memory: Memory, job: int) -> None:
    """Tell who wants to know that a running job is about to leave its GPUs."""
    if memory.routine[NOTE] != 0:
        row = state.job[job]
        for at in range(row.first, row.first + row.held):
            tell(memory.routine[NOTE], state, memory, state.placed[at])


@kernel
def stop(state: State, memory: Memory, job: int) -> None:
    """Push a running job off its GPUs; it is left to the caller where it waits."""
    note_leaving(state, memory, job)
    preempt(state, job)
    memory.waiter[job].stopped_in = memory.game[0].decisions
    state.world[0].num_joined -= 1
    memory.game[0].mixed = 1


@kernel
def open_decision(state: State, memory: Memory) -> None:
    """Remember where the decision begins, and what rules want to know of that moment."""
    game, world, rule = memory.game[0], state.world[0], memory.rule[0]
    game.decisions += 1
    game.decision_row, game.decision_gpu = world.num_logged, world.num_logged_gpus
    game.mixed, game.wake_s, game.stopped = 0, np.inf, NOBODY
    if rule.placer == COMPACT_WAIT:
        _look_at_links(state, memory)
    if rule.order == TETRIS:
        for m in range(len(state.partition)):
            memory.free_share[m] = _free_share(state, m)


@kernel
def _look_at_links(state: State, memory: Memory) -> None:
    """Remember who is on links; where it is others, who was refused may have a place."""
    changed = False
    for server in range(len(state.server)):
        changed |= memory.nic_jobs[server] != state.server[server].nic_jobs
        memory.nic_jobs[server] = state.server[server].nic_jobs
    for rack in range(len(state.rack)):
        changed |= memory.uplink_jobs[rack] != state.rack[rack].uplink_jobs
        memory.uplink_jobs[rack] = state.rack[rack].uplink_jobs
    memory.game[0].link_changes += changed


@kernel
def _free_share(state: State, m: int) -> float:
    """Largest share of a server of the partition that is free."""
    share = 0.0
    for i in range(state.partition[m].first_own, state.partition[m].last_own):
        where = state.server[state.own[i]]
        share = max(
            share, state.free_gpus.usable[state.own[i]] / (where.last_gpu - where.first_gpu)
        )
    return share


@array_kernel
def close_decision(state: State, memory: Memory) -> None:
    """New speeds, the log in its order, and when to be asked again."""
    if memory.game[0].mixed != 0:
        sort_orders(state, memory.game[0].decision_row, memory.game[0].decision_gpu)
    rerate(state)
    state.world[0].wake_s = memory.game[0].wake_s
