"""What jobs ask for besides the number of their GPUs, and what servers hold of it."""

import numpy as np

from sim.arrays import IntArray
from sim.traits import ANY_TYPE, WHOLE_GPU_MILLI, Demands
from sim.view import ClusterView

# Columns of `asks`: what a worker needs, and whether it is more than (part of) a GPU: cores or
# memory that somebody counts, or a type that not every server has.
GPU_MILLI, CPU_MILLI, MEMORY_MIB, TYPE_MASK, MORE = range(5)
GPU_TYPE, CPU_TOTAL_MILLI, MEMORY_TOTAL_MIB, PARTITION = range(4)  # columns of `holds`


def asks_of(view: ClusterView) -> IntArray:
    """(J, 5) the jobs' demands; whole GPUs and nothing else where the table has none."""
    topology, demands = view.topology, view.jobs.demands
    if demands is None:
        none: IntArray = np.zeros(len(view.jobs.num_gpus), dtype=np.int64)
        demands = Demands(none + WHOLE_GPU_MILLI, none, none, none + ANY_TYPE)
    present = np.bitwise_or.reduce(1 << topology.server_gpu_type)
    more = (demands.type_mask & present) != present
    if topology.server_cpu_milli is not None:
        more |= demands.cpu_milli > 0
    if topology.server_memory_mib is not None:
        more |= demands.memory_mib > 0
    columns = (demands.gpu_milli, demands.cpu_milli, demands.memory_mib, demands.type_mask, more)
    return np.stack(columns, axis=1).astype(np.int64)


def holds_of(view: ClusterView) -> IntArray:
    """(S, 4) what servers have; where nobody counts cores or memory, what is free is boundless."""
    topology = view.topology
    cpu_milli, memory_mib = topology.server_cpu_milli, topology.server_memory_mib
    columns = (
        topology.server_gpu_type,
        view.server_cpu_free_milli if cpu_milli is None else cpu_milli,
        view.server_memory_free_mib if memory_mib is None else memory_mib,
        view.partition_of_server,
    )
    return np.stack(columns, axis=1).astype(np.int64)
