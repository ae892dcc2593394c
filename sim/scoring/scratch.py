"""What features are computed on: the state, and what it does not hold.

Who holds what, what is free and who is on links is read from the state's own rows. Beside them
stand what a run does not change (beliefs, jobs), what is counted at a decision, and temporaries.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray, RowArray
from sim.handle import Handle
from sim.jobs import ANY_TYPE, WHOLE_GPU_MILLI
from sim.kernel.layout import State
from sim.physics.laws import NetworkTables, columns_s
from sim.physics.mix_table import Slowing, empty_tenants
from sim.physics.reference import compact_spread
from sim.scoring.ahead import Ahead
from sim.scoring.table import OfForward, OfPair, OfSuspension
from sim.view import ClusterView, state_of

INT, FLOAT = np.int64, np.float64
NEVER = -1  # no version is

# Fixed for a run.
JOB = np.dtype(
    [
        ("gang", INT),
        ("profile", INT),
        ("gpu_milli", INT),  # a worker
        ("cpu_milli", INT),  # a worker
        ("memory_mib", INT),  # a worker
        ("type_mask", INT),
        ("picky", INT),  # asks for cores, memory or types that some server may lack
        ("estimate_s", FLOAT),  # 0 where durations are not looked at
        ("submit_s", FLOAT),
        ("reference_step_s", FLOAT),  # believed, most compact, alone, fastest type present
    ],
    align=True,
)

# Scratch.
GPU = np.dtype(
    [
        ("placed", INT),  # 1: of a worker of the gang at hand that has its place already
        ("cost", FLOAT),  # of joining its tenants, for the job at hand
    ],
    align=True,
)

SERVER = np.dtype(
    [
        # For the job at hand.
        ("alone", INT),  # empty GPUs that it may use
        ("joined", INT),  # the same with those where it may join others
        # For the placement at hand.
        ("taken", INT),
    ],
    align=True,
)

# Counted as a decision begins; orders count along.
PARTITION = np.dtype(
    [
        ("up", INT),  # GPUs of servers that are up
        ("largest", INT),  # GPUs of its largest server that is up, at least 1
        ("wanted", INT),  # GPUs that its waiting and running jobs want
        ("waiting", INT),  # the waiting ones of these
        ("jobs_waiting", INT),
        ("running", INT),  # jobs
        ("roomiest", INT),  # most empty GPUs on a server that is not a wholly empty largest one
        ("whole", INT),  # wholly empty servers of the largest size
        ("due", INT),  # it has something to decide
    ],
    align=True,
)

# Who waited as the decision began, or was suspended in it; some may have been started since.
WAITING = np.dtype(
    [
        ("job", INT),
        ("moved", INT),  # 1: it has been forwarded in this decision
        ("last", INT),  # 1: behind the others in the window, whatever its key
        ("key", FLOAT),
    ],
    align=True,
)

# The placement at hand: filled outwards from `server`.
HERE = np.dtype([("server", INT), ("shared", INT)], align=True)

SCALARS = np.dtype(
    [
        # Fixed.
        ("window", INT),  # waiting jobs looked at
        ("patience_s", FLOAT),
        ("max_forwards", INT),
        ("limit_milli", INT),
        ("use_durations", INT),
        ("rest_share", FLOAT),  # of what a job has done, which it has left at least
        ("rest_most_s", FLOAT),  # the most that this makes
        ("look_ahead", INT),  # predicted release times are weighed
        # Of the decision being made.
        ("num_waiting", INT),
        ("num_window", INT),
        ("num_used", INT),  # servers of the placement at hand
        ("num_placed", INT),  # workers of the gang at hand that have a place already
        ("stamp", INT),
        ("decision", INT),  # counts them
        ("num_victims", INT),  # of the suspension at hand
        ("mark", INT),  # of its victims
    ],
    align=True,
)


class Belief(NamedTuple):
    """What is believed of speeds (`sim.physics`)."""

    compute_s: FloatArray  # (P, T)
    slowing: Slowing
    feasible: BoolArray  # (T, P, P)
    network: NetworkTables


@dataclass(frozen=True, eq=False)
class Scratch(Handle):
    """J jobs, G GPUs, S servers, R racks, M partitions, C tenants a GPU at most, W window."""

    state: State  # of the run, or a copy
    scalars: RowArray  # (1,) SCALARS
    job: RowArray  # (J,) JOB
    gpu: RowArray  # (G,) GPU
    tenants: IntArray  # scratch of `sim.physics.laws`
    cost: FloatArray  # (P, G) what joining a GPU would cost a job that asks for it whole
    costed_at: IntArray  # (P, G) version of the GPU's tenants of which that is; NEVER
    server: RowArray  # (S,) SERVER
    rack_stamp: IntArray  # (R,) `scalars.stamp` of the last pass that came by
    partition: RowArray  # (M,) PARTITION
    waiting: RowArray  # (J,) WAITING
    window: IntArray  # (W,) rows of `waiting`
    line: IntArray  # (M, W) first waiting rows of each partition by key
    line_count: IntArray  # (M,)
    by_key: IntArray  # (W,) places of the window in order of key
    start_in_s: FloatArray  # (M, W) when a job of the window would start in a partition
    ahead: Ahead  # filled where `scalars.look_ahead`
    here: RowArray  # (1,) HERE
    used: IntArray  # (S,) servers of the placement at hand, in order of filling
    chosen: IntArray  # (G,) its GPUs
    placed: IntArray  # (G,) those of its workers that have their place already
    pair: FloatArray  # (OfPair,) features of the placement at hand
    forward: FloatArray  # (OfForward,) of the forward at hand
    suspension: FloatArray  # (OfSuspension,) of the suspension at hand
    victim: IntArray  # (J,) jobs that it suspends
    marked: IntArray  # (J,) `scalars.mark`: the job is one of them
    touched: IntArray  # (J,) `scalars.decision`: the job was started or suspended at this decision
    work_ahead_h: FloatArray  # (M,) scratch
    belief: Belief


class Mind(NamedTuple):
    """How the future is looked at."""

    window: int  # waiting jobs of a partition that are looked at
    patience_s: float  # age from which a job must not be kept from a compact place
    use_durations: bool  # False: nothing is read of predictions
    rest_share: float  # of what a job has done, which it is thought to have left at least
    look_ahead: bool  # predicted release times are asked for
    rest_most_s: float = np.inf  # the most that `rest_share` makes: above it old jobs are alike


def scratch_of(view: ClusterView, mind: Mind) -> Scratch:
    """The scratch for one run; `view` needs PROFILE and INTERFERENCE, and PREDICTION if used."""
    topology, jobs = view.topology, len(view.jobs.num_gpus)
    gpus, servers, partitions = topology.num_gpus, topology.num_servers, view.num_partitions
    profiles = len(view.belief.catalogue.names)
    return Scratch(
        state=state_of(view), scalars=_scalars(view, mind), job=_job_rows(view, mind.use_durations),
        gpu=np.zeros(gpus, dtype=GPU), tenants=empty_tenants(view.tenant.shape[1]),
        cost=np.zeros((profiles, gpus)), costed_at=np.full((profiles, gpus), NEVER, dtype=np.int64),
        server=np.zeros(servers, dtype=SERVER),
        rack_stamp=np.zeros(len(view.uplink_jobs), dtype=np.int64),
        partition=np.zeros(partitions, dtype=PARTITION), waiting=np.zeros(jobs, dtype=WAITING),
        window=np.zeros(mind.window, dtype=np.int64),
        line=np.zeros((partitions, mind.window), dtype=np.int64),
        line_count=np.zeros(partitions, dtype=np.int64),
        by_key=np.zeros(mind.window, dtype=np.int64),
        start_in_s=np.zeros((partitions, mind.window)), ahead=_ahead(view, mind.window),
        here=np.zeros(1, dtype=HERE), used=np.zeros(servers, dtype=np.int64),
        chosen=np.zeros(gpus, dtype=np.int64), placed=np.zeros(gpus, dtype=np.int64),
        pair=np.zeros(len(OfPair)), forward=np.zeros(len(OfForward)),
        suspension=np.zeros(len(OfSuspension)), victim=np.zeros(jobs, dtype=np.int64),
        marked=np.zeros(jobs, dtype=np.int64), touched=np.zeros(jobs, dtype=np.int64),
        work_ahead_h=np.zeros(partitions), belief=_belief(view),
    )  # fmt: skip


def _scalars(view: ClusterView, mind: Mind) -> RowArray:
    row = np.zeros(1, dtype=SCALARS)
    for name in mind._fields:
        row[name] = getattr(mind, name)
    row["max_forwards"] = view.max_forwards if view.num_partitions > 1 else 0
    row["limit_milli"] = view.gpu_limit_milli
    return row


def _job_rows(view: ClusterView, use_durations: bool) -> RowArray:
    jobs, topology, network = view.jobs, view.topology, view.belief.network
    rows = np.zeros(len(jobs.num_gpus), dtype=JOB)
    rows["gang"], rows["profile"], rows["submit_s"] = jobs.num_gpus, jobs.profile, jobs.submit_s
    rows["estimate_s"] = jobs.estimate_s if use_durations else 0.0
    rows["gpu_milli"], rows["type_mask"] = WHOLE_GPU_MILLI, ANY_TYPE
    if jobs.demands is not None:
        for name in ("gpu_milli", "cpu_milli", "memory_mib", "type_mask"):
            rows[name] = getattr(jobs.demands, name)
    present = int(np.bitwise_or.reduce(1 << topology.server_gpu_type))
    picky = (rows["type_mask"] & present) != present
    picky |= (rows["cpu_milli"] > 0) & (topology.server_cpu_milli is not None)
    rows["picky"] = picky | ((rows["memory_mib"] > 0) & (topology.server_memory_mib is not None))
    types = np.unique(view.server_type)
    fastest_s = view.belief.catalogue.compute_s[:, types].min(axis=1)[jobs.profile]
    comm_s = columns_s(network, jobs.profile, *compact_spread(jobs.num_gpus, topology))
    rows["reference_step_s"] = fastest_s + comm_s
    return rows


def _ahead(view: ClusterView, window: int) -> Ahead:
    topology, state, gpus = view.topology, state_of(view), view.topology.num_gpus
    return Ahead(
        first_gpu=topology.server_first_gpu.astype(np.int64),
        gpu_server=topology.gpu_server.astype(np.int64), servers=state.own,
        first=np.append(state.partition["first_own"], len(state.own)),
        largest=np.ones(view.num_partitions, dtype=np.int64), free_s=np.zeros(gpus),
        release_s=np.zeros(gpus), after_s=np.zeros(gpus), drained_s=np.zeros(topology.num_servers),
        largest_gang=np.ones(1, dtype=np.int64), gangs=np.zeros(window + 1, dtype=np.int64),
        jobs=np.zeros(window + 1, dtype=np.int64), compact_in_s=np.zeros(window + 1),
    )  # fmt: skip


def _belief(view: ClusterView) -> Belief:
    belief = view.belief
    # Copies: writable and contiguous whatever they are made from, so one type when compiled.
    return Belief(
        compute_s=np.array(belief.catalogue.compute_s, order="C"),
        slowing=belief.slowing,
        feasible=np.array(belief.pairs.feasible, order="C"),
        network=belief.network,
    )
