"""Rewards of picking jobs: throughput as it comes, or credited to the decision that earns it."""

from dataclasses import dataclass

import numpy as np

from marl.topdrl.spec import TopDrlError
from sim.arrays import FloatArray, IntArray

FLOW, CREDIT = "flow", "credit"
KINDS = (FLOW, CREDIT)


@dataclass(frozen=True, kw_only=True)
class RewardSpec:
    """How throughput becomes a reward."""

    kind: str  # `flow` or `credit`
    price: float  # of a GPU-second, in worth; only for `credit`

    def __post_init__(self) -> None:
        """Check the words.

        Raises:
            TopDrlError: naming the key and the value.
        """
        if self.kind not in KINDS:
            raise TopDrlError(f"reward.kind is {self.kind!r}; it must be {' or '.join(KINDS)}")
        if not 0 <= self.price <= 1:
            raise TopDrlError(f"reward.price is {self.price}; it must be from 0 to 1")


class Reward:
    """Gathers the reward of one decision after the other.

    `flow`: worth of the work done since the last decision, as a published throughput reward.
    `credit`: a start gets at once what its job will be worth on these GPUs, less `price` for the
    GPU time that it takes; GPUs that idle while somebody waits cost `price`, too. Over a long run
    both add up to throughput, but for a constant; `credit` says at once which start earned it.
    """

    def __init__(
        self, spec: RewardSpec, *, worth: FloatArray, gangs: IntArray, gpu_s: float
    ) -> None:
        """Nothing is gathered yet.

        Args:
            spec: which reward.
            worth: (J,) of a GPU of each job.
            gangs: (J,) GPUs.
            gpu_s: rewards count in so many GPU-seconds of worth 1.
        """
        self._spec, self._worth, self._gangs, self._gpu_s = spec, worth, gangs, gpu_s
        self._credit, self._done = 0.0, np.zeros(len(worth))

    def start(self, job: int, left_s: float, speed: float) -> None:
        """`job` with `left_s` of work left starts on GPUs where it runs at `speed`."""
        gain = float(self._worth[job]) - self._spec.price / speed
        self._credit += float(self._gangs[job]) * left_s * gain

    def idle(self, gpu_s: float) -> None:
        """So many GPU-seconds nobody used, while somebody waited."""
        self._credit -= self._spec.price * gpu_s

    def take(self, done_s: FloatArray) -> float:
        """Reward since the last call; `done_s` (J,) is the work done so far."""
        if self._spec.kind == CREDIT:
            gained, self._credit = self._credit, 0.0
            return gained / self._gpu_s
        step_s, self._done = done_s - self._done, done_s
        return float(np.dot(self._worth * self._gangs, step_s)) / self._gpu_s
