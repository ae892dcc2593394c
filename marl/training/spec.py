"""What a training run is told, of Ray too, as plain values, and its errors.

Importing this loads no Ray.
"""

import math
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from sim.errors import GpuYardError, check_numbers


class TrainingError(GpuYardError):
    """Training cannot go on; the message names the iteration or the checkpoint, and the fix."""


class CheckpointError(TrainingError):
    """A checkpoint is missing, truncated or foreign; the message names file, fault and fix."""


KNOBS = {  # of any learner, by rule
    "a whole number from 1": (
        "steps",
        "iteration_steps",
        "envs",
        "batch",
        "minibatch",
        "steps_per_update",
        "replay_steps",
        "target_steps",
        "epsilon_steps",
        "n_step",
        "hidden",
        "epochs",
        "checkpoint_every",
        "validate_every",
    ),
    "null, or 0 or more": ("time_budget_s",),
    "above 0, at most 1": ("gamma",),
    "from 0 to 1": ("gae_lambda", "epsilon_first", "epsilon_last"),
    "from 0 to below 1": ("average_decay",),
    "above 0": ("learning_rate", "clip", "value_clip", "grad_clip", "target_updates"),
    "0 or more": ("value_weight", "entropy", "env_runners", "start_steps", "taught_weight"),
    "1 or more": ("envs_per_runner",),
}


WARM_KNOBS = {  # of a warm start, which may be none
    "0 or more": ("episodes", "epochs", "least_speed", "value_weight"),
    "a whole number from 1": ("minibatch",),
    "above 0": ("learning_rate",),
}


def check_knobs(at: str, spec: object, knobs: Mapping[str, Sequence[str]] = KNOBS) -> None:
    """Refuse knobs under `at` with which learning would end in NaN, as TrainingError."""
    for rule, keys in knobs.items():
        numbers = {key: value for key, value in vars(spec).items() if key in keys}
        check_numbers(at, rule, TrainingError, **numbers)


def _check_at_most(at: str, spec: object, part: str, whole: str) -> None:
    """Refuse more of `part` than there is of `whole`, as TrainingError."""
    size, most = getattr(spec, part), getattr(spec, whole)
    if size > most:
        raise TrainingError(f"{at}.{part} is {size}, above {at}.{whole}, {most}; lower it")


@dataclass(frozen=True, kw_only=True)
class AgentsSpec:
    """Knobs of whatever `train` teaches agents by; steps are agents' steps."""

    algorithm: ClassVar[str]  # RLlib's name of it
    iterations: int
    time_budget_s: float | None  # stop after the iteration that reaches it; None: no limit
    batch_agent_steps: int  # agent steps sampled an iteration
    minibatch_agent_steps: int
    epochs: int
    learning_rate: float
    gamma: float  # a step of an agent, not a second
    discount_s: float | None = None  # a reward so much later counts 1/e, `gamma` aside; None: as 1
    clip: float
    entropy: float
    value_weight: float
    grad_clip: float
    average_decay: float  # of the averaged weights, an iteration; 0: no averaging
    env_runners: int  # 0: sample in the training process
    envs_per_runner: int
    checkpoint_every: int  # iterations
    array_runner: bool = True  # sample in arrays; False: by RLlib's own runner, the slow reference

    def __post_init__(self) -> None:
        """Check the knobs."""
        check_knobs("algo", self)
        if self.discount_s is not None:
            check_numbers("algo", "above 0", TrainingError, discount_s=self.discount_s)
            if not self.array_runner:
                raise TrainingError(
                    f"algo.discount_s is {self.discount_s} with algo.array_runner=false: RLlib's "
                    "own runner does not note when turns are; set algo.array_runner=true"
                )


@dataclass(frozen=True, kw_only=True)
class PpoSpec(AgentsSpec):
    """PPO's knobs (Schulman et al., 2017)."""

    algorithm: ClassVar[str] = "PPO"
    gae_lambda: float
    value_clip: float


@dataclass(frozen=True, kw_only=True)
class AppoSpec(AgentsSpec):
    """Those of asynchronous PPO: each minibatch is learned from at once, `epochs` times."""

    algorithm: ClassVar[str] = "AsynchronousPPO"
    target_updates: float  # minibatches between two copies to the target network

    def __post_init__(self) -> None:
        """Check the knobs."""
        super().__post_init__()
        if not self.array_runner:
            raise TrainingError("algo.array_runner is false, which is for algo=ppo; leave it out")


@dataclass(frozen=True, kw_only=True)
class QSpec:
    """Knobs of any double DQN; steps are decisions."""

    at: ClassVar[str] = "picker.learner"  # of the configuration
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

    def __post_init__(self) -> None:
        """Check the knobs."""
        check_knobs(self.at, self)
        _check_at_most(self.at, self, "batch", "replay_steps")


@dataclass(frozen=True, kw_only=True)
class GpuPpoSpec:
    """Knobs of PPO for Proximity-DRL; steps are chosen GPUs."""

    steps: int
    time_budget_s: float | None  # stop after the iteration that reaches it; None: no limit
    envs: int
    gamma: float
    gae_lambda: float
    batch: int  # steps sampled an iteration
    minibatch: int
    epochs: int
    learning_rate: float
    clip: float
    entropy: float
    value_weight: float
    grad_clip: float
    checkpoint_every: int  # iterations
    validate_every: int

    def __post_init__(self) -> None:
        """Check the knobs."""
        check_knobs("picker.learner", self)
        _check_at_most("picker.learner", self, "minibatch", "batch")


@dataclass(frozen=True, kw_only=True)
class DqnSpec(QSpec):
    """Those of the picker of jobs."""

    time_budget_s: float | None  # stop after the iteration that reaches it; None: no limit
    n_step: int
    taught_weight: float  # of the rule's margin in the loss; 0: double DQN alone
    checkpoint_every: int  # iterations
    validate_every: int  # iterations


@dataclass(frozen=True, kw_only=True)
class WarmStartSpec:
    """What precedes PPO: imitation of a teacher (as DL2 starts from a heuristic), or values only.

    Where the teacher is the network itself, which begins as the linear score, only its values are
    fitted: PPO's first advantages then mean something.
    """

    episodes: int  # windows played by the teacher; 0: no warm start
    by_rule: bool  # the teacher is the rule of `marl.training.episodes`; False: the network itself
    least_speed: float  # predicted combined speed above which the teacher shares a GPU
    epochs: int
    minibatch: int
    learning_rate: float
    value_weight: float

    def __post_init__(self) -> None:
        """Check the knobs."""
        check_knobs("warm_start", self, WARM_KNOBS)


CODE = ("checkout", "installed")
LEAST = {"num_envs_per_env_runner": 1, "object_store_bytes": 80_000_000}  # others: 0
MOST = 10_000  # processes, and CPUs or GPUs of one


class RayError(GpuYardError):
    """Ray cannot be started or reached as configured; the message names key, value and fix."""


@dataclass(frozen=True, kw_only=True)
class RaySpec:
    """Who samples, who learns, and how soon a lost process is replaced."""

    num_env_runners: int  # 0: the training process samples
    num_envs_per_env_runner: int
    num_cpus_per_env_runner: float
    num_gpus_per_env_runner: float
    num_learners: int  # processes that learn, each a part of the batch; 0: the training process
    num_cpus_per_learner: float
    num_gpus_per_learner: float
    sample_timeout_s: float
    probe_timeout_s: float
    restore_timeout_s: float
    restart_delay_s: float

    def __post_init__(self) -> None:
        """Check every number; RayError: one is too small, too large, or not finite."""
        for field in fields(self):
            value, least = getattr(self, field.name), LEAST.get(field.name, 0)
            most = MOST if field.name.startswith("num_") else math.inf
            if isinstance(value, int | float) and not (least <= value <= most and value < math.inf):
                limit = "" if most == math.inf else f", at most {MOST}"
                words = f"a finite number, at least {least}{limit}"
                raise RayError(f"ray.{field.name} is {value!r}; it must be {words}")

    @property
    def num_cpus(self) -> int:
        """Of the training process, env runners and learners together."""
        runners = self.num_env_runners * self.num_cpus_per_env_runner
        learners = self.num_learners * self.num_cpus_per_learner
        return 1 + int(-(-(runners + learners) // 1))

    def environment(self) -> dict[str, str]:
        """Variables that must be set before Ray is imported: it reads them then and never again."""
        return {"RAY_USAGE_STATS_ENABLED": "0"}

    def check_answer(self) -> None:
        """Nothing: a private Ray is started when it is needed."""


@dataclass(frozen=True, kw_only=True)
class LocalRay(RaySpec):
    """A private Ray on this machine."""

    object_store_bytes: int


@dataclass(frozen=True, kw_only=True)
class ClusterRay(RaySpec):
    """A running cluster, reached by the address of its head."""

    address: str | None  # HOST:PORT
    token_auth: bool
    token_path: str | None  # None: RAY_AUTH_TOKEN, else Ray's default file
    connect_timeout_s: float
    code: str  # one of CODE: where nodes import GPUYard from

    def __post_init__(self) -> None:
        """Check address, code and numbers; RayError names what is wrong."""
        super().__post_init__()
        if self.code not in CODE:
            raise RayError(f"ray.code is {self.code!r}; it must be {' or '.join(CODE)}")
        _ = self.host_and_port

    @property
    def host_and_port(self) -> tuple[str, int]:
        """The two parts of the address; RayError: there is none, or not of this form."""
        parts = urlsplit(f"//{self.address or ''}")
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if host is None or port is None:
            raise RayError(
                f"ray.address is {self.address!r}; give the head of a running cluster as "
                "ray.address=HOST:PORT (or RAY_ADDRESS), or train with ray=local"
            )
        return host, port

    def check_answer(self) -> None:
        """See at once whether anybody listens at the address; Ray itself would try for minutes.

        Raises:
            RayError: nobody does.
        """
        try:
            socket.create_connection(self.host_and_port, timeout=self.connect_timeout_s).close()
        except OSError as error:
            raise RayError(
                f"ray.address={self.address}: no cluster answers there ({error}); start one "
                "(docs/guide.md), name another with ray.address=HOST:PORT, or train with ray=local"
            ) from error

    def environment(self) -> dict[str, str]:
        """With the token's file, where one is demanded; RayError: there is none."""
        chosen = super().environment()
        if not self.token_auth:
            return {**chosen, "RAY_AUTH_MODE": "disabled"}
        chosen["RAY_AUTH_MODE"] = "token"
        if os.environ.get("RAY_AUTH_TOKEN"):  # the token itself: Ray looks there first
            return chosen
        if self.token_path is not None:
            chosen["RAY_AUTH_TOKEN_PATH"] = self.token_path
        path = Path(self.token_path or Path.home() / ".ray" / "auth_token")
        if not path.is_file() or not path.read_text(encoding="utf-8").strip():
            raise RayError(
                f"ray.token_auth is true, but {path} holds no token; copy the token that the "
                "cluster's head was started with and name its file with ray.token_path=FILE (or "
                "RAY_AUTH_TOKEN_PATH), or set ray.token_auth=false on a network of your own"
            )
        return chosen
