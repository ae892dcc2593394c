"""Processes that the generator draws from: bursts, busy days, durations, endings, repetition."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import TraceError, check_numbers
from sim.jit import kernel
from sim.jobs import CANCELLED, COMPLETED, FAILED

ROUNDING = 0.01 + 1e-9  # shares in a yaml file are rounded


def check_spec(key: str, value: object, good: bool, rule: str) -> None:
    """Raise a TraceError that names key, value and rule unless `good`."""
    if not good:
        raise TraceError(f"workload.spec.{key} is {value}; it {rule}")


def check_fields(part: object, at: str, rule: str, *keys: str) -> None:
    """Raise a TraceError unless these fields of a part of the spec obey a rule of `RULES`."""
    values = {key: getattr(part, key) for key in keys}
    check_numbers(f"workload.spec{at}", rule, TraceError, **values)


def check_factors(key: str, factors: Sequence[float], length: int) -> None:
    """Raise a TraceError unless there are `length` relative rates, none negative, not all 0."""
    if len(factors) != length or not min(factors) >= 0 or not 0 < sum(factors) < np.inf:
        raise TraceError(
            f"workload.spec.{key} has {len(factors)} entries {list(factors)}; it needs {length}, "
            f"none below 0, not all 0"
        )


def check_shares(what: str, shares: Sequence[float]) -> None:
    """Raise a TraceError unless the shares sum to 1, within a rounding of 1 %."""
    if not (len(shares) and min(shares) >= 0 and abs(float(np.sum(shares)) - 1.0) <= ROUNDING):
        raise TraceError(f"{what} is {list(shares)}; shares must be 0 or more and sum to 1")


def check_choice(key: str, values: Sequence[object], probs: Sequence[float]) -> None:
    """Raise a TraceError unless every value has a share and the shares sum to 1."""
    check_spec(
        f"{key} values", list(values), len(values) == len(probs) > 0,
        f"must have one entry for each of its {len(probs)} shares",
    )  # fmt: skip
    check_shares(f"workload.spec.{key} shares", probs)


@dataclass(frozen=True, kw_only=True)
class Clumps:
    """Poisson arrivals start clumps; a clump goes on with another job with probability `prob`.

    A Poisson cluster process (Neyman and Scott, 1958) with geometric sizes. The jobs of a clump
    are independent apart from their times; recurrence makes them alike.
    """

    prob: float  # 0 to below 1; also the share of the jobs that follow in a clump
    mean_gap_s: float  # gaps in a clump are exponential

    def __post_init__(self) -> None:
        """Raise a TraceError, naming key, value and rule, where one is out of range."""
        check_fields(self, ".clumps", "from 0 to below 1", "prob")
        check_fields(self, ".clumps", "0 or more", "mean_gap_s")

    @property
    def excess_variance(self) -> float:
        """Variance over mean of a count of jobs whose clumps are Poisson."""
        return (1 + self.prob) / (1 - self.prob)


def clump_sizes(clumps: Clumps, count: int, rng: np.random.Generator) -> IntArray:
    """Sizes of the clumps of `count` jobs; the last is cut."""
    begins = rng.random(count) >= clumps.prob
    begins[:1] = True
    return np.diff(np.append(np.flatnonzero(begins), count))


def spread_clumps(
    clumps: Clumps, start_s: FloatArray, sizes: IntArray, rng: np.random.Generator
) -> FloatArray:
    """(sum(sizes),) ascending times of the jobs of clumps that start at `start_s` (C,)."""
    total = int(sizes.sum())
    gap_s = rng.exponential(clumps.mean_gap_s, total)
    first = np.cumsum(sizes) - sizes
    gap_s[first] = 0.0
    run_s = np.cumsum(gap_s)
    since_start_s = run_s - np.repeat(run_s[first], sizes)
    return np.sort(np.repeat(start_s, sizes) + since_start_s)


@dataclass(frozen=True, kw_only=True)
class DayNoise:
    """A factor of mean 1 on the rate of each 24 hours, gamma distributed."""

    dispersion_r: float  # gamma shape; small is uneven
    persistence: float  # probability that a day keeps the factor of the day before

    def __post_init__(self) -> None:
        """Raise a TraceError, naming key, value and rule, where one is out of range."""
        check_fields(self, ".day_noise", "above 0", "dispersion_r")
        check_fields(self, ".day_noise", "from 0 to below 1", "persistence")


def held_noise(
    shape: float, persistence: float, count: int, level: float, rng: np.random.Generator
) -> tuple[FloatArray, float]:
    """(count,) gamma noise of mean 1, and its last value for the next stretch.

    Every value is gamma(shape, 1/shape); it keeps the one before (the first: `level`) with
    probability `persistence`, else it is drawn anew.
    """
    fresh = rng.gamma(shape, 1.0 / shape, count)
    keeps = rng.random(count) < persistence
    source = np.maximum.accumulate(np.where(keeps, -1, np.arange(count)))
    noise = np.where(source < 0, level, fresh[source])
    return noise, float(noise[-1])


def zipf(count: int, exponent: float) -> FloatArray:
    """(count,) weights of ranks 1, 2, ...: rank ** -exponent."""
    return np.arange(1.0, count + 1.0, dtype=np.float64) ** -float(exponent)


def choose(weights: Sequence[float] | FloatArray, count: int, rng: np.random.Generator) -> IntArray:
    """(count,) positions in `weights`, drawn in proportion to them."""
    shares = np.asarray(weights, dtype=np.float64)
    edges = np.cumsum(shares)[:-1] / shares.sum()
    return np.searchsorted(edges, rng.random(count), side="right").astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class DurationMixture:
    """Durations of gangs up to a size: a mixture of log-normals, in ln seconds."""

    up_to_gang: int  # the first mixture that reaches a gang's size is the one it uses
    weights: Sequence[float]  # (K,) they sum to 1 (within a rounding of 1 %)
    mu: Sequence[float]  # (K,)
    sigma: Sequence[float]  # (K,)

    def __post_init__(self) -> None:
        """Raise a TraceError, naming the values, where lengths differ or one is out of range."""
        what = f"durations up to gang {self.up_to_gang}"
        if not len(self.weights) == len(self.mu) == len(self.sigma) > 0:
            raise TraceError(f"{what}: lists of unequal length")
        check_shares(f"{what}: weights", self.weights)
        if min(self.sigma) < 0:
            raise TraceError(f"{what}: sigma {self.sigma} below 0")
        if not (np.isfinite(self.mu).all() and np.isfinite(self.sigma).all()):
            raise TraceError(f"{what}: mu {self.mu} and sigma {self.sigma} must be finite")


def draw_durations(
    mixtures: Sequence[DurationMixture], num_gpus: IntArray, rng: np.random.Generator
) -> FloatArray:
    """(L,) seconds from each gang's mixture, not clipped."""
    which = rng.random(len(num_gpus))
    normal = rng.standard_normal(len(num_gpus))
    mixture_of = np.searchsorted([mixture.up_to_gang for mixture in mixtures], num_gpus)
    seconds = np.empty(len(num_gpus))
    for index, mixture in enumerate(mixtures):
        rows = mixture_of == index
        edges = np.cumsum(mixture.weights)[:-1] / np.sum(mixture.weights)
        part = np.searchsorted(edges, which[rows], side="right")
        mu, sigma = np.asarray(mixture.mu)[part], np.asarray(mixture.sigma)[part]
        with np.errstate(over="ignore"):  # clipped to longest_s by the caller
            seconds[rows] = np.exp(mu + sigma * normal[rows])
    return seconds


REFERENCE_GPU_S = 3600.0
LARGEST_LN_ODDS = 500.0


@dataclass(frozen=True, kw_only=True)
class OutcomeMix:
    """Odds against completion, log-linear in GPU-time.

    odds(failed) / odds(completed) = exp(failed_ln_odds + failed_slope * ln(GPU-hours)), and the
    same for cancelled: in every published trace jobs that are cancelled are longer than others.
    """

    failed_ln_odds: float  # at one GPU-hour
    failed_slope: float  # a unit of ln GPU-time
    cancelled_ln_odds: float
    cancelled_slope: float

    def __post_init__(self) -> None:
        """Raise a TraceError, naming key and value, where one is not finite."""
        for key, value in vars(self).items():
            check_spec(f"outcomes.{key}", value, bool(np.isfinite(value)), "must be finite")


def outcome_shares(mix: OutcomeMix, work_gpu_s: FloatArray) -> FloatArray:
    """(3, J) probability of COMPLETED, FAILED and CANCELLED, in the order of these numbers."""
    ln_work = np.log(np.maximum(work_gpu_s, 1.0) / REFERENCE_GPU_S)
    ln_odds = np.zeros((3, len(ln_work)))
    ln_odds[FAILED] = mix.failed_ln_odds + mix.failed_slope * ln_work
    ln_odds[CANCELLED] = mix.cancelled_ln_odds + mix.cancelled_slope * ln_work
    odds = np.exp(np.clip(ln_odds - ln_odds.max(axis=0), -LARGEST_LN_ODDS, 0.0))
    shares: FloatArray = odds / odds.sum(axis=0)
    return shares


def draw_outcomes(mix: OutcomeMix, work_gpu_s: FloatArray, rng: np.random.Generator) -> IntArray:
    """(J,) COMPLETED, FAILED or CANCELLED of sim.jobs."""
    shares = outcome_shares(mix, work_gpu_s)
    which = rng.random(len(work_gpu_s))
    failed = (which >= shares[COMPLETED]) & (which < shares[COMPLETED] + shares[FAILED])
    cancelled = which >= shares[COMPLETED] + shares[FAILED]
    result: IntArray = np.where(failed, FAILED, np.where(cancelled, CANCELLED, COMPLETED))
    return result.astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class Recurrence:
    """How often, how much later and how exactly jobs come back.

    A job proposes to be a new run of the job k before it, and so of all that one is a run of; ln k
    is uniform, so that most runs follow soon and some much later. It is one with probability
    `again_prob` if that job has one GPU, `gang_again_prob` if it has more. Traces without users
    show it too: the share of jobs like the one k before them falls with ln k.
    """

    again_prob: float  # 0 to below 1
    gang_again_prob: float
    memory_jobs: int  # largest k
    sigma: float  # spread of the runs' durations around the first run's, in ln seconds

    def __post_init__(self) -> None:
        """Raise a TraceError, naming key, value and rule, where one is out of range."""
        at = ".recurrence"
        check_fields(self, at, "from 0 to below 1", "again_prob", "gang_again_prob")
        check_fields(self, at, "1 or more", "memory_jobs")
        check_fields(self, at, "0 or more", "sigma")


def first_run_probs(
    spec: Recurrence, gang_sizes: Sequence[int], gang_probs: Sequence[float]
) -> FloatArray:
    """(B,) shares of the gang sizes among first runs so that all runs have `gang_probs`.

    With acceptance a_c of class c, runs have p_c = a_c p_c + (1 - sum(a p)) q_c if first runs have
    q_c; this is solved for q.
    """
    probs = np.asarray(gang_probs, dtype=np.float64)
    probs = probs / probs.sum()
    again = np.where(np.asarray(gang_sizes) == 1, spec.again_prob, spec.gang_again_prob)
    first: FloatArray = probs * (1.0 - again)
    return first / float(first.sum())


def draw_roots(spec: Recurrence, num_gpus: IntArray, rng: np.random.Generator) -> IntArray:
    """(L,) row of the first run of each job's group; a first run names itself.

    `num_gpus` (L,): gang that each job has if it is a first run; two draws a job.
    """
    count = len(num_gpus)
    back = np.exp(rng.random(count) * np.log(spec.memory_jobs + 1.0)).astype(np.int64)
    again = np.where(num_gpus == 1, float(spec.again_prob), float(spec.gang_again_prob))
    root = np.arange(count)
    _follow(root, back, rng.random(count), again)
    return root


@kernel
def _follow(root: IntArray, back: IntArray, chance: FloatArray, again: FloatArray) -> None:
    """Let each job be of the group of the one `back` before, where that one draws it so."""
    for row in range(len(root)):
        if back[row] <= row:
            earlier = root[row - back[row]]
            if chance[row] < again[earlier]:
                root[row] = earlier
