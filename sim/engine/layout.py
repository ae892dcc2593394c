"""What deciders remember between decisions, beside the kernel's state."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray, RowArray
from sim.handle import Handle
from sim.kernel.free_gpus import FreeGpus
from sim.physics.heavy_edge import KnownGraphs
from sim.physics.laws import NetworkTables
from sim.physics.mix_table import Slowing

INT, FLOAT = np.int64, np.float64
NOBODY = -1

RULE = np.dtype(
    [
        # Codes of `sim.codes`, and the numbers that belong to them.
        ("order", INT),
        ("preempts", INT),
        ("placer", INT),
        ("sharing", INT),
        ("forwarding", INT),
        ("skip_blocked", INT),
        ("least_speed", FLOAT),  # combined speed that the tenants of a shared GPU must exceed
        ("most_slowdown", FLOAT),  # `compact_wait`
        ("rack_wait_s", FLOAT),  # `delay`
        ("anywhere_wait_s", FLOAT),
        ("quantum_gpu_s", FLOAT),
        ("kappa", INT),  # `lwf`
        # What follows from them.
        ("shrinks", INT),  # what is offered only shrinks between releases
        ("monotone", INT),  # one victim more never takes room away
        ("by_size", INT),  # who finds no place, of its like no larger gang finds one
        ("judges_job", INT),  # the placer looks at the job, not at its class alone
        ("listed", INT),  # who waits is put in order at each decision: no heaps are kept
        ("checks", INT),  # what is believed to fit may not: starts are checked
        ("ages", INT),  # keys change while jobs wait
    ],
    align=True,
)

SCALARS = np.dtype(
    [
        ("decisions", INT),
        ("due", INT),  # the instant asks for a decision, which is not made yet
        ("keyed", INT),  # keys of who queued again have been written
        ("pass_", INT),  # number of the walk through a queue
        ("stamp", INT),  # number of the last use of `stamped`
        ("decision_row", INT),  # row of the log at which the decision being made begins
        ("decision_gpu", INT),
        ("mixed", INT),  # the decision's rows are not in the log's order
        ("whole", INT),  # `offer` has numbers alone: its GPUs are the first empty ones of a server
        ("priced", INT),  # what is offered differs in what it costs: GPUs to share
        ("offered", INT),  # class to which `offer` was made
        ("link_changes", INT),  # decisions that began with others on links (`compact_wait`)
        ("room_of", INT),  # partition whose servers stand in `offer`; NOBODY
        ("aside", INT),  # jobs passed over in this pass that go on waiting, linked by `left`
        ("stopped", INT),  # jobs preempted in this decision that go on waiting, linked by `left`
        ("preempted", INT),  # root of the heap of jobs preempted in this pass
        ("victims", INT),  # root of the heap of those who may be and are not in `victim`
        ("num_victims", INT),  # in `victim`; NOBODY: not gathered yet
        ("ranked_in", INT),  # pass in which the ranks were made true
        ("wake_s", FLOAT),  # of the decision being made
        ("waiting_in", INT),  # pass for which `waiting_s` is (`lwf`)
        ("waiting_s", FLOAT),  # mean predicted work left of who waited as it began
        ("lost_wake_s", FLOAT),  # wait until one who was preempted would have crossed a quantum
        ("verdict", INT),  # of the last start that was checked
        ("job", INT),
        ("what", INT),
    ],
    align=True,
)

# Jobs of one class can be placed alike: same gang, demands and, where it matters, profile.
JOB_CLASS = np.dtype(
    [
        ("gang", INT),
        ("profile", INT),  # 0 where nobody looks at it
        ("group", INT),  # classes that differ in their gang alone
        ("like", INT),  # classes of whole GPUs that may share with the same jobs
        ("gpu_milli", INT),
        ("cpu_milli", INT),
        ("memory_mib", INT),
        ("type_mask", INT),
        ("picky", INT),  # more than empty GPUs of any server have to be looked at
        ("skewed", INT),  # `skew`: waits for a server, or a rack
    ],
    align=True,
)

# Waiting jobs of one class in one partition; those that may not be forwarded stand apart.
QUEUE = np.dtype([("root", INT), ("size", INT), ("live_at", INT)], align=True)

# What is known of a class in a partition.
TRIED = np.dtype(
    [
        ("refused", INT),  # stamp of the partition when it had no room; NOBODY
        ("refused_key", FLOAT),  # of the job that had none; preemption
        ("passed", INT),  # pass in which it had no room, where only that is remembered
    ],
    align=True,
)

LIMIT = np.dtype([("gang", INT), ("pass_", INT)], align=True)

# A job while it waits, or may be preempted.
WAITER = np.dtype(
    [
        ("job_class", INT),
        ("key", FLOAT),
        ("left", INT),  # children in its heap
        ("right", INT),
        ("estimate_s", FLOAT),
        ("routed", INT),  # 1: it was where its arrival was routed
        ("drawn", INT),  # partition drawn for it where forwarding is random
        ("ranked_at", INT),
        ("started_in", INT),  # decision in which it was started last
        ("stopped_in", INT),  # or preempted
    ],
    align=True,
)

# One step of own keys' arithmetic: a code of `sim.codes`, and the steps, or column, it is made of.
STEP = np.dtype([("code", INT), ("a", INT), ("b", INT), ("value", FLOAT)], align=True)

# A running job under QUANTA.
RANK = np.dtype(
    [
        ("job", INT),
        ("steps", FLOAT),  # whole quanta attained
        ("next_s", FLOAT),  # when it will have attained one more
        ("early_s", FLOAT),  # before this it has certainly not
    ],
    align=True,
)


class Belief(NamedTuple):
    """What is believed of speeds (`sim.physics`); tables of one entry where nobody looks."""

    slowing: Slowing
    feasible: BoolArray  # (T, P, P)
    compute_s: FloatArray  # (P, S) by server
    network: NetworkTables


class Compact(NamedTuple):
    """What `compact_wait` has worked out, NaN before; arrays of one entry where nobody looks."""

    least_s: FloatArray  # (M, P, B + 1) communication of the most compact place
    spread_s: FloatArray  # (P, B + 1) no placement over several servers communicates less
    fastest_s: FloatArray  # (M, P) compute on the fastest server


class Workload(NamedTuple):
    """What `lwf` knows of GPUs; arrays of one entry where nobody looks."""

    noted_in: IntArray  # (G,) decision in which the GPU's tenants changed last
    tenants: IntArray  # (G,) which it had as that one began
    before_s: FloatArray  # (G,) and their predicted work left
    load_s: FloatArray  # (G,) scratch
    left_s: FloatArray  # (C,) scratch: of a GPU's tenants
    server: IntArray  # (S,) scratch


# Compiled functions called by address (`sim.handle`): their numbers in `Memory.routine`.
PLACE, START, FILL, SERVE, QUANTUM, ROUTE, JUDGE, IDLE, NOTE = range(9)
SEARCH, NAME, PYTHON_PLACE, PYTHON_ROUTE, KEY = range(9, 14)  # PYTHON_*: Python functions
ROUTINES = 14
RAISED = -1  # what these give, and the verdict, where they raised an error


@dataclass(frozen=True, eq=False)
class Memory(Handle):
    """J jobs of K classes, G GPUs, S servers, M partitions, P profiles, B the largest gang."""

    routine: IntArray  # (14,) addresses, 0 for what this rule never calls
    rule: RowArray  # (1,) RULE
    scalars: RowArray  # (1,) SCALARS
    job_class: RowArray  # (K,) JOB_CLASS
    queue: RowArray  # (M, 2 K) QUEUE: class k, then those that may not be forwarded
    live: IntArray  # (M, 2 K) queues with jobs, first num_live
    num_live: IntArray  # (M,)
    tried: RowArray  # (M, K) TRIED
    limit: RowArray  # (groups,) gangs from this size on have no room in that pass
    waiter: RowArray  # (J,) WAITER
    steps: RowArray  # STEP: the last one gives a job's key; WORKED_OUT alone
    columns: FloatArray  # (columns, J) what they read of jobs and a run does not change
    rank: RowArray  # (R,) RANK of running jobs in the kernel's order; QUANTA alone
    victim: IntArray  # (R,) running jobs, those that give way first
    stamped: IntArray  # (G,)
    lifted: IntArray  # as `placed`: place among the tenants of a GPU that a job was lifted from
    offer: FreeGpus  # one part: what the job at hand is offered
    gpus: IntArray  # (G,) the placement at hand
    joining: FloatArray  # (P, G) cost of joining a GPU, as of version `joined_at` of its tenants
    joined_at: IntArray  # (P, G)
    joins: IntArray  # (T, P, P + 3) 1 where the first profile may join the second, by code of `who`
    who: IntArray  # (G,) profile of its one tenant or a code, as of the server's version `seen_at`
    seen_at: IntArray  # (S,)
    joinable: IntArray  # (likes, S) GPUs to take or join, as of the server's version `counted_at`
    counted_at: IntArray  # (likes, S)
    compact: Compact
    nic_jobs: IntArray  # (S,) as the decision began
    uplink_jobs: IntArray  # (R,)
    tenants: IntArray  # scratch of `sim.physics.laws`
    server_type: IntArray  # (S,) row of the belief's tables
    server_rack: IntArray  # (S,)
    first_gpu: IntArray  # (S + 1,)
    belief: Belief
    workload: Workload
    graphs: KnownGraphs
