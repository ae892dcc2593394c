"""Generated workflows: how many jobs each has, and which of them wait for which."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.arrays import BoolArray, IntArray
from sim.traces.draws import choose
from sim.traces.ragged import starts
from sim.traces.spec_rules import check_choice, check_spec
from sim.traits import Precedence


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
        """Check lengths and ranges.

        Raises:
            TraceError: naming the key, the value and the rule.
        """
        check_choice("workflows.jobs", self.jobs, self.job_probs)
        check_spec("workflows.jobs", list(self.jobs), min(self.jobs) >= 1, "must be 1 job or more")
        for key in ("source_prob", "chain_prob"):
            value = getattr(self, key)
            check_spec(f"workflows.{key}", value, 0 <= value <= 1, "must be in [0, 1]")
        check_spec("workflows.more_parents_prob", self.more_parents_prob,
                   0 <= self.more_parents_prob < 1, "must be in [0, 1)")  # fmt: skip
        check_spec("workflows.gang_slope", self.gang_slope, bool(np.isfinite(self.gang_slope)),
                   "must be finite")  # fmt: skip
        check_spec("workflows.duration_sigma", self.duration_sigma,
                   0 <= self.duration_sigma < np.inf, "must be 0 or more")  # fmt: skip

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
    """Parents of each job, all earlier in its workflow.

    Args:
        shape: the parameters.
        workflow: (J,) ascending from 0 without gaps.
        rng: stream of the draws.
    """
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
