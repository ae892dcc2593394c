"""Rows of the desk (see `sim.kernel.layout` on rows)."""

import numpy as np

INT, FLOAT = np.int64, np.float64

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

GPU = np.dtype(
    [
        ("server", INT),
        ("tenants", INT),
        ("milli", INT),
        ("placed", INT),  # 1: of a worker of the gang at hand that has its place already
        ("cost", FLOAT),  # of joining its tenants, for the job at hand
    ],
    align=True,
)

SERVER = np.dtype(
    [
        # Fixed for a run.
        ("first_gpu", INT),
        ("last_gpu", INT),
        ("rack", INT),
        ("partition", INT),
        ("type", INT),  # catalogue row
        ("gpu_type", INT),  # topology's index
        ("cpu_milli", INT),
        ("memory_mib", INT),
        # As of this decision and the orders planned so far.
        ("closed", INT),
        ("cpu_free_milli", INT),
        ("memory_free_mib", INT),
        ("nic_jobs", INT),
        ("empty", INT),  # GPUs without a tenant; 0 while it is away
        # For the job at hand.
        ("alone", INT),  # empty GPUs that it may use
        ("joined", INT),  # the same with those where it may join others
        # For the placement at hand.
        ("taken", INT),
    ],
    align=True,
)

RACK = np.dtype([("uplink_jobs", INT), ("stamp", INT)], align=True)

PARTITION = np.dtype(
    [
        ("first_own", INT),  # its servers stand in own[first_own:last_own]
        ("last_own", INT),
        ("up", INT),  # GPUs of servers that are up
        ("largest", INT),  # GPUs of its largest server that is up, at least 1
        ("wanted", INT),  # GPUs that its waiting and running jobs want
        ("waiting", INT),  # the waiting ones of these
        ("jobs_waiting", INT),
        ("running", INT),  # jobs
        ("free", INT),  # GPUs without a tenant
        ("roomiest", INT),  # most of them on one server that is not a wholly empty largest one
        ("whole", INT),  # wholly empty servers of the largest size
        ("due", INT),  # it has something to decide
    ],
    align=True,
)

WAITING = np.dtype(
    [
        ("job", INT),
        ("partition", INT),
        ("moved", INT),
        ("started", INT),
        ("last", INT),  # 1: behind the others in the window, whatever its key
        ("key", FLOAT),
    ],
    align=True,
)

# The placement at hand: filled outwards from `server`.
HERE = np.dtype([("server", INT), ("shared", INT)], align=True)

GAME = np.dtype(
    [
        # Fixed.
        ("window", INT),  # waiting jobs looked at
        ("patience_s", FLOAT),
        ("max_forwards", INT),
        ("limit_milli", INT),
        ("use_durations", INT),
        ("rest_share", FLOAT),  # of what a job has done, which it has left at least
        ("look_ahead", INT),  # predicted release times are weighed
        # Of the decision being made.
        ("now_s", FLOAT),
        ("num_waiting", INT),
        ("num_window", INT),
        ("num_used", INT),  # servers of the placement at hand
        ("num_placed", INT),  # workers of the gang at hand that have a place already
        ("stamp", INT),
    ],
    align=True,
)
