"""Rows of the link network.

The kernel's state holds them, and every array in it costs something at each call; fields that are
read together also stand together. `rows["field"]` is the column of a field.
"""

import numpy as np

from sim.arrays import RowArray as RowArray

INT, FLOAT = np.int64, np.float64

# --- Fixed -----------------------------------------------------------------------------------

# What a job of each profile sends; see `sim.physics.traffic.Traffic`.
TRAFFIC = np.dtype(
    [
        ("pattern", INT),
        ("grad_bytes", FLOAT),
        ("ps_count", INT),
        ("stages", INT),
        ("tensor_width", INT),
        ("activation_bytes", FLOAT),
        ("tensor_bytes", FLOAT),
    ],
    align=True,
)

# The inside of each server; all but intra_gbps is read where it is described.
SERVER_INSIDE = np.dtype(
    [("intra_gbps", FLOAT), ("nvlink_gbps", FLOAT), ("pcie_gbps", FLOAT), ("socket_gbps", FLOAT)],
    align=True,
)

GPU_INSIDE = np.dtype([("switch", INT), ("island", INT)], align=True)

# --- Who puts what on which link ---------------------------------------------------------------

LOAD_JOB = np.dtype(
    [
        ("local_s", FLOAT),  # seconds inside its slowest server an iteration
        ("spread_s", FLOAT),  # seconds between servers, latency included; 0 on one server
        ("latency_s", FLOAT),
        ("heavy_bytes", FLOAT),  # on its heaviest link
        ("step_s", FLOAT),  # whole step when it has its links to itself
        ("first", INT),  # its entries are [first, first + number)
        ("number", INT),
        ("spans", INT),  # 1: it runs on several servers
        # Of the last filling (max-min).
        ("rate", FLOAT),  # bytes a second on its heaviest link; UNKNOWN: it has just come
        ("batch", INT),  # when it stopped among those with this rate, from 1
        # Scratch of `resettle`.
        ("is_member", INT),
        ("phase", INT),
    ],
    align=True,
)

# One job on one link; those of a job stand together, links ascending.
LOAD_ENTRY = np.dtype(
    [
        ("link", INT),
        ("weight", FLOAT),  # bytes here / bytes on the job's heaviest link
        ("job", INT),
        ("after", INT),  # next entry of the same link, or NOBODY
        ("before", INT),
    ],
    align=True,
)

LOAD_LINK = np.dtype(
    [
        ("head", INT),  # first entry of the link's list, or NOBODY
        ("sharers", INT),  # jobs on the link
        ("busy", INT),  # their summed `busy_parts`
        ("touched", INT),  # list: links whose jobs have changed since the last `resettle`
        ("is_touched", INT),
        ("full_rate", FLOAT),  # when it was full in the last filling; inf: never
        ("full_batch", INT),
        ("is_active", INT),  # scratch of `refill`
    ],
    align=True,
)

COUNTS = np.dtype(
    [
        ("pool_used", INT),
        ("num_touched", INT),
        # Scratch of `refill`: lengths of lists and heaps.
        ("num_active", INT),
        ("num_filling", INT),
        ("num_seen", INT),
        ("num_due", INT),
    ],
    align=True,
)

# --- Scratch -----------------------------------------------------------------------------------

# Lists over the workers of one gang, or over its servers.
GANG = np.dtype(
    [
        ("server", INT),  # servers of the placement, in its order
        ("gpus_on", INT),  # workers on each
        ("strewn", INT),  # of row 0; 1: the workers of some server do not stand side by side
        ("gpu", INT),  # the placement's GPUs, server by server
        ("worker", INT),  # the worker on each of these GPUs
        ("at", INT),  # position in `server` of each worker's server
        ("host", INT),  # server of each worker
        ("next", INT),  # scratch of `measure_placement`
        ("hosted", INT),  # parameter-server shards on each server
        ("hosts", INT),  # positions of the servers with shards
        ("ring", INT),  # number of the last ring that came by each server
        ("stop", INT),  # servers of the present ring
        ("tally", INT),  # workers of each gradient ring on the present server; 0 between calls
    ],
    align=True,
)

FLOW = np.dtype([("source", INT), ("target", INT), ("num_bytes", FLOAT)], align=True)

LINK_BYTES = np.dtype([("num_bytes", FLOAT), ("used", INT)], align=True)  # used: list of links

# Jobs that are settled together, their entries side by side.
PART_JOB = np.dtype(
    [
        ("job", INT),  # row of the job table
        ("first", INT),  # entries of job k are [first of k, first of k + 1)
        ("heavy_bytes", FLOAT),
        ("step_s", FLOAT),
        ("rate", FLOAT),  # bytes a second on its heaviest link
        ("seconds", FLOAT),  # between servers, latency apart
        ("stops", INT),  # 1: it has stopped or is about to
        ("stopping", INT),  # list: jobs that stop at the present rate
        ("heap_at", INT),  # place of job k among those that are due
    ],
    align=True,
)

PART_ENTRY = np.dtype(
    [
        ("link", INT),
        ("weight", FLOAT),
        ("job", INT),
        ("earlier", INT),  # entry before this one on its link, or NOBODY
        ("order", INT),  # list: entries of a link that are being sorted
    ],
    align=True,
)

PART_LINK = np.dtype(
    [
        ("left", FLOAT),  # capacity that stopped jobs leave
        ("weight", FLOAT),  # summed weights of the jobs still rising
        ("rising", INT),  # their number; 0 between calls
        ("floor", FLOAT),  # rate at which the last job on the link stopped
        ("last", INT),  # last entry of the link, or NOBODY
        ("is_changed", INT),  # 0 between calls
        ("heap_at", INT),  # place among those that fill, or OUT
        ("changed", INT),  # list: links that a stop at the present rate has changed
        ("active", INT),  # list: links that `refill` looks at
    ],
    align=True,
)
