"""Training runs of agents and of pickers: iterations, health checks, checkpoints."""

import copy
import io
import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import ray
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.utils.debug import update_global_seed_if_necessary
from torch import Tensor

from marl.policy.pair_score import Policy
from marl.rllib.algorithm import Setup, build_ppo
from marl.rllib.appo import build_appo
from marl.rllib.checkpoint import ADVICE, Maker, checked, seal
from marl.rllib.cluster import SHARED, WHOLE_RETURN
from marl.topdrl.codec import TopDrlError
from marl.training.episodes import stream_seed
from marl.training.spec import AgentsSpec, AppoSpec, PpoSpec, TrainingError
from sim.errors import GpuYardError
from sim.files import write_atomically

log = logging.getLogger(__name__)

AVERAGE = "average.pt"  # averaged weights, beside RLlib's own files
RUNAWAY = 1e6  # a weight that large makes no sense of any feature
LEAST_TRIES = 3  # at a batch, however long each of them takes
SLOWER = "a lower algo.learning_rate or algo.grad_clip"


@dataclass(frozen=True)
class Iteration:
    """What one iteration did."""

    number: int  # from 1, over resumes
    agent_steps: int  # sampled so far
    return_mean: float  # of episodes that were played to their end meanwhile; NaN if none was
    entropy: float
    policy_loss: float
    value_loss: float
    value_explained: float
    sample_s: float
    learn_s: float
    env_runners: int  # processes that sampled and are well; 0: the training process samples
    restarts: int  # of lost env runners so far, in this process's life


class Update:
    """RLlib's update of the learner, with its times: RLlib's own timers are means over updates."""

    def __init__(self, update: Callable[..., Any]) -> None:
        """Take what is to be timed."""
        self._update, self.ended_s, self.took_s = update, 0.0, 0.0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Update."""
        began_s = time.monotonic()
        results = self._update(*args, **kwargs)
        self.ended_s = time.monotonic()
        self.took_s += self.ended_s - began_s
        return results


def largest_of(weights: Iterable[Tensor]) -> float:
    """The largest magnitude; NaN if any is, where Python's `max` keeps the number it met before."""
    return float(np.max([float(each.detach().abs().max()) for each in weights]))


def use_given_rate(algorithm: Algorithm, module: str) -> None:
    """Have the next update use this run's learning rate, not that of the checkpoint it read.

    RLlib takes the optimiser's rate from the checkpoint, and its own only after one update.
    """
    assert algorithm.config is not None
    rate = algorithm.config.lr

    def set_rate(learner: Any) -> None:
        for _, optimizer in learner.get_optimizers_for_module(module):
            for group in optimizer.param_groups:
                group["lr"] = rate

    assert algorithm.learner_group is not None
    algorithm.learner_group.foreach_learner(set_rate)


def maker_of(spec: Mapping[str, Any], algorithm: str) -> Maker:
    """What a checkpoint must have been made by for a network of these sizes to go on with it."""
    return Maker(algorithm, dict(spec), ray.__version__)


def build_algorithm(setup: Setup, spec: AgentsSpec) -> Algorithm:
    """What `spec` says to learn by, ready to train; RayError: it cannot learn where `ray` says."""
    if isinstance(spec, PpoSpec):
        return build_ppo(setup, spec)
    assert isinstance(spec, AppoSpec)
    return build_appo(setup, spec)


class Trainer:
    """Wraps the algorithm; everything the entry point needs of it."""

    def __init__(self, algorithm: Algorithm, *, average_decay: float) -> None:
        """Take a built algorithm; `average_decay` is how much of the average an iteration keeps."""
        self._algorithm = algorithm
        self._average_decay = average_decay
        self._average = copy.deepcopy(self.policy().state_dict())
        self._update = algorithm.learner_group.update = Update(algorithm.learner_group.update)
        self._before: dict[str, Any] | None = None  # state, while an iteration is under way
        self.kept: int | None = None  # iterations behind the checkpoint read or written last

    def iterate(self) -> Iteration:
        """One iteration.

        Raises:
            TrainingError: a loss is not finite, weights run away, or no env runner samples.
        """
        self._before = copy.deepcopy(self._algorithm.get_state())
        self._check_weights("before")
        began_s, result = self._train()
        learned = result.get("learners", {}).get(SHARED, {})
        sampled = result["env_runners"]
        iteration = Iteration(
            number=int(result["training_iteration"]),
            agent_steps=int(sum(sampled.get("num_module_steps_sampled_lifetime", {}).values())),
            return_mean=_number(sampled, WHOLE_RETURN),
            entropy=_number(learned, "entropy"),
            policy_loss=_number(learned, "policy_loss"),
            value_loss=_number(learned, "vf_loss"),
            value_explained=_number(learned, "vf_explained_var"),
            sample_s=self._update.ended_s - began_s - self._update.took_s,
            learn_s=self._update.took_s,
            env_runners=int(result["fault_tolerance"]["num_healthy_workers"]),
            restarts=int(result["fault_tolerance"]["num_remote_worker_restarts"]),
        )
        for key in ("policy_loss", "value_loss", "entropy"):
            if not math.isfinite(getattr(iteration, key)):
                fault = f"iteration {iteration.number}: {key} is {getattr(iteration, key)}"
                raise self._stopped(fault)
        self._check_weights("after")
        average = self._moved_average()
        self._before = None  # whole from here on; with the average of before, if interrupted now
        self._average = average
        return iteration

    def _train(self) -> tuple[float, dict[str, Any]]:
        """When sampling began, and the results of an iteration that learned.

        Where all env runners are lost RLlib's is empty: it starts them again in the next ones.
        """
        assert self._algorithm.config is not None
        until_s = time.monotonic() + self._algorithm.config.env_runner_restore_timeout_s
        tries, number = 0, self.iterations_done + 1
        while tries < LEAST_TRIES or time.monotonic() < until_s:
            began_s, tries, self._update.took_s = time.monotonic(), tries + 1, 0.0
            result = self._algorithm.train()
            if self._update.took_s > 0:
                return began_s, result
            self._algorithm._iteration -= 1  # nothing was done
            if tries == 1:
                log.warning("iteration %d: all env runners are lost; waiting for new ones", number)
        raise self._stopped(
            f"iteration {number}: all env runners were lost, or did not answer, {tries} times one "
            "after the other",
            "fewer ray.num_env_runners or ray.num_envs_per_env_runner if memory is short, or a "
            "longer ray.sample_timeout_s or ray.restore_timeout_s; what a reward or network of "
            "yours raises is told with ray.num_env_runners=0",
        )

    def _stopped(self, fault: str, change: str = SLOWER) -> TrainingError:
        on = (
            "resume from the last checkpoint"
            if self.kept is not None or self.iterations_done > 0  # which is then kept, too
            else "begin anew, nothing is kept yet,"
        )
        return TrainingError(f"{fault}; {on} with {change}")

    def _check_weights(self, when: str) -> None:
        largest = largest_of(self.policy().parameters())
        if not largest < RUNAWAY:
            number = self.iterations_done + 1
            raise self._stopped(f"{when} iteration {number}: the largest weight is {largest:.3g}")

    def policy(self) -> Policy:
        """The network as it stands."""
        return self._algorithm.get_module(SHARED).policy

    def averaged_policy(self) -> Policy:
        """The network with its weights averaged over iterations, which wanders less."""
        network = copy.deepcopy(self.policy())
        network.load_state_dict(self._average)
        return network

    def _moved_average(self) -> dict[str, Any]:
        """The average moved towards the weights of this iteration."""
        moved, step = self.policy().state_dict(), 1.0 - self._average_decay
        return {key: each.lerp(moved[key].detach(), step) for key, each in self._average.items()}

    @property
    def iterations_done(self) -> int:
        """Whole iterations behind this state, over resumes."""
        before = self._before
        return int(self._algorithm.iteration if before is None else before["training_iteration"])

    def _maker(self) -> Maker:
        assert self._algorithm.config is not None
        spec = self._algorithm.config.rl_module_spec.model_config["spec"]
        return maker_of(spec, type(self._algorithm).__name__)

    def save(self, folder: Path) -> None:
        """Write everything that resuming needs, and seal it.

        Of an iteration that was interrupted nothing is kept: its update may be half done.
        """
        state = copy.deepcopy(self._before)  # RLlib takes it apart
        self._algorithm.save_to_path(str(folder.resolve()), state=state)
        average = io.BytesIO()
        torch.save(self._average, average)
        write_atomically(folder / AVERAGE, average.getvalue())  # torch names no full disk
        seal(folder, self._maker(), self.iterations_done)
        self.kept = self.iterations_done

    def restore(self, folder: Path) -> None:
        """Go on from what `save` wrote; TrainingError: it is not whole, or of another training."""
        checked(folder, self._maker())
        try:
            average = torch.load(folder / AVERAGE, weights_only=True)
            self._algorithm.restore_from_path(str(folder.resolve()))
        except Exception as error:  # RLlib raises whatever its parts raise
            raise TrainingError(f"resume={folder}: cannot be read ({error})") from error
        use_given_rate(self._algorithm, SHARED)
        self._average, self._before = average, None
        self.kept = self.iterations_done

    def close(self) -> None:
        """Stop env runners and learner."""
        self._algorithm.stop()


def _number(results: dict[str, Any], key: str) -> float:
    return float(results.get(key, float("nan")))


MODULE = "default_policy"
LOSSES = ("qf_loss", "total_loss")  # of DQN, of PPO
SIZES = ("network", "observation", "proximity", "hidden")  # of `model_config`; others are knobs


class PickerTrainingError(TopDrlError):
    """Training cannot go on; the message says what to change."""


@dataclass(frozen=True)
class NetworkIteration:
    """What one iteration did."""

    number: int  # from 1, over resumes
    steps: int  # decisions sampled so far
    loss: float  # NaN before the first update
    value_mean: float  # of the Q-values learnt from; NaN where there are none
    return_mean: float  # of whole episodes; NaN before the first


class NetworkTrainer:
    """Wraps an algorithm whose module has its weights in `network`, and plays in this process."""

    error: type[GpuYardError]  # that says why one cannot go on
    cure: str  # of a training that ran away
    advice = ADVICE  # where a checkpoint is broken

    def __init__(self, algorithm: Algorithm) -> None:
        """Take a built algorithm."""
        self._algorithm = algorithm
        self._before: tuple[dict[str, Any], dict[str, Tensor]] | None = None  # state and weights

    def iterate(self) -> NetworkIteration:
        """One iteration; GpuYardError (`error`): a loss is not finite, or weights run away."""
        self._before = copy.deepcopy(self._algorithm.get_state()), self._current()
        result = self._algorithm.train()
        learned = result.get("learners", {}).get(MODULE, {})
        losses = [float(learned[key]) for key in LOSSES if key in learned]
        number, largest = int(result["training_iteration"]), largest_of(self._current().values())
        if not all(map(math.isfinite, losses)) or not largest < RUNAWAY:
            raise self.error(
                f"iteration {number}: loss {losses}, largest weight {largest:.3g}; {self.cure}"
            )
        self._before = None
        sampled = result["env_runners"]
        return NetworkIteration(
            number=number,
            steps=int(sampled.get("num_env_steps_sampled_lifetime", 0)),
            loss=losses[0] if losses else math.nan,  # none before the first update
            value_mean=float(learned.get("qf_mean", math.nan)),
            return_mean=float(sampled.get("episode_return_mean", math.nan)),
        )

    def weights(self) -> dict[str, Tensor]:
        """The network's, after the last whole iteration."""
        return self._current() if self._before is None else self._before[1]

    def _current(self) -> dict[str, Tensor]:
        module: Any = self._algorithm.get_module(MODULE)
        return {key: value.detach().clone() for key, value in module.network.state_dict().items()}

    @property
    def iterations_done(self) -> int:
        """Whole ones, over resumes."""
        before = self._before
        return int(self._algorithm.iteration if before is None else before[0]["training_iteration"])

    def _maker(self) -> Maker:
        assert self._algorithm.config is not None
        model = self._algorithm.config.rl_module_spec.model_config
        sizes = json.loads(json.dumps({key: model[key] for key in SIZES if key in model}))
        return maker_of(sizes, type(self._algorithm).__name__)

    def save(self, folder: Path) -> None:
        """What resuming needs but for the replay buffer, which RLlib leaves out; and seal it.

        Of an iteration that was interrupted nothing is kept.
        """
        state = None if self._before is None else copy.deepcopy(self._before[0])
        self._algorithm.save_to_path(str(folder.resolve()), state=state)
        seal(folder, self._maker(), self.iterations_done)

    def restore(self, folder: Path) -> None:
        """Go on from what `save` wrote, with other draws and episodes, at this run's rate.

        Raises:
            CheckpointError: it is not whole, or of another training.
            GpuYardError: `error`, RLlib cannot read it.
        """
        checked(folder, self._maker(), self.advice)
        try:
            self._algorithm.restore_from_path(str(folder.resolve()))
        except Exception as error:  # RLlib raises whatever its parts raise on a broken file
            raise self.error(f"resume={folder}: cannot be read ({error})") from error
        use_given_rate(self._algorithm, MODULE)
        self._before = None
        runner, config = cast(Any, self._algorithm.env_runner), self._algorithm.config
        assert config is not None
        update_global_seed_if_necessary("torch", stream_seed(config.seed, self.iterations_done))
        runner.env.unwrapped.call("leave_behind", self.iterations_done)  # of `OwnStream`

    def close(self) -> None:
        """Stop what the algorithm started."""
        self._algorithm.stop()


class PickerTrainer(NetworkTrainer):
    """Trains a picker of jobs or of GPUs."""

    error = PickerTrainingError
    cure = "resume from the last checkpoint with a lower learning_rate or grad_clip"
