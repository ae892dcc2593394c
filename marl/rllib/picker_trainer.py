"""One training run of a picker: iterations, health checks, checkpoints."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray.rllib.algorithms.algorithm import Algorithm
from torch import Tensor

from marl.topdrl.spec import TopDrlError

MODULE = "default_policy"
RUNAWAY = 1e6  # a weight that large makes no sense of any image
LOSSES = ("qf_loss", "total_loss")  # of DQN, of PPO


class PickerTrainingError(TopDrlError):
    """Training cannot go on; the message says what to change."""


@dataclass(frozen=True)
class PickerIteration:
    """What one iteration did."""

    number: int  # from 1, over resumes
    steps: int  # decisions sampled so far
    loss: float  # NaN before the first update
    value_mean: float  # of the Q-values learnt from; NaN where there are none
    return_mean: float  # of whole episodes; NaN before the first


class NetworkTrainer:
    """Wraps an algorithm whose module has its weights in `network`."""

    def __init__(self, algorithm: Algorithm) -> None:
        """Take a built algorithm."""
        self._algorithm = algorithm

    def weights(self) -> dict[str, Tensor]:
        """The network's, as they stand."""
        module: Any = self._algorithm.get_module(MODULE)
        return {key: value.detach().clone() for key, value in module.network.state_dict().items()}

    def save(self, folder: Path) -> None:
        """Everything that resuming needs, replay buffer included."""
        self._algorithm.save_to_path(str(folder.resolve()))

    def close(self) -> None:
        """Stop what the algorithm started."""
        self._algorithm.stop()


class PickerTrainer(NetworkTrainer):
    """Trains a picker of jobs or of GPUs."""

    def iterate(self) -> PickerIteration:
        """One iteration.

        Raises:
            PickerTrainingError: a loss is not finite, or weights run away.
        """
        result = self._algorithm.train()
        learned = result.get("learners", {}).get(MODULE, {})
        losses = [float(learned[key]) for key in LOSSES if key in learned]
        number = int(result["training_iteration"])
        largest = max(float(value.abs().max()) for value in self.weights().values())
        if not all(map(math.isfinite, losses)) or not largest < RUNAWAY:
            raise PickerTrainingError(
                f"iteration {number}: loss {losses}, largest weight {largest:.3g}; resume from the "
                "last checkpoint with a lower learning_rate or grad_clip"
            )
        sampled = result["env_runners"]
        return PickerIteration(
            number=number,
            steps=int(sampled.get("num_env_steps_sampled_lifetime", 0)),
            loss=losses[0] if losses else math.nan,
            value_mean=float(learned.get("qf_mean", math.nan)),
            return_mean=float(sampled.get("episode_return_mean", math.nan)),
        )

    def restore(self, folder: Path) -> None:
        """Go on from what `save` wrote.

        Raises:
            PickerTrainingError: there is nothing, or it cannot be read.
        """
        if not (folder / "rllib_checkpoint.json").is_file():
            raise PickerTrainingError(
                f"{folder}: there is no training checkpoint; give the folder of a training run "
                "(the one that holds `checkpoint`) as resume=FOLDER"
            )
        try:
            self._algorithm.restore_from_path(str(folder.resolve()))
        except Exception as error:  # RLlib raises whatever its parts raise on a broken file
            raise PickerTrainingError(f"resume={folder}: cannot be read ({error})") from error
