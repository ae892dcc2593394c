"""What an extra costs: the event loop of a run with it over that of the same run without.

An extra is a column of demands, an outage, uneven servers, an order of a user's own, several
partitions, or another placer, sharing or forwarding rule. The workload is chosen so that the extra
changes little of how busy the cluster is: demands rarely bind, nobody is slowed but where jobs
share, orders are alike.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
from setup_run import NO_PHYSICS, ROOT, Bench, bench

from sim.arrays import FloatArray, IntArray
from sim.engine.composed import PartitionedScheduler, PreemptiveScheduler, QueueScheduler
from sim.forwarding import Steal
from sim.jobs import ANY_TYPE, WHOLE_GPU_MILLI, Demands
from sim.topology.outages import Change, Outages
from sim.traces.prepare import picked_jobs
from sim.view import ClusterView, JobColumns, Signal

SEED = 5
SIZE = 8  # GPUs of a server
ENOUGH_S = 20.0  # no further turn once a pair has taken this long
FEW_JOBS = 200  # of a run before the first turn, in which most is compiled
SERVER_CORES_MILLI, SERVER_MEMORY_MIB = 96_000, 786_432  # 12 cores and 96 GiB a GPU
CORES_MILLI, CORES_SHARES = (2_000, 4_000, 8_000, 16_000), (0.3, 0.4, 0.25, 0.05)  # a worker
MEMORY_MIB, MEMORY_SHARES = (8_192, 32_768, 65_536, 131_072), (0.3, 0.4, 0.25, 0.05)
PARTS_MILLI, PARTS_SHARES = (WHOLE_GPU_MILLI, 500, 250), (0.7, 0.2, 0.1)  # where the gang is one
TYPE_MASKS, TYPE_SHARES = (ANY_TYPE, 1, 2), (0.8, 0.1, 0.1)  # either, the first or the second type
FAILS_AT_S, AWAY_S = 1_000.0, 3_600.0


@dataclass(frozen=True)
class Pair:
    """A run without an extra, and the same run with it."""

    without: Bench
    with_extra: Bench


class SmallestArea(QueueScheduler):
    """An order as a user would write it: predicted GPU-seconds left."""

    order_name = "smallest_area"
    order_needs = Signal.PREDICTION

    def order(self, view: ClusterView) -> IntArray:
        """The waiting jobs, least area first."""
        jobs = view.jobs
        area = jobs.predicted_remaining_s[view.queued] * jobs.num_gpus[view.queued]
        return view.queued[np.argsort(area, kind="stable")]


class SmallestAreaByKeys(QueueScheduler):
    """The same as keys that are told once."""

    order_name = "smallest_area_by_keys"
    order_needs = Signal.PREDICTION

    def keys(self, jobs: JobColumns) -> FloatArray:
        """Predicted GPU-seconds left."""
        area: FloatArray = jobs.predicted_remaining_s * jobs.num_gpus
        return area


class SmallestAreaLeft(PreemptiveScheduler):
    """A preemptive order as a user would write it: GPU-seconds left."""

    order_name = "smallest_area_left"
    order_needs = Signal.DURATION

    def priority(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """True GPU-seconds left at speed 1."""
        left: FloatArray = view.jobs.remaining_s[jobs] * view.jobs.num_gpus[jobs]
        return left


class SmallestAreaLeftAged(SmallestAreaLeft):
    """The same, and who was submitted long ago comes earlier by and by."""

    order_name = "smallest_area_left_aged"

    def priority(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """GPU-seconds left, less a thousandth of the time since submission."""
        columns = view.jobs
        left: FloatArray = columns.remaining_s[jobs] * columns.num_gpus[jobs]
        return left - (view.now_s - columns.submit_s[jobs]) / 1000.0


class SmallestAreaLeftAsked(SmallestAreaLeft):
    """The same by a logarithm, which compiled code does not take: asked for at each decision."""

    order_name = "smallest_area_left_asked"

    def priority(self, view: ClusterView, jobs: IntArray) -> FloatArray:
        """Its logarithm."""
        columns = view.jobs
        logged: FloatArray = np.log(columns.remaining_s[jobs] * columns.num_gpus[jobs])
        return logged


class SmallestAreaLeftByKeys(PreemptiveScheduler):
    """The same as keys, which fall as a job gets on."""

    order_name = "smallest_area_left_by_keys"
    order_needs = Signal.DURATION

    def keys(self, jobs: JobColumns) -> FloatArray:
        """True GPU-seconds left at speed 1."""
        left: FloatArray = jobs.remaining_s * jobs.num_gpus
        return left


@dataclass(frozen=True)
class Setting:
    """The trace and the cluster that all pairs start from."""

    trace: Path  # as workload=csv reads
    servers: int  # of eight GPUs

    def bench(self, *overrides: str) -> Bench:
        """Shortest job first, packed; `overrides` come last."""
        return bench(
            "workload=csv", f"workload.path={self.trace}", "topology=large_leaf_spine",
            f"topology.servers={self.servers}", "estimator=oracle", "scheduler=sjf",
            "placer=packed", *NO_PHYSICS, *overrides,
        )  # fmt: skip


def all_pairs(setting: Setting) -> dict[str, Pair]:
    """Every extra by its name."""
    groups = (demands, clusters, orders, placers, sharings, forwardings)
    return {name: pair for group in groups for name, pair in group(setting)}


def demands(setting: Setting) -> Iterator[tuple[str, Pair]]:
    """What jobs ask for beside GPUs: cores, memory, parts of GPUs, a type of GPU."""
    roomy = setting.bench(
        f"topology.cpu_milli={SERVER_CORES_MILLI}", f"topology.memory_mib={SERVER_MEMORY_MIB}"
    )
    count, rng = len(roomy.jobs), np.random.default_rng(SEED)
    cores = rng.choice(CORES_MILLI, count, p=CORES_SHARES)
    memory = rng.choice(MEMORY_MIB, count, p=MEMORY_SHARES)
    yield "cores", _asking(roomy, cpu_milli=cores)
    yield "memory", _asking(roomy, memory_mib=memory)

    parts = rng.choice(PARTS_MILLI, count, p=PARTS_SHARES)
    parts[roomy.jobs.num_gpus > 1] = WHOLE_GPU_MILLI
    yield "gpu_parts", _asking(setting.bench("max_tenants=4"), gpu_milli=parts)
    shared = setting.bench("max_tenants=2", "sharing=fallback", "interference=shipped")
    yield "gpu_parts_shared", _asking(shared, gpu_milli=parts)

    masks = rng.choice(TYPE_MASKS, count, p=TYPE_SHARES)
    yield "gpu_types", _asking(setting.bench("topology.gpu_types=[p100,v100]"), type_mask=masks)


def clusters(setting: Setting) -> Iterator[tuple[str, Pair]]:
    """An outage, servers that are not all of one size, two partitions."""
    plain = setting.bench()
    yield "outage", Pair(plain, _failing(plain))
    yield "uneven_servers", _uneven(setting)
    stealing = setting.bench("agents.count=2", "forwarding=steal")
    yield "partitions_stealing", Pair(plain, stealing)
    yield "outage_stealing", Pair(stealing, _failing(stealing))


def orders(setting: Setting) -> Iterator[tuple[str, Pair]]:
    """Orders that this project does not know, and one that it does."""
    plain = setting.bench()
    child = plain.scheduler
    assert isinstance(child, QueueScheduler)
    own = SmallestArea(placer=child.placer, sharing=child.sharing, skip_blocked=True)
    yield "own_order", Pair(plain, replace(plain, scheduler=own))
    keyed = SmallestAreaByKeys(placer=child.placer, sharing=child.sharing, skip_blocked=True)
    yield "own_keys", Pair(plain, replace(plain, scheduler=keyed))
    stealing = setting.bench("agents.count=8", "forwarding=steal")
    divided = PartitionedScheduler(child=own, forwarding=Steal())
    yield "own_order_stealing", Pair(stealing, replace(stealing, scheduler=divided))
    preempting = setting.bench("scheduler=srtf")
    dividing = setting.bench("scheduler=srtf", "agents.count=8", "forwarding=steal")
    kinds = {
        "own_preemption": SmallestAreaLeft, "own_preemption_by_keys": SmallestAreaLeftByKeys,
        "own_preemption_aged": SmallestAreaLeftAged, "own_preemption_asked": SmallestAreaLeftAsked,
    }  # fmt: skip
    for name, kind in kinds.items():
        pushing = kind(placer=child.placer, sharing=child.sharing)
        yield name, Pair(preempting, replace(preempting, scheduler=pushing))
        divided = PartitionedScheduler(child=pushing, forwarding=Steal())
        yield f"{name}_stealing", Pair(dividing, replace(dividing, scheduler=divided))
    blocking = setting.bench("scheduler.skip_blocked=false")
    yield "spjf", Pair(blocking, setting.bench("scheduler=spjf"))


def placers(setting: Setting) -> Iterator[tuple[str, Pair]]:
    """Every placer that draws no random numbers, against packed."""
    plain = setting.bench()
    for name in _choices("placer", "packed", "random"):
        yield f"placer_{name}", Pair(plain, setting.bench(f"placer={name}"))


def sharings(setting: Setting) -> Iterator[tuple[str, Pair]]:
    """Every rule of sharing against none; who shares is slowed."""
    physics = ("max_tenants=2", "interference=shipped", "belief=learned")
    plain = setting.bench(*physics)
    for name in _choices("sharing", "off"):
        yield f"sharing_{name}", Pair(plain, setting.bench(*physics, f"sharing={name}"))


def forwardings(setting: Setting) -> Iterator[tuple[str, Pair]]:
    """Every rule of forwarding against jobs that stay where they arrive; two partitions."""
    plain = setting.bench("agents.count=2", "forwarding=own")
    for name in _choices("forwarding", "own"):
        other = setting.bench("agents.count=2", f"forwarding={name}")
        yield f"forwarding_{name}", Pair(plain, other)


def measured(pair: Pair, repeats: int) -> tuple[float, float]:
    """Median seconds of the loop without and with the extra, in turns; the first is left out.

    Where a pair takes long there are fewer turns, down to one that counts.
    """
    for each in (pair.without, pair.with_extra):
        few = picked_jobs(each.jobs, np.arange(min(FEW_JOBS, len(each.jobs))))
        replace(each, jobs=few).play()
    began = time.perf_counter()
    taken: list[tuple[float, float]] = []
    while len(taken) <= repeats and (not taken or time.perf_counter() - began < ENOUGH_S):
        taken.append((pair.without.play().loop_wall_s, pair.with_extra.play().loop_wall_s))
    counted = taken[1:] or taken
    return median(a for a, _ in counted), median(b for _, b in counted)


def cliffs(setting: Setting, repeats: int) -> dict[str, float]:
    """Each extra's ratio, and the seconds that it comes from; a line is printed for each."""
    print(f"{'extra':32} {'without, s':>12} {'with, s':>12} {'ratio':>8}")
    numbers: dict[str, float] = {}
    for name, pair in all_pairs(setting).items():
        without_s, with_s = measured(pair, repeats)
        ratio = with_s / without_s
        print(f"{name:32} {without_s:12.4g} {with_s:12.4g} {ratio:8.3g}", flush=True)
        numbers[f"cliff_{name}"] = ratio
        numbers[f"cliff_{name}_s"], numbers[f"cliff_{name}_without_s"] = with_s, without_s
    return numbers


def _asking(plain: Bench, **columns: IntArray) -> Pair:
    """The same jobs without and with these columns of `Demands`."""
    count = len(plain.jobs)
    nothing: Mapping[str, IntArray] = {
        "gpu_milli": np.full(count, WHOLE_GPU_MILLI),
        "cpu_milli": np.zeros(count, dtype=np.int64),
        "memory_mib": np.zeros(count, dtype=np.int64),
        "type_mask": np.full(count, ANY_TYPE),
    }
    asked = Demands(**{**nothing, **columns})
    return Pair(plain, replace(plain, jobs=replace(plain.jobs, demands=asked)))


def _uneven(setting: Setting) -> Pair:
    """One server of nine GPUs and one of seven: gangs of 32 can never fill three of the largest.

    Gangs of 16, which would all wait for the one large server, are made gangs of eight.
    """
    even = setting.bench("placer=consolidated")
    gangs = even.jobs.num_gpus
    jobs = replace(even.jobs, num_gpus=np.where(gangs == 2 * SIZE, SIZE, gangs))
    sizes = [SIZE + 1, SIZE - 1, *[SIZE] * (setting.servers - 2)]
    uneven = setting.bench("placer=consolidated", f"topology.gpus_per_server={sizes}")
    return Pair(replace(even, jobs=jobs), replace(uneven, jobs=jobs))


def _failing(plain: Bench) -> Bench:
    """The same run in which one server is away for an hour."""
    at_s = np.array([FAILS_AT_S, FAILS_AT_S + AWAY_S])
    outage = Outages(at_s, np.array([1, 1]), np.array([Change.FAIL, Change.OPEN]))
    world = replace(plain.experiment.world, outages=outage)
    return replace(plain, experiment=replace(plain.experiment, world=world))


def _choices(group: str, *but: str) -> list[str]:
    """Names of the files of a configuration group, some left out."""
    names = sorted(path.stem for path in (ROOT / "conf" / group).glob("*.yaml"))
    return [name for name in names if name not in but]
