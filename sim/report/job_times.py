"""What jobs experienced: completion, queueing, slowdown, endings, workflows; and intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.jobs import CANCELLED, COMPLETED, FAILED, JobTable, never_ran
from sim.physics.catalogue import GangCatalogue
from sim.physics.physics import Physics
from sim.physics.reference import reference_steps_s
from sim.report.timeline import finished, left_s, outcomes, span_s, withdrawn
from sim.run import Kind, Run
from sim.topology.topology import Topology

NAN = float("nan")
SLOWDOWN_BOUND_S = 10.0
"""Jobs shorter than this count as this long in slowdowns, so that tiny jobs do not rule the mean
(the bounded slowdown of Feitelson and others, "Theory and practice in parallel job scheduling",
JSSPP 1997)."""


def mean_of(values: FloatArray) -> float:
    """Mean; NaN of nothing."""
    return float(np.mean(values)) if len(values) else NAN


def percentile_of(values: FloatArray, percent: float) -> float:
    """Percentile with linear interpolation between order statistics; NaN of nothing."""
    return float(np.percentile(values, percent)) if len(values) else NAN


def counted(run: Run) -> BoolArray:
    """(J,) jobs that job metrics count: in the measured part of the window, and finished.

    Finished means that all work was done: jobs that were given up do not count, those that the
    trace calls failed or cancelled after all their work do.
    """
    return run.jobs.measured & finished(run) & ~given_up(run)


def given_up(run: Run) -> BoolArray:
    """(J,) jobs that were withdrawn, or would have been: without work, as their users gave up.

    Of the latter those that wait are withdrawn and those that find a place finish at once, so that
    a scheduler with little waiting would have many jobs of no time in its means.
    """
    fates = run.jobs.fates
    if fates is None:
        return withdrawn(run)
    return withdrawn(run) | never_ran(run.jobs.duration_s, fates.withdraw_s)


def jct_s(run: Run) -> FloatArray:
    """(J,) job completion time: finish - submit; NaN if the job never finished."""
    return np.where(finished(run), run.finish_s, np.nan) - run.jobs.submit_s


def mean_jct_s(run: Run) -> float:
    """Mean JCT of the jobs that count; NaN if there is none."""
    return mean_of(jct_s(run)[counted(run)])


def blocked_s(jobs: JobTable, finish_s: FloatArray) -> FloatArray:
    """(J,) from submission until the last parent is done; infinite where one is not.

    `finish_s` (J,) is when the jobs were done, NaN: not.
    """
    done_s = jobs.submit_s.copy()
    if jobs.precedence is not None:
        ends_s = np.where(np.isnan(finish_s), np.inf, finish_s)
        links = jobs.precedence
        np.maximum.at(done_s, links.children, ends_s[links.parents])
    return done_s - jobs.submit_s


ROUNDING = 1e-12  # of the time on the clock; some thousand attempts add up to less


def queue_delay_s(run: Run) -> FloatArray:
    """(J,) all time without GPUs that could have started: JCT - `blocked_s` - run_s.

    Re-queueing after preemption counts. NaN if the job never finished. What rounding leaves of no
    wait is cut off on both sides of 0: Jain's index would take it for a wait that one home has.
    """
    waited_s = jct_s(run) - blocked_s(run.jobs, run.finish_s) - run.run_s
    return np.where(waited_s <= ROUNDING * run.finish_s, 0.0, waited_s)


def slowdown(run: Run) -> FloatArray:
    """(J,) (JCT - `blocked_s`) / max(duration_s, `SLOWDOWN_BOUND_S`).

    Below 1 only for jobs under the bound.
    """
    took_s = jct_s(run) - blocked_s(run.jobs, run.finish_s)
    return took_s / np.maximum(run.jobs.duration_s, SLOWDOWN_BOUND_S)


def run_stretch(run: Run) -> FloatArray:
    """(J,) run_s / duration_s: what interference, communication, GPU type and restarts cost.

    1 is the most compact exclusive placement on the GPU type of its duration; NaN for a job of 0 s.
    """
    return run.run_s / np.where(run.jobs.duration_s > 0, run.jobs.duration_s, np.nan)


NAMES = {"completed": COMPLETED, "failed": FAILED, "cancelled": CANCELLED}


def outcome_metrics(run: Run) -> dict[str, float | int]:
    """Number and mean JCT of measured jobs by outcome; withdrawn jobs count until they left.

    A job that was withdrawn is among the cancelled ones, so these means say how long the users
    of failed and cancelled jobs waited for that end.
    """
    outcome, measured = outcomes(run), run.jobs.measured
    took_s = left_s(run) - run.jobs.submit_s
    metrics: dict[str, float | int] = {}
    for name, value in NAMES.items():
        chosen = measured & (outcome == value)
        metrics[f"jobs_{name}"] = int(chosen.sum())
        metrics[f"jct_{name}_mean_s"] = mean_of(took_s[chosen])
    return metrics


def deadline_metrics(run: Run) -> dict[str, float | int]:
    """Measured jobs with a deadline, and those that missed it; NaN where the trace has none.

    A job that has not finished misses its deadline once that is past; jobs that were given up are
    left out, since nobody waits for them any more.
    """
    urgency = run.jobs.urgency
    if urgency is None:
        return {"deadline_jobs": 0, "deadline_missed": 0, "deadline_miss_frac": NAN}
    chosen = run.jobs.measured & np.isfinite(urgency.deadline_s) & ~given_up(run)
    end_s = np.where(np.isnan(run.finish_s), span_s(run)[1], run.finish_s)
    missed = int(np.count_nonzero(chosen & (end_s > urgency.deadline_s)))
    jobs = int(chosen.sum())
    return {
        "deadline_jobs": jobs,
        "deadline_missed": missed,
        "deadline_miss_frac": missed / jobs if jobs else NAN,
    }


def workflow_times_s(run: Run) -> FloatArray:
    """(W,) last finish - first submission of each workflow whose jobs all finished and count."""
    precedence = run.jobs.precedence
    if precedence is None or not (precedence.workflow >= 0).any():
        return np.empty(0)
    member = precedence.workflow >= 0
    number = precedence.workflow[member]
    size = int(number.max()) + 1
    first_s, last_s = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(first_s, number, run.jobs.submit_s[member])
    finish_s = np.where(counted(run), run.finish_s, np.inf)[member]  # inf spoils its workflow
    np.maximum.at(last_s, number, finish_s)
    times_s: FloatArray = last_s - first_s
    return times_s[np.isfinite(times_s)]


def workflow_metrics(run: Run) -> dict[str, float | int]:
    """Completion times of workflows; NaN where there is none."""
    times_s = workflow_times_s(run)
    return {
        "workflows_finished": len(times_s),
        "workflow_time_mean_s": mean_of(times_s),
        "workflow_time_p95_s": percentile_of(times_s, 95),
    }


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
    """Mean of what running jobs are worth a second between two times; `worth` (J,) of `full_speed`.

    A job that ran is taken to have progressed evenly from its first start to its end, which is
    exact where it is neither preempted nor disturbed.
    """
    finish_s = np.where(np.isnan(run.finish_s), np.inf, run.finish_s)
    inside_s = np.minimum(finish_s, end_s) - np.maximum(run.start_s, start_s)
    share = np.maximum(np.nan_to_num(inside_s), 0.0) / np.maximum(finish_s - run.start_s, 1e-9)
    done = np.where(np.isnan(run.start_s), 0.0, share * run.jobs.as_work().duration_s * worth)
    return float(done.sum() / (end_s - start_s))


def spans(run: Run) -> tuple[IntArray, IntArray]:
    """(J,) servers and racks that each job's first start spans; 0 where it never started."""
    topology = run.topology
    servers, racks = np.zeros((2, len(run.jobs)), dtype=np.int64)
    for at in np.flatnonzero(run.log.kind == Kind.START)[::-1]:
        on = np.unique(topology.gpu_server[run.log.gpus[at]])
        servers[run.log.job[at]] = len(on)
        racks[run.log.job[at]] = len(np.unique(topology.server_rack[on]))
    return servers, racks


def percent(share: float) -> str:
    """A confidence as tables tell it: `95%`, `99.9%`."""
    return f"{100 * share:g}%"


@dataclass(frozen=True)
class Interval:
    """A centre with a two-sided confidence interval over `count` values."""

    centre: float
    low: float  # NaN where count is below 2: one value has no spread
    high: float
    count: int
    clusters: int | None = None  # of values that are alike; None: values are independent
    effective: float | None = None  # independent values that they are worth; NaN: cannot be told

    @property
    def numbers(self) -> tuple[float, float, float]:
        """Centre, low end and high end."""
        return self.centre, self.low, self.high

    def without_ends(self) -> "Interval":
        """The centre alone."""
        return replace(self, low=NAN, high=NAN)

    def exp(self) -> "Interval":
        """Of a ratio, from that of its log."""
        with np.errstate(over="ignore"):  # an end of few values, with much confidence: infinite
            centre, low, high = (float(np.exp(each)) for each in self.numbers)
        return replace(self, centre=centre, low=low, high=high)


UNKNOWN = Interval(NAN, NAN, NAN, 0)


def mean_interval(values: FloatArray | Sequence[float], confidence: float) -> Interval:
    """Mean of `values` (n,) with Student's t interval; assumes independent values.

    Raises:
        ValueError: no values, or `confidence` is not between 0 and 1.
    """
    from scipy import stats  # heavy: only reports need it

    array = np.asarray(values, dtype=np.float64)
    if not len(array):
        raise ValueError("an interval needs at least one value; none was given")
    check_confidence(confidence)
    mean, count = float(np.mean(array)), len(array)
    if count == 1:
        return Interval(mean, NAN, NAN, count)
    half = float(stats.t.ppf(0.5 + confidence / 2, count - 1))
    half *= float(np.std(array, ddof=1)) / count**0.5
    return Interval(mean, mean - half, mean + half, count)


def log_ratios(
    ours: FloatArray | Sequence[float], theirs: FloatArray | Sequence[float]
) -> FloatArray:
    """(n,) logs of ours/theirs, paired by position.

    An interval of their mean, as a ratio (`Interval.exp`), is one of the geometric mean. Pairing
    removes what the windows have in common, which is most of their spread.

    Raises:
        ValueError: lengths differ, or a value is not above 0.
    """
    top, bottom = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    if len(top) != len(bottom):
        raise ValueError(f"{len(top)} values against {len(bottom)}; pairs need equally many")
    if not (np.all(top > 0) and np.all(bottom > 0)):
        raise ValueError("a ratio of logs needs values above 0; drop windows without finished jobs")
    logs: FloatArray = np.log(top) - np.log(bottom)
    return logs


def check_confidence(confidence: float) -> None:
    """Raise a ValueError unless `confidence` is a share between 0 and 1."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; it must be between 0 and 1, like 0.95")


RESAMPLES = 9_999
SEED = 0  # equal values give equal intervals
FEWEST = 2  # clusters that can be resampled


def clustered_mean_interval(
    values: FloatArray | Sequence[float], clusters: Sequence[int], confidence: float
) -> Interval:
    """Mean of `values` (n,) with a percentile interval of the bootstrap by cluster (n,).

    Whole clusters are drawn with replacement (Davison and Hinkley, *Bootstrap Methods and their
    Application*, 1997, 3.8): values of one are not independent. With a single cluster there is
    nothing to draw; the interval is then Student's t over its values and says nothing of others.
    Clusters that are too few for the confidence (`most_coverage`) span that one, too. Of few
    clusters percentiles are narrow (by 10 % of twenty, 30 % of eight): they are widened by what t
    is over them beyond the normal law.

    Raises:
        ValueError: no values, lengths differ, or `confidence` is not between 0 and 1.
    """
    array = np.asarray(values, dtype=np.float64)
    place, sizes = _grouped(array, clusters)
    count, effective = len(sizes), effective_count(array, clusters)
    alone = mean_interval(array, confidence)  # checks confidence
    if count < FEWEST:
        return replace(alone, clusters=count, effective=effective)
    sums = np.bincount(place, weights=array)
    draws = np.random.default_rng(SEED).multinomial(count, [1 / count] * count, RESAMPLES)
    tail = (1 - confidence) / 2
    low, high = map(float, np.quantile((draws @ sums) / (draws @ sizes), [tail, 1 - tail]))
    mean = float(array.mean())
    if most_coverage(count) < confidence:
        low, high = min(low, alone.low), max(high, alone.high)
    else:
        low, high = (mean + widening(count, confidence) * (end - mean) for end in (low, high))
    return Interval(mean, low, high, len(array), count, effective)


def widening(clusters: int, confidence: float) -> float:
    """By how much t over so many, at least 2, is wider than the bootstrap's percentiles."""
    from scipy import stats

    at, others = (1 + confidence) / 2, clusters - 1
    return float(stats.t.ppf(at, others) / stats.norm.ppf(at) * (clusters / others) ** 0.5)


def effective_count(values: FloatArray | Sequence[float], clusters: Sequence[int]) -> float:
    """How many independent values n clustered ones are worth: n / (1 + (m - 1) r), at most n.

    r is the intra-cluster correlation of the one-way analysis of variance, cut to [0, 1]; m the
    mean cluster size, weighted by size (Kish, *Survey Sampling*, 1965). NaN for one cluster, whose
    r cannot be told; n where every cluster has one value.
    """
    array = np.asarray(values, dtype=np.float64)
    place, sizes = _grouped(array, clusters)
    total, count = len(array), len(sizes)
    if count < FEWEST:
        return float("nan")
    if count == total:
        return float(total)
    means = np.bincount(place, weights=array) / sizes
    between = float(sizes @ (means - array.mean()) ** 2) / (count - 1)
    within = float(np.sum((array - means[place]) ** 2)) / (total - count)
    weighted_size = float(sizes @ sizes) / total
    size = (total - weighted_size) / (count - 1)
    spread = between + (size - 1) * within
    correlation = min(max((between - within) / spread, 0.0), 1.0) if spread > 0 else 0.0
    return total / (1 + (weighted_size - 1) * correlation)


def most_coverage(clusters: int) -> float:
    """The confidence that a percentile interval over so many clusters can reach at best.

    It never leaves the range of the clusters' means, and k draws all lie on one side of the median
    with probability 2 ** (1 - k).
    """
    return 1 - 2.0 ** (1 - clusters)


def _grouped(values: FloatArray, clusters: Sequence[int]) -> tuple[IntArray, IntArray]:
    """(n,) which cluster each value is of, from 0, and (K,) how many values each has."""
    if len(values) != len(clusters):
        raise ValueError(f"{len(values)} values in {len(clusters)} clusters; give one for each")
    if not len(values):
        raise ValueError("an interval needs at least one value; none was given")
    _, place = np.unique(np.asarray(clusters), return_inverse=True)
    return place, np.bincount(place)
