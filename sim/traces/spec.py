"""Parameters of the calibrated generator, as a workload file that Hydra composes."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from sim.arrays import BoolArray, IntArray, objects
from sim.jobs import WHOLE_GPU_MILLI, Precedence
from sim.traces.processes import (
    Clumps,
    DayNoise,
    OutcomeMix,
    Recurrence,
    check_choice,
    check_factors,
    check_fields,
    check_shares,
    check_spec,
    choose,
)
from sim.traces.processes import DurationMixture as DurationMixture  # named in yaml files
from sim.traces.trace import starts


@dataclass(frozen=True, kw_only=True)
class WorkflowShape:
    """Workflows of which every job but the first waits for earlier ones, or for none.

    A job's parents are 1 + geometric many (drawn twice, one counts once); each is the job just
    before with probability `chain_prob`, else any earlier one of the workflow.
    """

    jobs: Sequence[int]  # (B,) jobs of a workflow
    job_probs: Sequence[float]  # (B,) they sum to 1 (within a rounding of 1 %)
    source_prob: float  # a job that is not the first waits for none
    more_parents_prob: float  # a job has one more parent, and so on
    chain_prob: float
    gang_slope: float  # a gang of g lasts g ** gang_slope times as long as one GPU
    duration_sigma: float  # spread of its jobs' durations around the workflow's, in ln seconds

    def __post_init__(self) -> None:
        """Raise a TraceError, naming key, value and rule, where one is out of range."""
        check_choice("workflows.jobs", self.jobs, self.job_probs)
        check_spec("workflows.jobs", list(self.jobs), min(self.jobs) >= 1, "must be 1 job or more")
        at = ".workflows"
        check_fields(self, at, "from 0 to 1", "source_prob", "chain_prob")
        check_fields(self, at, "from 0 to below 1", "more_parents_prob")
        check_fields(self, at, "0 or more", "duration_sigma")
        check_spec("workflows.gang_slope", self.gang_slope, bool(np.isfinite(self.gang_slope)),
                   "must be finite")  # fmt: skip

    @property
    def mean_jobs(self) -> float:
        """Jobs a workflow, on average."""
        shares = np.asarray(self.job_probs, dtype=np.float64)
        return float(np.dot(shares / shares.sum(), self.jobs))


def draw_workflows(shape: WorkflowShape, num_jobs: int, rng: np.random.Generator) -> IntArray:
    """(num_jobs,) workflow of each job, ascending from 0; the last workflow may be cut short."""
    sizes: list[IntArray] = []
    have = 0
    while have < num_jobs:
        batch = int((num_jobs - have) / shape.mean_jobs) + 1
        sizes.append(np.asarray(shape.jobs)[choose(shape.job_probs, batch, rng)])
        have += int(sizes[-1].sum())
    every = np.concatenate([*sizes, np.empty(0, dtype=np.int64)]).astype(np.int64)
    return np.repeat(np.arange(len(every)), every)[:num_jobs]


def draw_precedence(
    shape: WorkflowShape, workflow: IntArray, rng: np.random.Generator
) -> Precedence:
    """Parents of each job, earlier in its `workflow` (J,), which ascends from 0 without gaps."""
    count = len(workflow)
    begin = np.searchsorted(workflow, workflow)  # (J,) first row of each job's workflow
    earlier = np.arange(count) - begin
    waits = (earlier > 0) & (rng.random(count) >= shape.source_prob)
    wanted = np.where(waits, rng.geometric(1.0 - shape.more_parents_prob, count), 0)
    child = np.repeat(np.arange(count), np.minimum(wanted, earlier))
    chained: BoolArray = rng.random(len(child)) < shape.chain_prob
    any_earlier = begin[child] + np.floor(rng.random(len(child)) * earlier[child]).astype(np.int64)
    pairs = np.unique(np.stack([child, np.where(chained, child - 1, any_earlier)]), axis=1)
    lengths = np.bincount(pairs[0], minlength=count)
    return Precedence(starts(lengths), pairs[1].astype(np.int64), workflow)


MILLI = 1000.0
MEMORY_STEP_MIB = 256
LEAST_CPU_MILLI, LEAST_MEMORY_MIB = 100, MEMORY_STEP_MIB


@dataclass(frozen=True, kw_only=True)
class DemandMix:
    """Demands of each worker; those of the runs of one group are equal."""

    gpu_milli: Sequence[int]  # (M,) of jobs with one worker; gangs take whole GPUs
    gpu_milli_probs: Sequence[float]  # (M,) they sum to 1 (within a rounding of 1 %)
    cores_ln_mu: float  # cores a worker are log-normal, in ln cores
    cores_ln_sigma: float
    mib_a_core_ln_mu: float  # memory is log-normal a core, in ln MiB
    mib_a_core_ln_sigma: float
    most_cores: float
    most_memory_mib: float
    gpu_types: Sequence[str]  # (T,) "P100|T4"; "" is any
    gpu_type_probs: Sequence[float]  # (T,) they sum to 1

    def __post_init__(self) -> None:
        """Raise a TraceError, naming key, value and rule, where one is out of range."""
        check_choice("demands.gpu_milli", self.gpu_milli, self.gpu_milli_probs)
        check_choice("demands.gpu_types", self.gpu_types, self.gpu_type_probs)
        fits = min(self.gpu_milli) >= 1 and max(self.gpu_milli) <= WHOLE_GPU_MILLI
        check_spec("demands.gpu_milli", list(self.gpu_milli), fits, "must lie between 1 and 1000")
        for key in ("cores_ln_mu", "cores_ln_sigma", "mib_a_core_ln_mu", "mib_a_core_ln_sigma"):
            value = getattr(self, key)
            legal = bool(np.isfinite(value)) and (value >= 0 or not key.endswith("sigma"))
            check_spec(f"demands.{key}", value, legal, "must be finite, a sigma 0 or more")
        check_fields(self, ".demands", "1 or more", "most_cores")
        check_spec("demands.most_memory_mib", self.most_memory_mib,
                   LEAST_MEMORY_MIB <= self.most_memory_mib < np.inf,
                   f"must be at least {LEAST_MEMORY_MIB}")  # fmt: skip


def draw_demands(mix: DemandMix, num_gpus: IntArray, rng: np.random.Generator) -> dict[str, Any]:
    """Columns of a trace of L jobs, (L,) each, by name; five draws a job."""
    count = len(num_gpus)
    milli = np.asarray(mix.gpu_milli, dtype=np.int64)[choose(mix.gpu_milli_probs, count, rng)]
    cores = np.exp(mix.cores_ln_mu + mix.cores_ln_sigma * rng.standard_normal(count))
    cores = np.clip(cores, LEAST_CPU_MILLI / MILLI, mix.most_cores)
    a_core = np.exp(mix.mib_a_core_ln_mu + mix.mib_a_core_ln_sigma * rng.standard_normal(count))
    steps = np.rint(cores * a_core / MEMORY_STEP_MIB) * MEMORY_STEP_MIB
    gpu_type = choose(mix.gpu_type_probs, count, rng)
    return dict(
        gpu_milli=np.where(num_gpus == 1, milli, WHOLE_GPU_MILLI),
        cpu_milli=(np.rint(cores * 10) * 100).astype(np.int64),
        memory_mib=np.clip(steps, LEAST_MEMORY_MIB, mix.most_memory_mib).astype(np.int64),
        gpu_types=objects([mix.gpu_types[each] for each in gpu_type]),
    )


HOURS_A_DAY = 24
DAYS_A_WEEK = 7


@dataclass(frozen=True, kw_only=True)
class WorkloadSpec:
    """Arrivals, sizes, durations and owners of generated jobs; parts that are None are left out."""

    jobs_per_h: float  # long-run mean
    dispersion_r: float  # gamma shape of the hourly noise; small is bursty
    noise_persistence: float  # correlation of the noise of neighbouring hours, 0 to below 1
    hour_factors: Sequence[float]  # (24,) relative rate by hour of the day
    weekday_factors: Sequence[float]  # (7,) relative rate, Monday first
    repeat_prob: float  # a job is its predecessor again, at the same second
    repeat_sigma: float  # spread of a repeat's duration, in ln seconds
    gang_sizes: Sequence[int]  # (B,)
    gang_probs: Sequence[float]  # (B,) they sum to 1 (within a rounding of 1 %)
    durations: Sequence[DurationMixture]  # ascending up_to_gang, the last reaches every gang
    shortest_s: float  # durations are clipped to [shortest_s, longest_s]
    longest_s: float
    vcs: int  # virtual clusters
    users_per_vc: int
    zipf_exponent: float  # share of the k-th largest owner is proportional to k ** -exponent
    day_noise: DayNoise | None = None  # some days are busier than others
    clumps: Clumps | None = None  # jobs follow each other within seconds
    recurrence: Recurrence | None = None  # jobs come back later; fills the group column
    outcomes: OutcomeMix | None = None  # completed, failed or cancelled; fills outcome
    demands: DemandMix | None = None  # shares of GPUs, cores, memory, GPU types of each worker
    workflows: WorkflowShape | None = None  # jobs wait for others; fills precedence

    def __post_init__(self) -> None:
        """Raise a TraceError, naming key, value and rule, where one is out of range."""
        check_factors("hour_factors", self.hour_factors, HOURS_A_DAY)
        check_factors("weekday_factors", self.weekday_factors, DAYS_A_WEEK)
        check_fields(self, "", "above 0", "jobs_per_h", "dispersion_r")
        check_fields(self, "", "from 0 to below 1", "noise_persistence", "repeat_prob")
        check_fields(self, "", "0 or more", "repeat_sigma", "zipf_exponent")
        check_fields(self, "", "1 or more", "vcs", "users_per_vc")
        self._check("longest_s", 0 <= self.shortest_s <= self.longest_s, "must be >= shortest_s")
        self._check_gangs()
        if self.workflows is not None:
            self._check("recurrence", self.recurrence is None, "must be null beside workflows")
            self._check("repeat_prob", self.repeat_prob == 0, "must be 0 beside workflows")

    def _check_gangs(self) -> None:
        self._check("gang_sizes", len(self.gang_sizes) == len(self.gang_probs) > 0,
                    "must have one entry for each of gang_probs")  # fmt: skip
        self._check("gang_sizes", min(self.gang_sizes) >= 1, "must be at least 1 GPU")
        check_shares("workload.spec.gang_probs", self.gang_probs)
        reach = [mixture.up_to_gang for mixture in self.durations]
        self._check("durations", bool(reach) and reach == sorted(reach)
                    and reach[-1] >= max(self.gang_sizes),
                    "must ascend in up_to_gang and reach the largest of gang_sizes")  # fmt: skip

    def _check(self, key: str, good: bool, rule: str) -> None:
        check_spec(key, getattr(self, key), good, rule)


DIGITS = 4  # significant figures of a parameter
WIDTH = 96
TOP = "  "  # indent of the spec's own fields
COMMENTS = {
    "jobs_per_h": "long-run mean",
    "dispersion_r": "gamma shape of the hourly noise; smaller is burstier",
    "noise_persistence": "probability that an hour keeps the noise of the hour before",
    "weekday_factors": "Monday first",
    "repeat_prob": "a job is its predecessor again, at the same second",
    "repeat_sigma": "spread of a repeat's duration, in ln seconds",
    "durations": "log-normal mixtures in ln seconds, by gang size",
    "day_noise": "some days are busier than others",
    "clumps": "jobs follow each other within seconds",
    "recurrence": "jobs come back later: the same gang and owner, a similar duration",
    "outcomes": "odds of failing and of being cancelled, log-linear in GPU-hours",
    "demands": "of each worker",
    "workflows": "jobs that wait for others",
}

AS_FITTED = ("thin", "max_gang", "min_duration_s", "max_duration_s", "load")  # of _generated.yaml


def workload_yaml(spec: WorkloadSpec, *, name: str, heading: Sequence[str], num_jobs: int) -> str:
    """A file for conf/workload: the generator with these parameters, as fitted.

    That is neither thinned nor stretched nor cut, where the program does not say so. `heading`
    are lines of the comment on top.
    """
    lines = [f"# {line}" for text in heading for line in textwrap.wrap(text, WIDTH)]
    lines += ["defaults:", "  - _generated", "  - _self_", "", f"name: {name}"]
    lines += [f"num_jobs: {num_jobs}", *(f"{key}: null" for key in AS_FITTED)]
    lines += ["spec:", *_object(spec, TOP)]
    return "\n".join(lines) + "\n"


def _object(value: object, indent: str) -> list[str]:
    """`_target_` and the fields of a dataclass; parts that are None are left out."""
    of_class = type(value)
    lines = [f"{indent}_target_: {of_class.__module__}.{of_class.__qualname__}"]
    for each in fields(value):  # type: ignore[arg-type]
        field = getattr(value, each.name)
        if field is not None:
            lines += _entry(each.name, field, indent)
    return lines


def _entry(key: str, value: object, indent: str) -> list[str]:
    commented = key in COMMENTS and indent == TOP
    comment = f"  # {COMMENTS[key]}" if commented else ""
    if is_dataclass(value):
        return [f"{indent}{key}:{comment}", *_object(value, indent + "  ")]
    if isinstance(value, list | tuple):
        return _list(key, value, indent, comment)
    return [f"{indent}{key}: {_scalar(value)}{comment}"]


def _list(key: str, values: Sequence[object], indent: str, comment: str) -> list[str]:
    if values and is_dataclass(values[0]):
        lines = [f"{indent}{key}:{comment}"]
        for value in values:
            first, *rest = _object(value, indent + "    ")
            lines += [f"{indent}  - {first.strip()}", *rest]
        return lines
    text = f"{indent}{key}: [{', '.join(map(_scalar, values))}]"
    lines = textwrap.wrap(text, WIDTH, subsequent_indent=indent + "  ", initial_indent="",
                          drop_whitespace=True)  # fmt: skip
    lines[0] = indent + lines[0].strip()
    if len(lines) == 1 and len(lines[0] + comment) <= WIDTH:
        return [lines[0] + comment]
    return [f"{indent}# {COMMENTS[key]}", *lines] if comment else lines


def _scalar(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f'"{value}"'
    if isinstance(value, int):
        return str(value)
    rounded = float(f"{value:.{DIGITS}g}")
    return f"{rounded:.1f}" if rounded.is_integer() else repr(rounded)
