"""What the speeds of running jobs tell of co-location."""

from typing import NamedTuple

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.physics.communication import Spread, told_s
from sim.traits import WHOLE_GPU_MILLI
from sim.view import ClusterView

PAIR = 2  # tenants


class Observations(NamedTuple):
    """N slow-downs seen at one instant."""

    at_s: float
    gpu_type: IntArray  # (N,) row of the catalogue
    victim: IntArray  # (N,) profile of the job whose iterations were timed
    aggressor: IntArray  # (N,) profile of the job beside it
    slowdown: FloatArray  # (N,) compute time beside it over compute time alone, above 0
    # (N,) share of the step that is compute: an error of 1 % in the step is one of 1 % / share here
    compute_share: FloatArray


def observe(view: ClusterView, step_s: FloatArray) -> Observations:
    """The unambiguous slow-downs of the running jobs of `view`; the others are left out.

    slow-down = (step - communication) / compute alone, where compute comes from the profiles that
    the scheduler is told and communication from its tables, for the job's spread and the jobs now
    on its NICs and uplinks.

    A job counts if all its GPUs are of one type, it has one neighbour at most on each and all of
    these train the same profile on whole GPUs, and neither it nor they restart. Where jobs share
    links, tables do not tell a gang's communication, so only single-GPU jobs count.

    Args:
        view: grants PROFILE and INTERFERENCE.
        step_s: (J,) measured seconds an iteration, NaN where there is none (`view.jobs.step_s`,
            with whatever error the measuring has).
    """
    rows = [_seen(view, step_s, job) for job in _accompanied(view)]
    found = np.array([row for row in rows if row is not None], dtype=np.float64).reshape(-1, 5)
    names = found[:, :3].astype(np.int64)
    return Observations(view.now_s, names[:, 0], names[:, 1], names[:, 2], found[:, 3], found[:, 4])


def _accompanied(view: ClusterView) -> list[int]:
    """Running jobs of the view with a neighbour, ascending."""
    jobs = np.unique(view.tenant[view.tenants > 1])
    return [int(job) for job in jobs[np.isin(jobs, view.running)]]


def _seen(
    view: ClusterView, step_s: FloatArray, job: int
) -> tuple[int, int, int, float, float] | None:
    """(GPU type, victim, aggressor, slow-down, compute share); None where it is ambiguous."""
    gpus = view.gpus_of(job)
    kinds = view.server_type[view.topology.gpu_server[gpus]]
    others = _neighbours(view, job, gpus)
    if len(others) == 0 or np.any(kinds != kinds[0]) or np.isnan(step_s[[job, *others]]).any():
        return None
    if view.belief.links is not None and len(gpus) > 1:
        return None
    profile, beside = int(view.jobs.profile[job]), view.jobs.profile[others]
    if np.any(beside != beside[0]):
        return None
    computes_s = float(step_s[job]) - _comm_s(view, profile, gpus)
    if computes_s <= 0.0:  # mismeasured
        return None
    alone_s = float(view.belief.catalogue.compute_s[profile, kinds[0]])
    share = computes_s / float(step_s[job])
    return int(kinds[0]), profile, int(beside[0]), computes_s / alone_s, share


def _neighbours(view: ClusterView, job: int, gpus: IntArray) -> IntArray:
    """The other tenants of the GPUs; none where a GPU has several, or one holds part of a GPU."""
    tenants = view.tenants[gpus]
    if tenants.max() > PAIR:
        return tenants[:0]
    others = view.tenant[gpus[tenants == PAIR], :PAIR].sum(axis=1) - job
    demands = view.jobs.demands
    if demands is not None and np.any(demands.gpu_milli[others] != WHOLE_GPU_MILLI):
        return others[:0]
    return others


def _comm_s(view: ClusterView, profile: int, gpus: IntArray) -> float:
    """Seconds of exposed communication on `gpus` now, as `NetworkTables` says."""
    servers, count = np.unique(view.topology.gpu_server[gpus], return_counts=True)
    racks = np.unique(view.topology.server_rack[servers])
    nic, uplink = int(view.nic_jobs[servers].max()), int(view.uplink_jobs[racks].max())
    spread = Spread(int(count.max()), len(servers), len(racks), max(1, nic), max(1, uplink))
    return told_s(view.belief.network, profile, spread)
