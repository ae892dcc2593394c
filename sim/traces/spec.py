"""Parameters of the calibrated generator."""

from collections.abc import Sequence
from dataclasses import dataclass

from sim.traces.clumps import Clumps
from sim.traces.day_noise import DayNoise
from sim.traces.demand_mix import DemandMix
from sim.traces.duration_mixture import DurationMixture as DurationMixture  # named in yaml files
from sim.traces.outcome_mix import OutcomeMix
from sim.traces.recurrence import Recurrence
from sim.traces.spec_rules import check_factors, check_shares, check_spec
from sim.traces.workflow_shape import WorkflowShape

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
        """Check lengths and ranges.

        Raises:
            TraceError: naming the key, the value and the rule.
        """
        check_factors("hour_factors", self.hour_factors, HOURS_A_DAY)
        check_factors("weekday_factors", self.weekday_factors, DAYS_A_WEEK)
        self._check("jobs_per_h", self.jobs_per_h > 0, "must be above 0")
        self._check("dispersion_r", self.dispersion_r > 0, "must be above 0")
        self._check("noise_persistence", 0 <= self.noise_persistence < 1, "must be in [0, 1)")
        self._check("repeat_prob", 0 <= self.repeat_prob < 1, "must be in [0, 1)")
        self._check("repeat_sigma", self.repeat_sigma >= 0, "must be 0 or more")
        self._check("vcs", self.vcs >= 1, "must be at least 1")
        self._check("users_per_vc", self.users_per_vc >= 1, "must be at least 1")
        self._check("longest_s", 0 <= self.shortest_s <= self.longest_s, "must be >= shortest_s")
        self._check_gangs()
        self._check_workflows()

    def _check_gangs(self) -> None:
        self._check("gang_sizes", len(self.gang_sizes) == len(self.gang_probs) > 0,
                    "must have one entry for each of gang_probs")  # fmt: skip
        self._check("gang_sizes", min(self.gang_sizes) >= 1, "must be at least 1 GPU")
        check_shares("workload.spec.gang_probs", self.gang_probs)
        reach = [mixture.up_to_gang for mixture in self.durations]
        self._check("durations", bool(reach) and reach == sorted(reach)
                    and reach[-1] >= max(self.gang_sizes),
                    "must ascend in up_to_gang and reach the largest of gang_sizes")  # fmt: skip

    def _check_workflows(self) -> None:
        if self.workflows is not None:
            self._check("recurrence", self.recurrence is None, "must be null beside workflows")
            self._check("repeat_prob", self.repeat_prob == 0, "must be 0 beside workflows")

    def _check(self, key: str, good: bool, rule: str) -> None:
        check_spec(key, getattr(self, key), good, rule)
