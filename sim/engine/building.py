"""Which runs the engine plays, and its memory at their beginning."""

from typing import Any

import numpy as np

from sim.arrays import IntArray
from sim.engine import codes
from sim.engine.acting import place, place_by_python, start
from sim.engine.asking import child_of
from sim.engine.codes import NEVER, OWN_ONLY
from sim.engine.composed import (
    PAIR,
    Composed,
    Filling,
    PartitionedScheduler,
    PreemptiveScheduler,
    QueueScheduler,
    own_code,
)
from sim.engine.filling import fill, fill_by_list, route_arrivals
from sim.engine.layout import (
    FILL,
    GAME,
    IDLE,
    JUDGE,
    KIND,
    LIMIT,
    NOBODY,
    PLACE,
    QUANTUM,
    QUEUE,
    RANK,
    ROUTE,
    ROUTINES,
    RULE,
    SEARCH,
    SERVE,
    START,
    TRIED,
    WAITER,
    Belief,
    Memory,
)
from sim.engine.loop import EngineLoop, keys_of, order_is_idle
from sim.engine.placing import RARE, place_rarely
from sim.engine.preempting import search_aside, serve
from sim.engine.quanta import note_quantum
from sim.forwarding.random import RandomForwarding
from sim.kernel.layout import UNBOUNDED, RowArray, State
from sim.kernel.rooms import make_rooms
from sim.physics.slowing_tables import empty_crowd, pairs_alone
from sim.placers.skew import Skew
from sim.protocols import Forwarding, Placer, Scheduler, Sharing
from sim.routine import address_of, ask, count, tell
from sim.signals import Signal
from sim.traits import WHOLE_GPU_MILLI
from sim.view import ClusterView, ViewMaker

MONOTONE = (*codes.NEVER_WAIT, codes.CONSOLIDATED)  # one GPU more never takes a place away
JUDGES_PROFILE = (codes.COMPACT_WAIT, codes.SKEW)
JUDGES_JOB = (codes.DELAY,)
OWN_RULES = ("decide", "orders", "kind_of", "asked_again_s", "wake_s")


def rule_of(scheduler: Scheduler, state: State) -> RowArray | str:
    """RULE of a scheduler whose whole run the engine can play, else why Python has to be asked."""
    if not isinstance(scheduler, QueueScheduler | PartitionedScheduler):
        return f"{scheduler.name} has rounds or placements of its own"
    child = child_of(scheduler)
    forwarding = scheduler.forwarding if isinstance(scheduler, PartitionedScheduler) else None
    for part in (forwarding, child.placer, child.sharing):
        if part is not None and not getattr(part, "steals", False) and own_code(part) is None:
            return f"{type(part).__name__} is Python"
    order = _order_of(child)
    if isinstance(order, str):
        return order
    return _rule(scheduler, order, state)


def _order_of(child: QueueScheduler) -> int | str:
    """Its code; for an own order FIXED or ASKED, and for one that decides otherwise why not."""
    code = own_code(child)
    if code is not None:
        return code
    if isinstance(child, Filling):
        return f"{type(child).__name__} has a `fill` of its own"
    base = PreemptiveScheduler if isinstance(child, PreemptiveScheduler) else QueueScheduler
    for name in OWN_RULES:
        if getattr(type(child), name) is not getattr(base, name):
            return f"{type(child).__name__} has a `{name}` of its own"
    if getattr(type(child), "keys") is not QueueScheduler.keys:  # noqa: B009 - the function itself
        return codes.FIXED
    return codes.ASKED


def _rule(scheduler: Composed, order: int, state: State) -> RowArray:
    """RULE of a scheduler, parts in Python included."""
    child, forwarding = child_of(scheduler), OWN_ONLY
    if isinstance(scheduler, PartitionedScheduler):
        steals = scheduler.forwarding.steals
        forwarding = codes.STEAL if steals else _code_of(scheduler.forwarding)
    rule = np.zeros(1, dtype=RULE)
    for key, value in {
        "order": order,
        "placer": _code_of(child.placer),
        "sharing": _code_of(child.sharing),
        "forwarding": forwarding,
        "preempts": child.preempts,
        "skip_blocked": child.skip_blocked,
        "least_speed": getattr(child.sharing, "least_speed", 0.0),
        "most_slowdown": getattr(child.placer, "most_slowdown", 1.0),
        "rack_wait_s": getattr(child.placer, "rack_wait_s", 0.0),
        "anywhere_wait_s": getattr(child.placer, "anywhere_wait_s", 0.0),
        "quantum_gpu_s": getattr(child, "quantum_gpu_s", np.nan),
    }.items():
        rule[key] = value
    _complete(rule, child, state)
    return rule


def _code_of(part: Placer | Sharing | Forwarding) -> int:
    code = own_code(part)
    return codes.IN_PYTHON if code is None else code


def _complete(rule: RowArray, child: QueueScheduler, state: State) -> None:
    """Write what follows from the rule."""
    placer, sharing = rule["placer"][0], rule["sharing"][0]
    pairwise = sharing == NEVER or rule["least_speed"][0] <= 0 or state.tenant.shape[1] <= PAIR
    if codes.IN_PYTHON in (placer, sharing):  # nobody knows what a shared GPU is worth to it
        pairwise = child.sharing.name == "off" or state.tenant.shape[1] <= PAIR
    patient = placer == codes.IN_PYTHON and child.patient is not None
    looks_around = patient or placer in (codes.COMPACT_WAIT, codes.DELAY)
    rule["shrinks"] = pairwise and not looks_around
    rule["monotone"] = rule["shrinks"][0] and placer in MONOTONE and sharing != codes.IN_PYTHON
    size = state.server["last_gpu"] - state.server["first_gpu"]
    even = placer == codes.CONSOLIDATED and size.min() == size.max() and _all_whole(state)
    rule["by_size"] = rule["shrinks"][0] and (placer in codes.NEVER_WAIT or even)
    rule["judges_job"] = patient or placer in JUDGES_JOB
    # A start may make room for who was passed, who is not looked at again: so lists, not heaps.
    waits_by_list = rule["order"][0] in (codes.TETRIS, codes.ASKED)
    rule["listed"] = waits_by_list or not (rule["shrinks"][0] or rule["preempts"][0])


def _all_whole(state: State) -> bool:
    """Whether no job asks for more or less than empty GPUs."""
    return not state.world[0]["demands_matter"]


def engine_loop(
    scheduler: Composed, rule: RowArray, state: State, views: ViewMaker, *, misled: bool
) -> EngineLoop:
    """The loop for a run that begins; `views` grants the scheduler's `needs`.

    Args:
        scheduler: what `rule` is of.
        rule: from `rule_of`.
        state: at time 0.
        views: of the run.
        misled: schedulers are told wrong about which jobs fit on one GPU.

    Raises:
        SignalError: the order looks at predictions, and there are none.
        GpuYardError: an own order's keys are no numbers.
    """
    rule["checks"] = rule["sharing"][0] != NEVER and misled
    memory = _linked_memory(scheduler, rule, state, views.view(), plays=True)
    loop = EngineLoop(scheduler=scheduler, state=state, memory=memory, views=views)
    if rule["order"][0] == codes.FIXED:
        memory.waiter["key"] = keys_of(child_of(scheduler), views)
    return loop


def asked_memory(scheduler: Composed, state: State, view: ClusterView) -> Memory:
    """Memory for decisions one by one, whose orders Python gives (`sim.engine.asking`)."""
    rule = _rule(scheduler, codes.ASKED, state)
    rule["checks"] = 1
    return _linked_memory(scheduler, rule, state, view, plays=False)


def _linked_memory(
    scheduler: Composed, rule: RowArray, state: State, view: ClusterView, *, plays: bool
) -> Memory:
    memory = _memory(rule, child_of(scheduler), state, view)
    if isinstance(scheduler, PartitionedScheduler):
        _draw(memory, scheduler, state)
    _link(memory, state, plays=plays)
    return memory


def _link(memory: Memory, state: State, *, plays: bool) -> None:
    """Write down where the compiled functions are that this rule calls; `plays`: in a loop."""
    rule, to = memory.rule[0], memory.routine
    placing = place_by_python if codes.IN_PYTHON in (rule["placer"], rule["sharing"]) else place
    to[PLACE] = address_of(placing, ask, state, memory, numbers=2)
    to[START] = address_of(start, tell, state, memory, numbers=1)
    if plays and (not rule["preempts"] or rule["listed"] or rule["forwarding"] == codes.STEAL):
        filling = fill_by_list if rule["listed"] or not rule["shrinks"] else fill
        to[FILL] = address_of(filling, count, state, memory, numbers=2)
    if plays and rule["preempts"] and not rule["listed"]:
        to[SERVE] = address_of(serve, tell, state, memory, numbers=1)
    if rule["preempts"] and not rule["monotone"]:
        to[SEARCH] = address_of(search_aside, ask, state, memory, numbers=2)
    if rule["order"] == codes.QUANTA:
        to[QUANTUM] = address_of(note_quantum, tell, state, memory, numbers=1)
    if rule["forwarding"] in codes.ROUTES:
        to[ROUTE] = address_of(route_arrivals, tell, state, memory, numbers=0)
    if rule["placer"] in RARE:
        to[JUDGE] = address_of(place_rarely, ask, state, memory, numbers=3)
    if plays and rule["order"] == codes.ASKED:
        to[IDLE] = address_of(order_is_idle, ask, state, memory, numbers=0)


def _memory(rule: RowArray, child: QueueScheduler, state: State, view: ClusterView) -> Memory:
    kind, kind_of = _kinds(rule, child, state, view)
    partitions, servers, gpus = len(state.partition), len(state.server), len(state.gpu)
    profiles = int(kind["profile"].max()) + 1
    largest = state.rooms.tally.shape[1] - 2
    queue = np.zeros((partitions, 2 * len(kind)), dtype=QUEUE)
    tried = np.zeros((partitions, len(kind)), dtype=TRIED)
    tried["refused"] = NOBODY
    rank = np.zeros(len(state.running), dtype=RANK)
    rank["job"] = NOBODY
    offer = make_rooms(1, servers, gpus, largest)
    offer.tally[0, 0] = offer.sizes[0, 0] = servers
    shares, waits = rule["sharing"][0] != NEVER, rule["placer"][0] == codes.COMPACT_WAIT
    joining = (profiles, gpus) if shares else (1, 1)
    compact = (partitions, profiles, int(kind["gang"].max()) + 1) if waits else (1, 1, 1)
    game = np.zeros(1, dtype=GAME)
    game["room_of"] = NOBODY
    return Memory(
        routine=np.zeros(ROUTINES, dtype=np.int64),
        rule=rule,
        game=game,
        kind=kind,
        queue=queue,
        live=np.zeros(queue.shape, dtype=np.int64),
        num_live=np.zeros(partitions, dtype=np.int64),
        tried=tried,
        limit=np.zeros(int(kind["group"].max()) + 1, dtype=LIMIT),
        waiter=_waiters(rule, kind_of, view),
        rank=rank,
        victim=np.zeros(len(state.running), dtype=np.int64),
        stamped=np.zeros(gpus, dtype=np.int64),
        lifted=np.zeros(len(state.placed), dtype=np.int64),
        offer=offer,
        gpus=np.zeros(gpus, dtype=np.int64),
        joining=np.zeros(joining),
        joined_at=np.full(joining, NOBODY, dtype=np.int64),
        least_comm_s=np.full(compact, np.nan),
        nic_jobs=np.zeros(servers, dtype=np.int64),
        uplink_jobs=np.zeros(len(state.rack), dtype=np.int64),
        free_share=np.zeros(partitions),
        crowd=empty_crowd(state.tenant.shape[1]),
        server_type=np.array(view.server_type),
        server_rack=np.ascontiguousarray(state.server["rack"]),
        first_gpu=np.array(view.topology.server_first_gpu, dtype=np.int64),
        belief=belief_of(view, child.needs),
    )


def _kinds(
    rule: RowArray, child: QueueScheduler, state: State, view: ClusterView
) -> tuple[RowArray, IntArray]:
    """KIND of every kind, and (J,) the kind of each job."""
    job = state.job
    judged = rule["sharing"][0] != NEVER or rule["placer"][0] in JUDGES_PROFILE
    profile = view.jobs.profile if judged else np.zeros(len(job), dtype=np.int64)
    asks = ("gpu_milli", "cpu_milli", "memory_mib", "type_mask")
    columns = np.stack([profile, *(job[name] for name in asks), job["num_gpus"]], axis=1)
    rows, kind_of = np.unique(columns, axis=0, return_inverse=True)
    kind = np.zeros(len(rows), dtype=KIND)
    for at, name in enumerate(("profile", *asks, "gang")):
        kind[name] = rows[:, at]
    kind["group"] = np.unique(rows[:, :-1], axis=0, return_inverse=True)[1].reshape(-1)
    present = int(np.bitwise_or.reduce(1 << state.server["gpu_type"]))
    kind["picky"] = (
        (kind["gpu_milli"] != WHOLE_GPU_MILLI)
        | ((kind["type_mask"] & present) != present)
        | ((kind["cpu_milli"] > 0) & (state.server["cpu_milli"].min() < UNBOUNDED))
        | ((kind["memory_mib"] > 0) & (state.server["memory_mib"].min() < UNBOUNDED))
    )
    if isinstance(child.placer, Skew):
        kind["skewed"] = child.placer.skewed(view.belief.catalogue)[kind["profile"]]
    return kind, kind_of.reshape(-1).astype(np.int64)


def _waiters(rule: RowArray, kind_of: IntArray, view: ClusterView) -> RowArray:
    waiter = np.zeros(len(kind_of), dtype=WAITER)
    waiter["kind"] = kind_of
    waiter["stopped_in"] = NOBODY
    if rule["order"][0] in (codes.LEFT, codes.SERVICE, codes.TETRIS):
        waiter["estimate_s"] = view.jobs.estimate_s
    return waiter


def _draw(memory: Memory, scheduler: PartitionedScheduler, state: State) -> None:
    """Where random forwarding sends each job, drawn in order of the job table."""
    if not isinstance(scheduler.forwarding, RandomForwarding):
        return
    rng: Any = np.random.default_rng(scheduler.router_seed)
    memory.waiter["drawn"] = scheduler.forwarding.drawn(
        state.job["num_gpus"], state.job["partition"], state.partition["gpus"], rng
    )


def belief_of(view: ClusterView, needs: Signal) -> Belief:
    """What a view tells of speeds; tables of one entry where `needs` do not name them.

    Contiguous copies whatever they are made from: one type, compiled once.
    """
    if Signal.INTERFERENCE not in needs:
        table, pairs = np.ones((1, 1)), np.ones((1, 1, 1))
        speeds = np.ones((1, view.topology.num_servers))
        slowing = pairs_alone(pairs)
        return Belief(slowing, pairs > 0, speeds, table, table, table, np.ones(1), np.ones(1))
    belief = view.belief
    network, compute_s = belief.network, belief.catalogue.compute_s[:, view.server_type]
    return Belief(
        slowing=belief.slowing,
        feasible=np.array(belief.pairs.feasible, order="C"),
        compute_s=np.array(compute_s, order="C"),
        local_s=np.array(network.local_s, order="C"),
        server_s=np.array(network.server_s, order="C"),
        rack_s=np.array(network.rack_s, order="C"),
        nic_factor=np.array(network.nic_factor, order="C"),
        uplink_factor=np.array(network.uplink_factor, order="C"),
    )
