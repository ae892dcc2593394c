"""Jobs whose marginals are published counts and quantiles, whatever the seed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from sim.arrays import FloatArray, IntArray, objects
from sim.errors import TraceError
from sim.jobs import JobTable
from sim.physics.physics import Physics
from sim.physics.reference import reference_steps_s
from sim.physics.shipped_files import NoInterference
from sim.protocols import NetworkModel
from sim.topology.topology import Topology
from sim.traces.generated_workload import DrawnWorkload
from sim.traces.prepare import fitted, prepare
from sim.traces.select import take
from sim.traces.setting import Setting, Streams
from sim.traces.trace import Trace


@dataclass(frozen=True, kw_only=True)
class PublishedMix:
    """What is published of a set of jobs: counts of gangs and models, a law of durations.

    Durations are the quantiles (j + 1/2) / J of ln d = ln median + sigma z - bend max(z, 0)²,
    z standard normal: log-normal, with a shorter right tail. Gangs and models are counts, so that
    these marginals are the same for every seed; the seed pairs them.
    """

    gang_sizes: Sequence[int]
    gang_counts: Sequence[int]  # jobs of each size
    models: Sequence[str]
    model_shares: Sequence[float]  # in proportion; counts if they sum to the jobs
    median_s: float
    sigma: float
    bend: float
    gang_correlation: float  # of the ranks of gang and duration, through a normal copula
    mean_gap_s: float | None  # between submissions, exponential; None: all at once

    def __post_init__(self) -> None:
        """Check ranges and lengths.

        Raises:
            TraceError: naming the key, the value and the rule.
        """
        pairs = (("gang", self.gang_sizes, self.gang_counts),
                 ("model", self.models, self.model_shares))  # fmt: skip
        for key, names, numbers in pairs:
            if len(names) != len(numbers) or sum(numbers) <= 0 or min(numbers) < 0:
                raise TraceError(
                    f"workload.mix: {len(numbers)} numbers {list(numbers)} for {len(names)} "
                    f"{key}s; each needs one, 0 or more, and not all may be 0"
                )
        gap_s = self.mean_gap_s
        for key, good, rule in (
            ("gang_sizes", min(self.gang_sizes) >= 1, "whole numbers, 1 or more"),
            ("median_s", 0 < self.median_s < np.inf, "above 0"),
            ("sigma", 0 <= self.sigma < np.inf, "0 or more"),
            ("bend", 0 <= self.bend < np.inf, "0 or more"),
            ("gang_correlation", -1 <= self.gang_correlation <= 1, "from -1 to 1"),
            ("mean_gap_s", gap_s is None or 0 < gap_s < np.inf, "null, or above 0"),
        ):
            if not good:
                raise TraceError(f"workload.mix.{key} is {getattr(self, key)}; it must be {rule}")

    @property
    def num_jobs(self) -> int:
        """J."""
        return int(sum(self.gang_counts))


def draw_published(mix: PublishedMix, rng: np.random.Generator, name: str) -> Trace:
    """All jobs of the mix, paired and ordered by the stream."""
    jobs = mix.num_jobs
    num_gpus = rng.permutation(np.repeat(np.asarray(mix.gang_sizes), mix.gang_counts))
    model = rng.permutation(np.asarray(mix.models, dtype=np.object_)[_model_of(mix, jobs)])
    gaps_s = np.zeros(jobs) if mix.mean_gap_s is None else rng.exponential(mix.mean_gap_s, jobs)
    return Trace(
        name=name,
        job_id=objects([f"{name}-{row}" for row in range(jobs)]),
        submit_s=np.cumsum(gaps_s) - gaps_s[0],
        num_gpus=num_gpus.astype(np.int64),
        duration_s=np.sort(_quantiles_s(mix, jobs))[_duration_ranks(mix, num_gpus, rng)],
        user=objects([""] * jobs),
        vc=objects([""] * jobs),
        model=model,
    )


def _model_of(mix: PublishedMix, jobs: int) -> IntArray:
    """(J,) ascending positions in `mix.models`, in proportion to their shares."""
    edges = np.cumsum(np.asarray(mix.model_shares, dtype=np.float64))
    at = (np.arange(jobs) + 0.5) / jobs * edges[-1]
    position: IntArray = np.searchsorted(edges, at, side="right")
    return position


def _normal_scores(jobs: int) -> FloatArray:
    """(J,) standard normal quantiles (j + 1/2) / J."""
    law = NormalDist()
    return np.array([law.inv_cdf((row + 0.5) / jobs) for row in range(jobs)])


def _quantiles_s(mix: PublishedMix, jobs: int) -> FloatArray:
    """(J,) seconds."""
    z = _normal_scores(jobs)
    return np.asarray(mix.median_s * np.exp(mix.sigma * z - mix.bend * np.maximum(z, 0.0) ** 2))


def _duration_ranks(mix: PublishedMix, num_gpus: IntArray, rng: np.random.Generator) -> IntArray:
    """(J,) rank of each job's duration, correlated with that of its gang; ties by lot."""
    jobs = len(num_gpus)
    gang_rank = np.argsort(np.lexsort((rng.random(jobs), num_gpus)))
    rho = mix.gang_correlation
    score = rho * _normal_scores(jobs)[gang_rank]
    score += np.sqrt(1.0 - rho * rho) * rng.standard_normal(jobs)
    return np.argsort(np.argsort(score)).astype(np.int64)


@dataclass(kw_only=True, eq=False, repr=False)
class IdealWorkload(DrawnWorkload):
    """The jobs of a mix, another pairing for each part, window and seed.

    Published durations are those without a network ("ideal"). The work of a job is its time on the
    most compact placement, so each is lengthened by what its model communicates there: on a slower
    network the same jobs are more work.
    """

    mix: PublishedMix
    network: NetworkModel
    topology: Topology

    def _check(self) -> None:
        if self._count() > self.mix.num_jobs:
            raise TraceError(
                f"workload.num_jobs is {self.num_jobs}; the mix has {self.mix.num_jobs} jobs, "
                "null takes all"
            )
        if self.thin not in {None, 1}:
            raise TraceError(
                f"workload.thin is {self.thin}; a mix is taken whole or at random, so it must be "
                "null"
            )
        if self.load is not None and self.mix.mean_gap_s is None:
            raise TraceError("workload.load has no meaning where all jobs come at once; use null")

    def _count(self) -> int:
        return self.mix.num_jobs if self.num_jobs is None else self.num_jobs

    def _table(self, draws: Streams, setting: Setting, measured: tuple[float, float]) -> JobTable:
        trace = fitted(draw_published(self.mix, draws.jobs, self.name), self._options, setting)
        jobs = prepare(
            self._some(trace, draws.jobs),
            options=self._options,
            setting=setting,
            draws=draws,
            measured_frac=measured,
        )
        stretch = self._stretch(jobs, setting)
        return replace(
            jobs, duration_s=jobs.duration_s * stretch, estimate_s=jobs.estimate_s * stretch
        )

    def _some(self, trace: Trace, rng: np.random.Generator) -> Trace:
        """`num_jobs` of the jobs at random."""
        if self._count() >= len(trace):
            return trace
        return take(trace, np.sort(rng.choice(len(trace), self._count(), replace=False)))

    def _stretch(self, jobs: JobTable, setting: Setting) -> FloatArray:
        """(J,) step at the most compact placement over compute alone."""
        catalogue, topology = setting.catalogue, self.topology
        physics = Physics(
            catalogue=catalogue,
            pairs=NoInterference().pair_table(catalogue),
            network=self.network.tables(catalogue, topology),
            reference_gpu=topology.gpu_types[0],
            links=self.network.links(catalogue, topology),
        )
        step_s = reference_steps_s(jobs.num_gpus, topology, physics)[jobs.profile, jobs.num_gpus]
        compute_s = catalogue.compute_s[jobs.profile, physics.type_index(physics.reference_gpu)]
        return np.asarray(step_s / compute_s)
