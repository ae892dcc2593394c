"""GPUs by number, not by place: how many there are of each type, how many jobs ask for."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.traits import WHOLE_GPU_MILLI
from sim.view import ClusterView


def gpus_up(view: ClusterView) -> IntArray:
    """(K,) GPUs of each of `Topology.gpu_types` on servers that the view owns and that are up."""
    topology, servers = view.topology, view.servers
    size = np.where(view.server_closed[servers] == 0, topology.gpus_per_server[servers], 0)
    kinds = len(topology.gpu_types)
    return np.bincount(topology.server_gpu_type[servers], size, kinds).astype(np.int64)


def worker_gpus(view: ClusterView, jobs: IntArray) -> FloatArray:
    """(len(jobs),) GPUs that one worker of each asks for: 1, or the part that it shares."""
    if view.jobs.demands is None:
        return np.ones(len(jobs))
    part: FloatArray = view.jobs.demands.gpu_milli[jobs] / WHOLE_GPU_MILLI
    return part


def gang_gpus(view: ClusterView, jobs: IntArray) -> FloatArray:
    """(len(jobs),) GPUs that the whole gang of each asks for."""
    asked: FloatArray = view.jobs.num_gpus[jobs] * worker_gpus(view, jobs)
    return asked


def present(view: ClusterView) -> IntArray:
    """(n,) waiting and running jobs, ascending."""
    return np.sort(np.concatenate([view.queued, view.running]))
