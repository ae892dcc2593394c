"""Double DQN of WORL-RTGS's plan generator, on RLlib's new API stack."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from marl.dag.plan_env import PlanEnv
from marl.dag.policy_file import PlacementNetwork, PlanPolicyError
from marl.dag.sight import VALID
from marl.rllib.build import built, register_copies
from marl.rllib.dqn import ValueModule, dqn_config
from marl.rllib.picker_trainer import MODULE, NetworkTrainer

WORTHLESS = -1e4  # of an empty place: finite, so that an ended episode's zeros stay so


class PlacementModule(ValueModule):
    """`model_config`: also `hidden` units."""

    def built(self) -> nn.Module:
        """Of the network's size."""
        return PlacementNetwork(self.model_config["hidden"])

    def chances(self, seen: Any) -> Tensor:
        """Every place that is there is as likely."""
        return seen[..., VALID] + 1e-9

    def values(self, network: nn.Module, seen: Any) -> Tensor:
        """(B, A) with a finite one for places that are not there."""
        values: Tensor = network(seen).clamp_min(WORTHLESS)
        return values


ENV_NAME = "gpuyard_plan"


@dataclass(frozen=True, kw_only=True)
class PlanDqnSpec:
    """Knobs; a step places one task."""

    hidden: int  # units of each of two layers
    steps: int  # of training
    iteration_steps: int
    envs: int
    gamma: float
    batch: int
    steps_per_update: int
    replay_steps: int
    start_steps: int  # before the first update
    target_steps: int  # between two copies to the target network
    learning_rate: float
    grad_clip: float
    epsilon_first: float
    epsilon_last: float
    epsilon_steps: int


class PlanTrainer(NetworkTrainer):
    """One training: iterations and checkpoints."""

    def __init__(self, *, make_env: Callable[[], PlanEnv], spec: PlanDqnSpec, seed: int) -> None:
        """Build the algorithm; Ray must be running."""
        register_copies(ENV_NAME, make_env, seed)
        module = (PlacementModule, {"hidden": spec.hidden})
        super().__init__(built(dqn_config(spec, ENV_NAME, module, seed=seed, n_step=1)))

    def iterate(self) -> tuple[int, float, float]:
        """Steps so far, mean return of whole episodes, loss (NaN before there is one)."""
        result = self._algorithm.train()
        sampled = result["env_runners"]
        learned = result.get("learners", {}).get(MODULE, {})
        return (
            int(sampled.get("num_env_steps_sampled_lifetime", 0)),
            float(sampled.get("episode_return_mean", float("nan"))),
            float(learned.get("qf_loss", float("nan"))),
        )

    def restore(self, folder: Path) -> None:
        """Go on from what `save` wrote.

        Raises:
            PlanPolicyError: it cannot be read.
        """
        try:
            self._algorithm.restore_from_path(str(folder.resolve()))
        except Exception as error:  # RLlib raises whatever its parts raise on a broken file
            raise PlanPolicyError(f"{folder}: cannot be resumed from ({error})") from error
