"""Which runs the engine plays, and its memory at their beginning."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from sim import codes
from sim.arrays import IntArray, RowArray, distinct_rows
from sim.codes import NEVER
from sim.compiling import Routine, write_addresses
from sim.engine import layout, placing
from sim.engine.acting import (
    joins_unknown,
    name_shared,
    place,
    place_by_python,
    place_on_empty,
    start,
)
from sim.engine.arithmetic import Arithmetic, as_arithmetic
from sim.engine.filling import fill, fill_by_list, fill_by_score, route_arrivals
from sim.engine.layout import NOBODY, Belief, Compact, Memory, Workload
from sim.engine.loop import EngineLoop, order_is_idle, play, work_out, write_keys
from sim.engine.preempting import search_aside, serve
from sim.engine.queues import note_quantum
from sim.engine.rule import Child, Composition, make_rule
from sim.engine.searching import note_workload, place_by_workload, place_compactly
from sim.forwarding import RandomForwarding
from sim.handle import ask, count, signature_of, tell, weigh
from sim.jobs import WHOLE_GPU_MILLI
from sim.kernel.free_gpus import make_free_gpus
from sim.kernel.layout import UNBOUNDED, State
from sim.kernel.step import capacities
from sim.physics.heavy_edge import KnownGraphs, graphs_of, no_graphs
from sim.physics.laws import NetworkTables
from sim.physics.mix_table import empty_tenants, pairs_alone
from sim.physics.physics import Physics
from sim.view import ClusterView, Signal, ViewMaker

JUDGES_PROFILE = (codes.COMPACT_WAIT, codes.SKEW)
JUDGES = {  # one for each of `placing.RARE`; the others are in `placing.choose`
    codes.LWF: place_by_workload,
    codes.HEAVY_EDGE: placing.place_by_edges,
    codes.COMPACT_WAIT: place_compactly,
    codes.LEAST_LOADED: placing.place_apart,
    codes.LEAST_INTERFERENCE: placing.place_by_cost,
    codes.CLOSEST: placing.place_closely,
    codes.DELAY: placing.place_by_timers,
    codes.SKEW: placing.place_by_skew,
}


def engine_loop(
    scheduler: Composition, rule: RowArray, state: State, views: ViewMaker, *, misled: bool
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
    child, view, found = scheduler.child, views.view(), None
    by_keys = bool(rule["order"][0] == codes.FIXED)
    if child.preempts and (by_keys or (rule["order"][0] == codes.ASKED and child.by_priority)):
        found = as_arithmetic(child, view.jobs, by_keys=by_keys)
    if found is not None:
        rule = make_rule(scheduler, codes.WORKED_OUT, state)
        rule["ages"] = np.isin(codes.NOW, found.steps["code"])
    rule["checks"] = rule["sharing"][0] != NEVER and misled
    memory = _linked_memory(scheduler, rule, state, view, plays=True, found=found)
    loop = EngineLoop(scheduler=scheduler, state=state, memory=memory, views=views)
    if rule["order"][0] == codes.FIXED:
        write_keys(child, views, memory)
    return loop


def asked_memory(scheduler: Composition, state: State, view: ClusterView) -> Memory:
    """Memory for decisions one by one, whose orders Python gives (`sim.engine.asking`)."""
    rule = make_rule(scheduler, codes.ASKED, state)
    rule["checks"] = 1
    return _linked_memory(scheduler, rule, state, view, plays=False)


def _linked_memory(
    scheduler: Composition, rule: RowArray, state: State, view: ClusterView, *, plays: bool,
    found: Arithmetic | None = None,
) -> Memory:  # fmt: skip
    memory = _memory(rule, scheduler.child, state, view, found)
    _draw(memory, scheduler, state)
    _link(memory, state, plays=plays)
    return memory


def _link(memory: Memory, state: State, *, plays: bool) -> None:
    """Write down where the compiled functions are that this rule calls; `plays`: in a loop."""
    entry = (play, signature_of(state, memory, numbers=1)) if plays else None
    write_addresses((memory.routine, _routines(memory, state, plays=plays)), entry=entry)


def _routines(memory: Memory, state: State, *, plays: bool) -> Iterator[Routine]:
    rule, handles = memory.rule[0], (state, memory)
    picky = memory.job_class["picky"].any()
    placing = place if rule["sharing"] != NEVER or picky else place_on_empty
    if codes.IN_PYTHON in (rule["placer"], rule["sharing"]):
        placing = place_by_python
    yield Routine(layout.PLACE, placing, ask, handles, 2)
    yield Routine(layout.START, start, tell, handles, 1)
    if plays and (not rule["preempts"] or rule["listed"] or rule["forwarding"] == codes.STEAL):
        filling = fill_by_list if rule["listed"] or not rule["shrinks"] else fill
        filling = fill_by_score if rule["order"] == codes.TETRIS else filling
        yield Routine(layout.FILL, filling, count, handles, 2)
    if plays and rule["preempts"] and not rule["listed"]:
        yield Routine(layout.SERVE, serve, tell, handles, 1)
    if rule["preempts"] and not rule["monotone"]:
        yield Routine(layout.SEARCH, search_aside, ask, handles, 2)
    yield from _parts(memory, state)
    if plays and rule["order"] == codes.ASKED:
        yield Routine(layout.IDLE, order_is_idle, ask, handles)


def _parts(memory: Memory, state: State) -> Iterator[Routine]:
    """What belongs to one order, placer, sharing or forwarding rule."""
    rule, handles = memory.rule[0], (state, memory)
    if rule["order"] == codes.WORKED_OUT:
        yield Routine(layout.KEY, work_out, weigh, handles, 2)
    if rule["order"] == codes.QUANTA:
        yield Routine(layout.QUANTUM, note_quantum, tell, handles, 1)
    if rule["forwarding"] in codes.ROUTES:
        yield Routine(layout.ROUTE, route_arrivals, tell, handles)
    if rule["placer"] in placing.RARE:
        yield Routine(layout.JUDGE, JUDGES[int(rule["placer"])], ask, handles, 3)
    if rule["sharing"] != NEVER:
        yield Routine(layout.NAME, name_shared, tell, handles, 1)
    if rule["placer"] == codes.LWF:
        yield Routine(layout.NOTE, note_workload, tell, handles, 1)


def _memory(
    rule: RowArray, child: Child, state: State, view: ClusterView, found: Arithmetic | None
) -> Memory:
    classes, class_of = _classes(rule, child, state, view)
    partitions, servers, gpus = len(state.partition), len(state.server), len(state.gpu)
    profiles = int(classes["profile"].max()) + 1
    largest = state.free_gpus.tally.shape[1] - 2
    queue = np.zeros((partitions, 2 * len(classes)), dtype=layout.QUEUE)
    tried = np.zeros((partitions, len(classes)), dtype=layout.TRIED)
    rank = np.zeros(len(state.running), dtype=layout.RANK)
    tried["refused"] = rank["job"] = NOBODY
    offer = make_free_gpus(1, servers, gpus, largest)
    offer.tally[0, 0] = offer.sizes[0, 0] = servers
    joining = (profiles, gpus) if rule["sharing"][0] != NEVER else (1, 1)
    scalars, likes = np.zeros(1, dtype=layout.SCALARS), int(classes["like"].max()) + 1
    scalars["room_of"] = NOBODY
    return Memory(
        routine=np.zeros(layout.ROUTINES, dtype=np.int64), rule=rule, scalars=scalars,
        job_class=classes, queue=queue, live=np.zeros(queue.shape, dtype=np.int64),
        num_live=np.zeros(partitions, dtype=np.int64), tried=tried,
        limit=np.zeros(int(classes["group"].max()) + 1, dtype=layout.LIMIT),
        waiter=_waiters(rule, class_of, view),
        steps=np.zeros(1, dtype=layout.STEP) if found is None else found.steps,
        columns=np.zeros((1, 1)) if found is None else found.columns, rank=rank,
        victim=np.zeros(len(state.running), dtype=np.int64), stamped=np.zeros(gpus, dtype=np.int64),
        lifted=np.zeros(len(state.placed), dtype=np.int64), offer=offer,
        gpus=np.zeros(gpus, dtype=np.int64), joining=np.zeros(joining),
        joined_at=np.full(joining, NOBODY, dtype=np.int64),
        joins=joins_unknown(int(view.server_type.max()) + 1, profiles),
        who=np.zeros(gpus, dtype=np.int64), seen_at=np.full(servers, NOBODY, dtype=np.int64),
        joinable=np.zeros((likes, servers), dtype=np.int64),
        counted_at=np.full((likes, servers), NOBODY, dtype=np.int64),
        compact=_compact(rule, classes, partitions), nic_jobs=np.zeros(servers, dtype=np.int64),
        uplink_jobs=np.zeros(len(state.rack), dtype=np.int64),
        tenants=empty_tenants(state.tenant.shape[1]), server_type=np.array(view.server_type),
        server_rack=np.ascontiguousarray(state.server["rack"]),
        first_gpu=np.array(view.topology.server_first_gpu, dtype=np.int64),
        belief=belief_of(view, child.needs), workload=_workload(rule, state),
        graphs=_graphs(rule, view),
    )  # fmt: skip


def _classes(
    rule: RowArray, child: Child, state: State, view: ClusterView
) -> tuple[RowArray, IntArray]:
    """JOB_CLASS of every class, and (J,) the class of each job."""
    job = state.job
    judged = rule["sharing"][0] != NEVER or rule["placer"][0] in JUDGES_PROFILE
    profile = view.jobs.profile if judged else np.zeros(len(job), dtype=np.int64)
    asks = ("gpu_milli", "cpu_milli", "memory_mib", "type_mask")
    rows, class_of = distinct_rows([profile, *(job[name] for name in asks), job["num_gpus"]])
    classes = np.zeros(len(rows), dtype=layout.JOB_CLASS)
    for at, name in enumerate(("profile", *asks, "gang")):
        classes[name] = rows[:, at]
    classes["group"] = np.unique(rows[:, :-1], axis=0, return_inverse=True)[1].reshape(-1)
    present = int(np.bitwise_or.reduce(1 << state.server["gpu_type"]))
    classes["picky"] = (
        (classes["gpu_milli"] != WHOLE_GPU_MILLI)
        | ((classes["type_mask"] & present) != present)
        | ((classes["cpu_milli"] > 0) & (state.server["cpu_milli"].min() < UNBOUNDED))
        | ((classes["memory_mib"] > 0) & (state.server["memory_mib"].min() < UNBOUNDED))
    )
    if rule["sharing"][0] != NEVER:
        classes["like"] = _likes(rule, view.belief)[classes["profile"]]
    if rule["placer"][0] == codes.SKEW:
        placer: Any = child.placer
        classes["skewed"] = placer.skewed(view.belief.catalogue)[classes["profile"]]
    return classes, class_of


def _likes(rule: RowArray, belief: Physics) -> IntArray:
    """(P,) the same number for profiles that may share with the same ones."""
    feasible, slowdown = belief.pairs.feasible, belief.slowing.slowdown
    profiles = feasible.shape[1]
    if rule["least_speed"][0] > 0 or not np.isfinite(slowdown).all():
        return np.arange(profiles)
    beside = np.array(feasible).transpose(1, 0, 2).reshape(profiles, -1)
    return np.unique(beside, axis=0, return_inverse=True)[1].reshape(-1)


def _waiters(rule: RowArray, class_of: IntArray, view: ClusterView) -> RowArray:
    waiter = np.zeros(len(class_of), dtype=layout.WAITER)
    waiter["job_class"] = class_of
    waiter["stopped_in"] = NOBODY
    predicts = rule["order"][0] in (codes.LEFT, codes.SERVICE, codes.TETRIS)
    if predicts or rule["placer"][0] == codes.LWF:
        waiter["estimate_s"] = view.jobs.estimate_s
    return waiter


def _draw(memory: Memory, scheduler: Composition, state: State) -> None:
    """Where random forwarding sends each job, drawn in order of the job table."""
    if not isinstance(scheduler.forwarding, RandomForwarding):
        return
    rng: Any = np.random.default_rng(scheduler.router_seed)
    memory.waiter["drawn"] = scheduler.forwarding.drawn(
        state.job["num_gpus"], state.job["partition"], capacities(state), rng
    )


def belief_of(view: ClusterView, needs: Signal) -> Belief:
    """What a view tells of speeds; tables of one entry where `needs` do not name them.

    Contiguous copies whatever they are made from: one type, compiled once.
    """
    if Signal.INTERFERENCE not in needs:
        table, pairs = np.ones((1, 1)), np.ones((1, 1, 1))
        speeds = np.ones((1, view.topology.num_servers))
        slowing = pairs_alone(pairs)
        network = NetworkTables(table, table, table, np.ones(1), np.ones(1))
        return Belief(slowing, pairs > 0, speeds, network)
    belief = view.belief
    compute_s = belief.catalogue.compute_s[:, view.server_type]
    return Belief(
        slowing=belief.slowing, feasible=np.array(belief.pairs.feasible, order="C"),
        compute_s=np.array(compute_s, order="C"), network=belief.network,
    )  # fmt: skip


def _compact(rule: RowArray, classes: RowArray, partitions: int) -> Compact:
    looks = rule["placer"][0] == codes.COMPACT_WAIT
    profiles, gangs = int(classes["profile"].max()) + 1, int(classes["gang"].max()) + 1
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
        noted_in=np.full(gpus, NOBODY, dtype=np.int64), tenants=np.zeros(gpus, dtype=np.int64),
        before_s=np.zeros(gpus), load_s=np.zeros(gpus), left_s=np.zeros(state.tenant.shape[1]),
        server=np.zeros(servers, dtype=np.int64),
    )  # fmt: skip


def _graphs(rule: RowArray, view: ClusterView) -> KnownGraphs:
    if rule["placer"][0] != codes.HEAVY_EDGE:
        return no_graphs()
    return graphs_of(view.belief, view.jobs.profile, view.jobs.num_gpus)
