"""Which runs the engine plays, and its memory at their beginning."""

from typing import Any

import numpy as np

from sim.arrays import IntArray
from sim.engine import codes
from sim.engine.acting import place, start
from sim.engine.codes import NEVER, OWN_ONLY
from sim.engine.compactly import place_compactly
from sim.engine.filling import fill, fill_by_list, route_arrivals
from sim.engine.heavy_edges import place_by_edges
from sim.engine.layout import (
    FILL,
    GAME,
    IDLE,
    JUDGE,
    KIND,
    LIMIT,
    NOBODY,
    NOTE,
    PLACE,
    QUANTUM,
    QUEUE,
    RANK,
    ROUTE,
    RULE,
    SERVE,
    START,
    TRIED,
    WAITER,
    Belief,
    Compact,
    Memory,
    Workload,
)
from sim.engine.least_workload import note_workload, place_by_workload
from sim.engine.loop import EngineLoop, keys_of, order_is_idle
from sim.engine.offers import joins_unknown
from sim.engine.placing import RARE, place_rarely
from sim.engine.preempting import serve
from sim.engine.quanta import note_quantum
from sim.forwarding.random import RandomForwarding
from sim.kernel.layout import UNBOUNDED, RowArray, State
from sim.kernel.rooms import make_rooms
from sim.partitioned import PartitionedScheduler
from sim.physics.physics import Physics
from sim.physics.slowing_tables import empty_crowd, pairs_alone
from sim.placers.skew import Skew
from sim.placing.known_graphs import KnownGraphs, graphs_of, no_graphs
from sim.preempting import PreemptiveScheduler
from sim.protocols import Forwarding, Placer, Scheduler, Sharing
from sim.queueing import QueueScheduler, own_code
from sim.routine import address_of, ask, count, tell
from sim.signals import Signal
from sim.traits import WHOLE_GPU_MILLI
from sim.view import ClusterView, ViewMaker

PAIR = 2  # tenants
MONOTONE = (*codes.NEVER_WAIT, codes.CONSOLIDATED)  # one GPU more never takes a place away
JUDGES_PROFILE = (codes.COMPACT_WAIT, codes.SKEW)
JUDGES = {  # else `place_rarely`
    codes.LWF: place_by_workload,
    codes.HEAVY_EDGE: place_by_edges,
    codes.COMPACT_WAIT: place_compactly,
}
OWN_RULES = ("decide", "fill", "kind_of", "asked_again_s", "wake_s")


def rule_of(scheduler: Scheduler, state: State) -> RowArray | str:
    """RULE of a scheduler that the engine can play in this run, else why Python has to decide."""
    child: Scheduler = scheduler
    forwarding: int | str = OWN_ONLY
    if isinstance(scheduler, PartitionedScheduler):
        child, forwarding = scheduler.child, _forwarding_of(scheduler, state)
    elif state.world[0]["num_partitions"] > 1:
        return "one queue serves several partitions"
    if not isinstance(child, QueueScheduler):
        return f"{scheduler.name} has rounds or placements of its own"
    codes_ = (forwarding, _order_of(child), _code_of(child.placer), _code_of(child.sharing))
    for code in codes_:
        if isinstance(code, str):
            return code
    rule = np.zeros(1, dtype=RULE)
    rule["forwarding"], rule["order"], rule["placer"], rule["sharing"] = codes_
    for key, value in {
        "preempts": isinstance(child, PreemptiveScheduler),
        "skip_blocked": child.skip_blocked,
        "least_speed": getattr(child.sharing, "least_speed", 0.0),
        "most_slowdown": getattr(child.placer, "most_slowdown", 1.0),
        "rack_wait_s": getattr(child.placer, "rack_wait_s", 0.0),
        "anywhere_wait_s": getattr(child.placer, "anywhere_wait_s", 0.0),
        "quantum_gpu_s": getattr(child, "quantum_gpu_s", np.nan),
        "kappa": getattr(child.placer, "kappa", 0),
    }.items():
        rule[key] = value
    return _completed(rule, child, state)


def _code_of(part: Placer | Sharing | Forwarding) -> int | str:
    code = own_code(part)
    return f"{type(part).__name__} is Python" if code is None else code


def _forwarding_of(scheduler: PartitionedScheduler, state: State) -> int | str:
    code = _code_of(scheduler.forwarding)
    if code == codes.DRAWN and len(state.children) > 0:
        return "random forwarding of jobs that wait for others is drawn as they come"
    return code


def _order_of(child: QueueScheduler) -> int | str:
    """Its code; for an own order FIXED or ASKED, and for one that decides otherwise why not."""
    code = own_code(child)
    if code is not None:
        return code
    base = PreemptiveScheduler if isinstance(child, PreemptiveScheduler) else QueueScheduler
    for name in OWN_RULES:
        if getattr(type(child), name) is not getattr(base, name):
            return f"{type(child).__name__} has a `{name}` of its own"
    if getattr(type(child), "keys") is not QueueScheduler.keys:  # noqa: B009 - the function itself
        return codes.FIXED
    return codes.ASKED


def _completed(rule: RowArray, child: QueueScheduler, state: State) -> RowArray | str:
    """The rule with what follows from it."""
    placer, sharing = rule["placer"][0], rule["sharing"][0]
    pairwise = bool(
        sharing == NEVER or rule["least_speed"][0] <= 0 or state.tenant.shape[1] <= PAIR
    )
    looks_around = placer in (codes.COMPACT_WAIT, codes.DELAY)
    rule["shrinks"] = pairwise and not looks_around
    if rule["preempts"][0] and not (rule["shrinks"][0] and placer in MONOTONE):
        return f"preemption with {child.placer.name} and {child.sharing.name} is searched in Python"
    size = state.server["last_gpu"] - state.server["first_gpu"]
    even = placer == codes.CONSOLIDATED and size.min() == size.max() and _all_whole(state)
    rule["by_size"] = rule["shrinks"][0] and (placer in codes.NEVER_WAIT or even)
    rule["judges_job"] = placer == codes.DELAY
    # A start may make room for who was passed, who is not looked at again: so lists, not heaps.
    dynamic = rule["order"][0] in (codes.TETRIS, codes.ASKED)
    rule["listed"] = dynamic or not rule["shrinks"][0]
    return rule


def _all_whole(state: State) -> bool:
    """Whether no job asks for more or less than empty GPUs."""
    return not state.world[0]["demands_matter"]


def engine_loop(
    scheduler: Scheduler, rule: RowArray, state: State, views: ViewMaker, *, misled: bool, seed: int
) -> EngineLoop:
    """The loop for a run that begins; `views` grants the scheduler's `needs`.

    Args:
        scheduler: what `rule` is of.
        rule: from `rule_of`.
        state: at time 0.
        views: of the run.
        misled: schedulers are told wrong about which jobs fit on one GPU.
        seed: of random forwarding.

    Raises:
        SignalError: the order looks at predictions, and there are none.
        GpuYardError: an own order's keys are no numbers.
    """
    child = scheduler.child if isinstance(scheduler, PartitionedScheduler) else scheduler
    assert isinstance(child, QueueScheduler)
    rule["checks"] = rule["sharing"][0] != NEVER and misled
    memory = _memory(rule, child, state, views.view())
    if isinstance(scheduler, PartitionedScheduler):
        _draw(memory, scheduler, state, seed)
    _link(memory, state)
    loop = EngineLoop(child=child, state=state, memory=memory, views=views)
    if rule["order"][0] == codes.FIXED:
        memory.waiter["key"] = keys_of(child, views)
    return loop


def _link(memory: Memory, state: State) -> None:
    """Write down where the compiled functions are that this rule calls."""
    rule, to = memory.rule[0], memory.routine
    to[PLACE] = address_of(place, ask, state, memory, numbers=2)
    to[START] = address_of(start, tell, state, memory, numbers=1)
    filling = fill_by_list if rule["listed"] else fill
    if not rule["preempts"] or rule["listed"] or rule["forwarding"] == codes.STEAL:
        to[FILL] = address_of(filling, count, state, memory, numbers=2)
    if rule["preempts"]:
        to[SERVE] = address_of(serve, tell, state, memory, numbers=1)
    if rule["order"] == codes.QUANTA:
        to[QUANTUM] = address_of(note_quantum, tell, state, memory, numbers=1)
    if rule["forwarding"] in codes.ROUTES:
        to[ROUTE] = address_of(route_arrivals, tell, state, memory, numbers=0)
    if rule["placer"] in RARE:
        judge = JUDGES.get(int(rule["placer"]), place_rarely)
        to[JUDGE] = address_of(judge, ask, state, memory, numbers=3)
    if rule["placer"] == codes.LWF:
        to[NOTE] = address_of(note_workload, tell, state, memory, numbers=1)
    if rule["order"] == codes.ASKED:
        to[IDLE] = address_of(order_is_idle, ask, state, memory, numbers=0)


def _memory(rule: RowArray, child: QueueScheduler, state: State, view: ClusterView) -> Memory:
    kind, kind_of = _kinds(rule, child, state, view)
    partitions, servers, gpus = len(state.partition), len(state.server), len(state.gpu)
    profiles = int(kind["profile"].max()) + 1
    largest = state.rooms.tally.shape[1] - 2
    queue = np.zeros((partitions, 2 * len(kind)), dtype=QUEUE)
    tried = np.zeros((partitions, len(kind)), dtype=TRIED)
    rank = np.zeros(len(state.running), dtype=RANK)
    tried["refused"] = rank["job"] = NOBODY
    offer = make_rooms(1, servers, gpus, largest)
    offer.tally[0, 0] = offer.sizes[0, 0] = servers
    joining = (profiles, gpus) if rule["sharing"][0] != NEVER else (1, 1)
    game, likes = np.zeros(1, dtype=GAME), int(kind["like"].max()) + 1
    game["room_of"] = NOBODY
    return Memory(
        routine=np.zeros(9, dtype=np.int64),
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
        joins=joins_unknown(int(view.server_type.max()) + 1, profiles),
        who=np.zeros(gpus, dtype=np.int64),
        seen_at=np.full(servers, NOBODY, dtype=np.int64),
        joinable=np.zeros((likes, servers), dtype=np.int64),
        counted_at=np.full((likes, servers), NOBODY, dtype=np.int64),
        compact=_compact(rule, kind, partitions),
        nic_jobs=np.zeros(servers, dtype=np.int64),
        uplink_jobs=np.zeros(len(state.rack), dtype=np.int64),
        free_share=np.zeros(partitions),
        crowd=empty_crowd(state.tenant.shape[1]),
        server_type=np.array(view.server_type),
        server_rack=np.ascontiguousarray(state.server["rack"]),
        first_gpu=np.array(view.topology.server_first_gpu, dtype=np.int64),
        belief=_belief(view),
        workload=_workload(rule, state),
        graphs=_graphs(rule, view),
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
    if rule["sharing"][0] != NEVER:
        kind["like"] = _likes(rule, view.belief)[kind["profile"]]
    if isinstance(child.placer, Skew):
        kind["skewed"] = child.placer.skewed(view.belief.catalogue)[kind["profile"]]
    return kind, kind_of.reshape(-1).astype(np.int64)


def _likes(rule: RowArray, belief: Physics) -> IntArray:
    """(P,) the same number for profiles that may share with the same ones."""
    feasible, slowdown = belief.pairs.feasible, belief.slowing.slowdown
    profiles = feasible.shape[1]
    if rule["least_speed"][0] > 0 or not np.isfinite(slowdown).all():
        return np.arange(profiles)
    beside = np.array(feasible).transpose(1, 0, 2).reshape(profiles, -1)
    like: IntArray = np.unique(beside, axis=0, return_inverse=True)[1].reshape(-1)
    return like


def _waiters(rule: RowArray, kind_of: IntArray, view: ClusterView) -> RowArray:
    waiter = np.zeros(len(kind_of), dtype=WAITER)
    waiter["kind"] = kind_of
    predicts = rule["order"][0] in (codes.LEFT, codes.SERVICE, codes.TETRIS)
    if predicts or rule["placer"][0] == codes.LWF:
        waiter["estimate_s"] = view.jobs.estimate_s
    return waiter


def _draw(memory: Memory, scheduler: PartitionedScheduler, state: State, seed: int) -> None:
    """Where random forwarding sends each job, drawn in order of arrival."""
    if not isinstance(scheduler.forwarding, RandomForwarding):
        return
    capacity = state.partition["gpus"]
    router, _ = np.random.SeedSequence(seed).generate_state(2)
    rng: Any = np.random.default_rng(router)
    for job, row in enumerate(state.job):
        if row["withdraw_at_s"] > row["submit_s"]:
            memory.waiter["drawn"][job] = scheduler.forwarding.drawn(
                int(row["num_gpus"]), int(row["partition"]), capacity, rng
            )


def _belief(view: ClusterView) -> Belief:
    """Contiguous copies whatever they are made from: one type, compiled once."""
    if Signal.INTERFERENCE not in view.granted:
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


def _compact(rule: RowArray, kind: RowArray, partitions: int) -> Compact:
    looks = rule["placer"][0] == codes.COMPACT_WAIT
    profiles, gangs = int(kind["profile"].max()) + 1, int(kind["gang"].max()) + 1
    m, p, b = (partitions, profiles, gangs) if looks else (1, 1, 1)
    return Compact(
        least_s=np.full((m, p, b), np.nan),
        spread_s=np.full((p, b), np.nan),
        fastest_s=np.full((m, p), np.nan),
    )


def _workload(rule: RowArray, state: State) -> Workload:
    looks = rule["placer"][0] == codes.LWF
    gpus, servers = (len(state.gpu), len(state.server)) if looks else (1, 1)
    return Workload(
        noted_in=np.full(gpus, NOBODY, dtype=np.int64),
        tenants=np.zeros(gpus, dtype=np.int64),
        before_s=np.zeros(gpus),
        load_s=np.zeros(gpus),
        left_s=np.zeros(state.tenant.shape[1]),
        server=np.zeros(servers, dtype=np.int64),
    )


def _graphs(rule: RowArray, view: ClusterView) -> KnownGraphs:
    if rule["placer"][0] != codes.HEAVY_EDGE:
        return no_graphs()
    return graphs_of(view.belief, view.jobs.profile, view.jobs.num_gpus)
