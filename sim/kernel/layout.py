"""What the kernel reads and writes: rows of jobs, GPUs, servers and racks, in arrays.

Rows, not columns: an event touches many fields of one job and few jobs, so the fields of a row
stand together; and a tuple of few arrays is cheap to hand to compiled code. `state.job["rate"]` is
the column of a field.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.arrays import RowArray as RowArray
from sim.handle import Handle
from sim.kernel.free_gpus import FreeGpus
from sim.physics.laws import NetworkTables
from sim.physics.link_loads import LinkLoads
from sim.physics.link_network import LinkNetwork
from sim.physics.mix_table import Slowing

Row = Any  # one of these

# Values of job.status. BLOCKED: submitted, but a parent has not finished.
PENDING, QUEUED, RUNNING, FINISHED, WITHDRAWN, BLOCKED = range(6)
NO_JOB = -1
UNBOUNDED = 2**62  # of cores or memory that nobody counts

INT, FLOAT = np.int64, np.float64

JOB = np.dtype(
    [
        # Fixed.
        ("submit_s", FLOAT),
        ("work_s", FLOAT),
        ("num_gpus", INT),  # gang size: what it asked for
        ("profile", INT),
        ("first", INT),  # its GPUs stand in placed[first:first + held]
        ("least_gpus", INT),
        ("most_gpus", INT),
        ("gpu_milli", INT),
        ("cpu_milli", INT),  # a worker
        ("memory_mib", INT),  # a worker
        ("type_mask", INT),
        ("outcome", INT),
        ("withdraw_at_s", FLOAT),
        ("last_attempt", INT),  # end of its points in fail_at_s
        ("first_child", INT),  # its children: children[first_child:last_child]
        ("last_child", INT),
        # Changing.
        ("ready_s", FLOAT),  # when it first could queue: submitted, all its parents done
        ("status", INT),
        ("partition", INT),
        ("held", INT),  # GPUs of the placement that stands in `placed`
        ("local", INT),  # of the placement: most GPUs on one server
        ("servers", INT),
        ("racks", INT),
        ("rate", FLOAT),  # work seconds per second from rated_s on
        ("rated_s", FLOAT),  # may lie ahead of now while a restart is under way
        ("progress_s", FLOAT),  # work done at rated_s
        ("target_s", FLOAT),  # work at which this attempt ends: a failure's, or all of it
        ("due_s", FLOAT),  # when it gets there
        ("lease_end_s", FLOAT),
        ("heap_at", INT),  # place in the heap
        ("running_at", INT),  # place in `running`
        ("dirty", INT),
        ("reference_step_s", FLOAT),  # step on the most compact exclusive placement of `held`
        ("gain", FLOAT),  # throughput with `held` GPUs over that with `num_gpus`
        ("started_s", FLOAT),  # start of the attempt that runs
        ("resume_s", FLOAT),  # when this attempt began, or begins, to make progress
        ("left_s", FLOAT),  # when it last gave its GPUs back and could go on; -inf: never
        ("run_s", FLOAT),  # time on GPUs before this attempt
        ("run_gpu_s", FLOAT),  # the same times the GPUs held
        ("served_gpu_s", FLOAT),  # the same without restarts
        ("saved_s", FLOAT),  # work in the last checkpoint
        ("lost_s", FLOAT),  # work done and lost
        ("comm_share", FLOAT),  # of the step at the present rate
        ("slow_share", FLOAT),
        ("comm_s", FLOAT),  # of its run time up to rated_s
        ("slow_s", FLOAT),
        ("first_start_s", FLOAT),
        ("finish_s", FLOAT),
        ("forwards", INT),
        ("preemptions", INT),
        ("restarts", INT),  # times it lost its GPUs before its end, for whatever reason
        ("next_attempt", INT),  # index into fail_at_s
        ("waits_for", INT),  # parents that have not finished
        ("doomed", INT),  # a parent ended badly before this job was submitted
        # As seen at a decision: refreshed for running jobs by `observe`.
        ("seen_progress_s", FLOAT),
        ("attained_gpu_s", FLOAT),
        # Fixed, read where hosts are scarce alone: what a worker wants (`sim.physics.catalogue`).
        ("busy_milli", INT),
        ("moved_mbs", INT),
        ("wait_frac", FLOAT),
    ],
    align=True,
)

# milli: what its tenants ask for together; version: times that its tenants changed
GPU = np.dtype([("server", INT), ("tenants", INT), ("milli", INT), ("version", INT)], align=True)

SERVER = np.dtype(
    [
        ("first_gpu", INT),
        ("last_gpu", INT),
        ("rack", INT),
        ("partition", INT),
        ("type", INT),  # catalogue row
        ("gpu_type", INT),  # topology's index
        ("cpu_milli", INT),  # of all, UNBOUNDED where nobody counts
        ("memory_mib", INT),
        ("cpu_free_milli", INT),
        ("memory_free_mib", INT),
        ("nic_jobs", INT),  # multi-server jobs on it
        ("version", INT),  # times that the tenants of any of its GPUs changed
        ("closed", INT),  # reasons to be away; 0: it is up
        ("stamp", INT),  # world.token of the last pass that came by
        ("count", INT),  # of that pass
        # Where cores and PCIe are shared: what there is, what its workers want, how much longer
        # that makes what waits on the host.
        ("host_milli", INT),
        ("host_mbs", INT),
        ("busy_milli", INT),
        ("moved_mbs", INT),
        ("stretch", FLOAT),
    ],
    align=True,
)

PARTITION = np.dtype(
    [
        ("first_own", INT),  # its servers stand in own[first_own:last_own]
        ("last_own", INT),
        ("gpus", INT),  # of all its servers
        ("version", INT),  # times that anybody came, left or changed who may
        ("releases", INT),  # times that GPUs became usable, or servers went or came
    ],
    align=True,
)

RACK = np.dtype(
    [("first_server", INT), ("last_server", INT), ("uplink_jobs", INT), ("stamp", INT)], align=True
)

LOG = np.dtype(
    [("time_s", FLOAT), ("kind", INT), ("job", INT), ("partition", INT), ("gpus", INT)], align=True
)

OUTAGE = np.dtype([("at_s", FLOAT), ("server", INT), ("kind", INT)], align=True)
FAILS, CLOSES, OPENS = range(3)  # values of OUTAGE.kind

WORLD = np.dtype(
    [
        ("now_s", FLOAT),
        ("wake_s", FLOAT),
        ("ready_s", FLOAT),  # when a job last became ready after its submission; -inf: never
        ("next_arrival", INT),
        ("next_outage", INT),
        ("next_withdrawal", INT),
        ("queue_first", INT),
        ("num_queued", INT),
        ("num_running", INT),
        ("num_left", INT),  # jobs neither finished nor withdrawn
        ("heap_size", INT),
        ("num_dirty", INT),
        ("num_logged", INT),
        ("num_logged_gpus", INT),
        ("token", INT),
        ("num_joined", INT),  # jobs in `joined`
        ("uplink_changes", INT),  # times that the jobs on any uplink changed
        # Rules.
        ("restart_s", FLOAT),
        ("restart_s_per_gpu", FLOAT),
        ("checkpoint_work_s", FLOAT),  # work between periodic checkpoints; inf: none
        ("pace", FLOAT),  # share of its time a job computes while checkpoints are written
        ("preempt_saves", INT),
        ("max_forwards", INT),
        ("num_partitions", INT),
        ("gpu_limit_milli", INT),  # of the tenants of a GPU together
        ("links_matter", INT),  # the jobs on a NIC or uplink change each other's speed, by tables
        ("shared_links", INT),  # speeds come from `network` and `loads`, not from tables
        ("host_matters", INT),  # cores and PCIe are shared
        ("demands_matter", INT),  # some job asks for cores, memory, types or parts of GPUs
    ],
    align=True,
)


class PhysicsArrays(NamedTuple):
    """P profiles, T GPU types, N GPUs of the largest gang."""

    compute_s: FloatArray  # (P, T)
    slowing: Slowing
    feasible: BoolArray  # (T, P, P)
    network: NetworkTables
    reference_step_s: FloatArray  # (P, N + 1) step on the most compact placement of n GPUs
    gain: FloatArray  # (P, N + 1) throughput of n GPUs, most compact, over that of one


# Compiled functions called by address: their numbers in `State.routine`.
ENTER_LINKS, LEAVE_LINKS, MARK_RESETTLED, CHANGE_SERVER, WITHDRAW, FREE_CHILDREN = range(6)


@dataclass(frozen=True, eq=False)
class State(Handle):
    """J jobs, G GPUs, S servers, R racks, C tenants a GPU at most."""

    # What no event and no decision changes: forks of a run have it in common.
    FIXED: ClassVar[frozenset[str]] = frozenset(
        {"physics", "network", "fail_at_s", "children", "withdrawals", "outages", "own"}
    )

    world: RowArray  # (1,) WORLD
    routine: IntArray  # (6,) addresses (`sim.handle`) of what few runs need; 0: this one does not
    job: RowArray  # (J,) JOB
    gpu: RowArray  # (G,) GPU
    tenant: IntArray  # (G, C) jobs on each GPU in order of start, first `gpu.tenants` entries
    server: RowArray  # (S,) SERVER
    free_gpus: FreeGpus  # those without a tenant, a part a partition
    partition: RowArray  # (M,) PARTITION
    own: IntArray  # (S,) servers, partition by partition, ascending
    rack: RowArray  # (R,) RACK
    placed: IntArray  # (sum of most_gpus,)
    queue: IntArray  # (J + 1,) waiting jobs, ascending, from world.queue_first on
    joined: IntArray  # (2 J,) jobs that began to wait since somebody looked, in that order
    running: IntArray  # (min(J, G * C),) any order
    heap: RowArray  # as running; HEAP by time of what they do next, then by job
    dirty: IntArray  # (J,) jobs whose rate may have changed
    physics: PhysicsArrays
    network: LinkNetwork  # of no size where no links are shared
    loads: LinkLoads
    fail_at_s: FloatArray  # work at which attempts fail, job by job
    children: IntArray  # rows of jobs, parent by parent
    withdrawals: IntArray  # jobs whose users give up, in order of that time
    outages: RowArray  # OUTAGE in order of time
    scratch: IntArray  # of a withdrawal, or the tenants of a GPU (`sim.physics.laws`)
    log: RowArray  # LOG since the last flush
    log_gpus: IntArray
