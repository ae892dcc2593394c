"""Fits the generator to any trace: the parameters whose traces look like it."""

import numpy as np

from sim.arrays import BoolArray
from sim.traces.fit_arrivals import fit_arrivals
from sim.traces.fit_clumps import fit_clumps
from sim.traces.fit_durations import fit_durations
from sim.traces.fit_gangs import fit_gangs
from sim.traces.fit_outcomes import OutcomeShares, fit_outcomes
from sim.traces.fit_owners import Owners
from sim.traces.fit_recurrence import fit_recurrence
from sim.traces.job_sample import HOUR_S, JobSample
from sim.traces.spec import WorkloadSpec

NORMAL_MEDIAN = 0.6745  # median of |N(0, 1)|
LARGEST_REPEAT_SIGMA = 1.0


def fit_spec(
    jobs: JobSample,
    *,
    first_hour: float,
    duration_parts: int,
    owners: Owners,
    outcomes: OutcomeShares | None,
    rng: np.random.Generator,
) -> WorkloadSpec:
    """Parameters of the generator from a trace.

    Args:
        jobs: of the trace.
        first_hour: hours from Monday 0:00 to the first submission, in the zone of the users.
        duration_parts: log-normals in a mixture.
        owners: as the trace or the user says.
        outcomes: final states; None leaves them out.
        rng: of the fit of recurrence.
    """
    singles = jobs.take(~_batched(jobs))
    clumps, same_second = fit_clumps(singles.submit_s, rng)
    batched = float(_batched(jobs).mean())
    repeat_prob = max((batched - same_second) / (1.0 - same_second), 0.0)
    excess_variance = 1.0 if clumps is None else clumps.excess_variance
    arrivals = fit_arrivals(singles.submit_s, first_hour, excess_variance)
    sizes, probs = fit_gangs(jobs.num_gpus, jobs.duration_s)
    work_gpu_s = jobs.num_gpus.astype(np.float64) * np.maximum(jobs.duration_s, 1.0)
    return WorkloadSpec(
        jobs_per_h=float(len(jobs) / (jobs.submit_s[-1] - jobs.submit_s[0]) * HOUR_S),
        dispersion_r=arrivals.dispersion_r,
        noise_persistence=arrivals.noise_persistence,
        hour_factors=arrivals.hour_factors,
        weekday_factors=arrivals.weekday_factors,
        repeat_prob=repeat_prob,
        repeat_sigma=_repeat_sigma(jobs),
        gang_sizes=sizes.tolist(),
        gang_probs=probs.tolist(),
        durations=fit_durations(jobs.num_gpus, jobs.duration_s, duration_parts),
        shortest_s=max(float(jobs.duration_s.min()), 1.0),
        longest_s=float(jobs.duration_s.max()),
        vcs=owners.vcs,
        users_per_vc=owners.users_per_vc,
        zipf_exponent=owners.zipf_exponent,
        day_noise=arrivals.day_noise,
        clumps=clumps,
        recurrence=fit_recurrence(singles, rng),
        outcomes=None if outcomes is None else fit_outcomes(work_gpu_s, outcomes),
    )


def _batched(jobs: JobSample) -> BoolArray:
    """(J,) True for a job in the second of the one before it."""
    mask: BoolArray = np.concatenate([[False], np.diff(jobs.submit_s) == 0])
    return mask


def _repeat_sigma(jobs: JobSample) -> float:
    """Spread of durations in one second and gang, robust against jobs that are no repeats."""
    same = (np.diff(jobs.submit_s) == 0) & (np.diff(jobs.num_gpus) == 0)
    if not same.any():
        return 0.0
    change = np.abs(np.diff(np.log(np.maximum(jobs.duration_s, 1.0))))[same]
    return min(float(np.median(change)) / NORMAL_MEDIAN, LARGEST_REPEAT_SIGMA)
