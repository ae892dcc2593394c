"""Jobs that are submitted again later: the same gang, owner and group, a similar duration."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.traces.spec_rules import check_spec


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
        """Check ranges.

        Raises:
            TraceError: naming the key, the value and the rule.
        """
        for key in ("again_prob", "gang_again_prob"):
            value = getattr(self, key)
            check_spec(f"recurrence.{key}", value, 0 <= value < 1, "must be in [0, 1)")
        check_spec("recurrence.memory_jobs", self.memory_jobs, self.memory_jobs >= 1,
                   "must be at least 1 job")  # fmt: skip
        check_spec("recurrence.sigma", self.sigma, 0 <= self.sigma < np.inf, "must be 0 or more")


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

    Args:
        spec: the parameters.
        num_gpus: (L,) gang that each job has if it is a first run.
        rng: two draws a job.
    """
    count = len(num_gpus)
    back = np.exp(rng.random(count) * np.log(spec.memory_jobs + 1.0)).astype(np.int64).tolist()
    chance = rng.random(count).tolist()
    single = (num_gpus == 1).tolist()
    root = list(range(count))
    for row in range(count):
        if back[row] <= row:
            earlier = root[row - back[row]]
            if chance[row] < (spec.again_prob if single[earlier] else spec.gang_again_prob):
                root[row] = earlier
    return np.array(root, dtype=np.int64)
