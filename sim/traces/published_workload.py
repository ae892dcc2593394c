"""Jobs drawn from what others published of theirs: marginals whatever the seed, or classes.

Counts and quantiles (Dally); classes of lengths and gangs, stretched by their placement's cost, as
in the code of TopDRL's authors.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from sim.arrays import FloatArray, IntArray, objects
from sim.errors import TraceError, check_numbers
from sim.jobs import JobTable
from sim.physics.networks import YorkNetwork
from sim.physics.physics import Physics
from sim.physics.reference import reference_steps_s
from sim.physics.shipped_files import NoInterference
from sim.protocols import NetworkModel
from sim.topology.topology import Topology
from sim.traces.prepare import fitted
from sim.traces.setting import Setting
from sim.traces.streams import Streams
from sim.traces.trace import Trace, take
from sim.traces.workload import DrawnWorkload


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
        """Raise a TraceError, naming key, value and rule, where one is out of range."""
        pairs = (("gang", self.gang_sizes, self.gang_counts),
                 ("model", self.models, self.model_shares))  # fmt: skip
        for key, names, numbers in pairs:
            if len(names) != len(numbers) or sum(numbers) <= 0 or min(numbers) < 0:
                raise TraceError(
                    f"workload.mix: {len(numbers)} numbers {list(numbers)} for {len(names)} "
                    f"{key}s; each needs one, 0 or more, and not all may be 0"
                )
        for rule, given in (
            ("1 or more", {"gang_sizes": min(self.gang_sizes)}),
            ("above 0", {"median_s": self.median_s}),
            ("0 or more", {"sigma": self.sigma, "bend": self.bend}),
            ("from -1 to 1", {"gang_correlation": self.gang_correlation}),
            ("null, or above 0", {"mean_gap_s": self.mean_gap_s}),
        ):
            check_numbers("workload.mix", rule, TraceError, **given)

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

    def drawn(self, draws: Streams, gpus: int) -> tuple[None, Trace]:
        """The jobs."""
        trace = fitted(draw_published(self.mix, draws.jobs, self.name), self, gpus)
        return None, self._some(trace, draws.jobs)

    def _table(self, draws: Streams, setting: Setting, measured: tuple[float, float]) -> JobTable:
        jobs = super()._table(draws, setting, measured)
        stretch = self._stretch(jobs, setting)
        duration_s, gpus = jobs.duration_s * stretch, jobs.num_gpus
        # The load was scaled by ideal durations; at it, more work comes in as much more time.
        more = 1.0 if self.load is None else gpus @ duration_s / (gpus @ jobs.duration_s)
        return replace(
            jobs, submit_s=jobs.submit_s * more, duration_s=duration_s,
            estimate_s=jobs.estimate_s * stretch,
        )  # fmt: skip

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


@dataclass(frozen=True, kw_only=True)
class YorkMix:
    """Classes (short, medium, long, extreme) of whole numbers up to a maximum.

    Class c holds the numbers above bound c - 1 and up to bound c, as shares of the maximum; a job
    draws a class by its share and a number within it uniformly, for length and gang apart. In every
    row of time a job arrives with `arrival_prob`.
    """

    row_s: float  # seconds of one row of length
    arrival_prob: float
    shares: Sequence[float]  # of the classes
    most_rows: int
    length_bounds: Sequence[float]  # shares of `most_rows`, ascending, the last 1
    most_gpus: int
    gang_bounds: Sequence[float]  # shares of `most_gpus`

    def __post_init__(self) -> None:
        """Raise a TraceError, naming key, value and rule, where one is out of range."""
        classes = len(self.shares)
        for key, good, rule in (
            ("row_s", 0 < self.row_s < np.inf, "above 0"),
            ("arrival_prob", 0 < self.arrival_prob <= 1, "above 0 and at most 1"),
            ("shares", min(self.shares) >= 0 and sum(self.shares) > 0, "0 or more, not all 0"),
            ("length_bounds", _rising(self.length_bounds, classes), f"{classes} shares up to 1"),
            ("gang_bounds", _rising(self.gang_bounds, classes), f"{classes} shares up to 1"),
            ("most_rows", self.most_rows >= classes, f"{classes} or more"),
            ("most_gpus", self.most_gpus >= classes, f"{classes} or more"),
        ):
            if not good:
                raise TraceError(f"workload.mix.{key} is {getattr(self, key)}; it must be {rule}")

    def lengths(self, jobs: int, rng: np.random.Generator) -> IntArray:
        """(jobs,) rows, 1 to `most_rows`."""
        return self._draw(self.length_bounds, self.most_rows, jobs, rng)

    def gangs(self, jobs: int, rng: np.random.Generator) -> IntArray:
        """(jobs,) GPUs, 1 to `most_gpus`."""
        return self._draw(self.gang_bounds, self.most_gpus, jobs, rng)

    def _draw(
        self, bounds: Sequence[float], most: int, jobs: int, rng: np.random.Generator
    ) -> IntArray:
        top = np.maximum(np.floor(np.asarray(bounds) * most + 1e-9), 1).astype(np.int64)
        low = np.minimum(np.concatenate([[0], top[:-1]]) + 1, top)
        shares = np.asarray(self.shares, dtype=np.float64)
        which = rng.choice(len(top), jobs, p=shares / shares.sum())
        return rng.integers(low[which], top[which], endpoint=True)


def _rising(bounds: Sequence[float], classes: int) -> bool:
    values = np.asarray(bounds, dtype=np.float64)
    if len(values) != classes or values[0] <= 0 or values[-1] != 1:
        return False
    return bool((np.diff(values) >= 0).all())


@dataclass(kw_only=True, eq=False, repr=False)
class YorkWorkload(DrawnWorkload):
    """`num_jobs` jobs of a mix, drawn anew for each part, window and seed.

    The group counts a job's work as length x speed on its GPUs alone, and divides speed by the cost
    of its placement; work here is the time on the most compact placement, length x that cost.
    """

    mix: YorkMix
    network: YorkNetwork
    topology: Topology

    def _check(self) -> None:
        self._count()
        if self.thin not in {None, 1}:
            raise TraceError(
                f"workload.thin is {self.thin}; jobs are drawn one by one, so it must be null"
            )
        if not isinstance(self.network, YorkNetwork):
            raise TraceError(
                f"workload {self.name} counts work by the placement costs of network=york, and the "
                f"network is {type(self.network).__name__}; add network=york"
            )

    def drawn(self, draws: Streams, gpus: int) -> tuple[None, Trace]:
        """The jobs."""
        return None, fitted(self._trace(draws.jobs), self, gpus)

    def _trace(self, rng: np.random.Generator) -> Trace:
        mix, count = self.mix, self._count()
        rows, gangs = mix.lengths(count, rng), mix.gangs(count, rng)
        came = np.cumsum(rng.geometric(mix.arrival_prob, count))
        return Trace(
            name=self.name,
            job_id=objects([f"{self.name}-{row}" for row in range(count)]),
            submit_s=(came - came[0]) * mix.row_s,
            num_gpus=gangs.astype(np.int64),
            duration_s=rows * mix.row_s * self.network.least_cost(gangs, self.topology),
            user=objects([""] * count),
            vc=objects([""] * count),
        )
