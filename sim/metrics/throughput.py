"""Work done a second, where a catalogue says what an iteration is worth."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.event_log import Kind
from sim.jobs import JobTable
from sim.physics.gang_catalogue import GangCatalogue
from sim.physics.physics import Physics
from sim.physics.reference import reference_steps_s
from sim.run import Run
from sim.topology.topology import Topology


def full_speed(jobs: JobTable, topology: Topology, physics: Physics) -> FloatArray:
    """(J,) what each job is worth a second at speed 1, where its work is counted.

    TFLOP of an iteration over the time of one where profiles are for gangs (`GangCatalogue`, in the
    unit of the network's step); GPUs of the gang elsewhere.
    """
    catalogue = physics.catalogue
    if not isinstance(catalogue, GangCatalogue):
        return jobs.num_gpus.astype(np.float64)
    steps_s = reference_steps_s(jobs.num_gpus, topology, physics)
    worth: FloatArray = catalogue.tflop[jobs.profile] / steps_s[jobs.profile, jobs.num_gpus]
    return worth


def throughput(run: Run, worth: FloatArray, start_s: float, end_s: float) -> float:
    """Mean of what running jobs are worth a second between two times.

    A job that ran is taken to have progressed evenly from its first start to its end, which is
    exact where it is neither preempted nor disturbed.

    Args:
        run: the run.
        worth: (J,) of `full_speed`.
        start_s: from here
        end_s: to here, later.
    """
    finish_s = np.where(np.isnan(run.finish_s), np.inf, run.finish_s)
    inside_s = np.minimum(finish_s, end_s) - np.maximum(run.start_s, start_s)
    share = np.maximum(np.nan_to_num(inside_s), 0.0) / np.maximum(finish_s - run.start_s, 1e-9)
    done = np.where(np.isnan(run.start_s), 0.0, share * run.jobs.duration_s * worth)
    return float(done.sum() / (end_s - start_s))


def spans(run: Run) -> tuple[IntArray, IntArray]:
    """(J,) servers and racks that each job's first start spans; 0 where it never started."""
    topology = run.topology
    servers = np.zeros(len(run.jobs), dtype=np.int64)
    racks = np.zeros(len(run.jobs), dtype=np.int64)
    for at in np.flatnonzero(run.log.kind == Kind.START)[::-1]:
        on = np.unique(topology.gpu_server[run.log.gpus[at]])
        servers[run.log.job[at]] = len(on)
        racks[run.log.job[at]] = len(np.unique(topology.server_rack[on]))
    return servers, racks
