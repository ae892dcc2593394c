"""What a picker of jobs is told as plain numbers: its sight, its DQN, its rewards."""

from dataclasses import dataclass, replace

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import GpuYardError
from sim.topology.topology import Topology

BY_WORTH, BY_SUBMISSION = "worth", "submission"
ORDERS = (BY_WORTH, BY_SUBMISSION)
MULTI, SINGLE = "multi", "single"
BRANCHES = (MULTI, SINGLE)


class TopDrlError(GpuYardError):
    """A value of the specification is out of range, or a view does not fit the policy."""


@dataclass(frozen=True, kw_only=True)
class SightSpec:
    """The queue window and the time axis of the images."""

    slots: int  # waiting jobs that can be picked
    oldest_slots: int  # of these, the last so many show the oldest jobs that the order leaves out
    order: str  # of the others: `worth` a GPU at full speed, falling, or `submission`
    rows: int  # of time
    row_s: float  # seconds of the first row
    row_growth: float  # each row is so many times as long as the one before
    block_gpus: int  # columns of a job's block; wider gangs fill it

    def __post_init__(self) -> None:
        """Check ranges.

        Raises:
            TopDrlError: naming the key, the value and the rule.
        """
        for key, good, rule in (
            ("slots", self.slots >= 1, "1 or more"),
            ("oldest_slots", 0 <= self.oldest_slots <= self.slots, "from 0 to sight.slots"),
            ("order", self.order in ORDERS, f"one of {', '.join(ORDERS)}"),
            ("rows", self.rows >= 1, "1 or more"),
            ("row_s", self.row_s > 0, "above 0"),
            ("row_growth", self.row_growth >= 1, "1 or more"),
            ("block_gpus", self.block_gpus >= 1, "1 or more"),
        ):
            if not good:
                raise TopDrlError(f"sight.{key} is {getattr(self, key)!r}; it must be {rule}")


@dataclass(frozen=True, kw_only=True)
class NetworkSpec:
    """Sizes of the network that scores the slots."""

    branches: str  # `multi`: three images, `single`: one
    channels: int  # of every convolution
    hidden: int  # width of every embedding
    server_gpus: int  # padded; larger servers cannot be seen
    racks: int = 1  # of the cluster; a `single` network fits no other
    rack_servers: int = 1

    def __post_init__(self) -> None:
        """Check ranges.

        Raises:
            TopDrlError: naming the key, the value and the rule.
        """
        if self.branches not in BRANCHES:
            raise TopDrlError(
                f"network.branches is {self.branches!r}; it must be {' or '.join(BRANCHES)}"
            )
        for key in ("channels", "hidden", "racks", "rack_servers", "server_gpus"):
            if getattr(self, key) < 1:
                raise TopDrlError(f"network.{key} is {getattr(self, key)}; it must be 1 or more")


def on_cluster(network: NetworkSpec, topology: Topology) -> NetworkSpec:
    """`network` with the racks of this cluster."""
    servers = np.bincount(topology.server_rack)
    return replace(network, racks=len(servers), rack_servers=int(servers.max()))


@dataclass(frozen=True, kw_only=True)
class QSpec:
    """Knobs of any double DQN; steps are decisions."""

    steps: int  # of training
    iteration_steps: int  # between two looks at progress
    envs: int  # copies of the environment
    gamma: float  # a decision, not a second
    batch: int
    steps_per_update: int  # a multiple of `envs`
    replay_steps: int
    start_steps: int  # before the first update
    target_steps: int  # between two copies to the target network
    learning_rate: float
    grad_clip: float
    epsilon_first: float
    epsilon_last: float
    epsilon_steps: int


@dataclass(frozen=True, kw_only=True)
class DqnSpec(QSpec):
    """Those of the picker of jobs."""

    time_budget_s: float | None  # stop after the iteration that reaches it; None: no limit
    n_step: int
    taught_weight: float  # of the rule's margin in the loss; 0: double DQN alone
    checkpoint_every: int  # iterations
    validate_every: int  # iterations


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
