"""Double DQN of WORL-RTGS's plan generator, on RLlib's new API stack."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import torch
from ray.rllib.algorithms.dqn import DQN, DQNConfig
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.core.learner.utils import make_target_network
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.tune.registry import register_env
from torch import Tensor

from marl.dag.plan_env import PlanEnv
from marl.dag.policy_file import PlacementNetwork, PlanPolicyError
from marl.dag.sight import VALID
from marl.rllib.build import OwnStream, built

OBS, ACTIONS, VALUES = "obs", "actions", "qf_preds"  # RLlib's names of columns
WORTHLESS = -1e4  # of an empty place: finite, so that an ended episode's zeros stay so


class PlacementModule(DefaultDQNTorchRLModule):
    """`model_config`: `hidden` units and `epsilon_steps` (first, last, steps)."""

    def setup(self) -> None:
        """Build the network; the target network comes with the learner."""
        self.uses_double_q = self.model_config["double_q"]
        self.num_atoms = 1
        self.network = PlacementNetwork(self.model_config["hidden"])
        self._epsilon = list(self.model_config["epsilon_steps"])

    def get_initial_state(self) -> dict[str, Any]:
        """No memory."""
        return {}

    def get_non_inference_attributes(self) -> list[str]:
        """What env runners do without."""
        return ["target"]

    def make_target_networks(self) -> None:
        """A copy that follows."""
        self.target = make_target_network(self.network)

    def get_target_network_pairs(self) -> list[tuple[Any, Any]]:
        """What follows what."""
        return [(self.network, self.target)]

    def compute_q_values(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """(B, A) values of the network."""
        return {VALUES: self.network(batch[OBS]).clamp_min(WORTHLESS)}

    def forward_target(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """(B, A) values of its copy."""
        return {VALUES: self.target(batch[OBS]).clamp_min(WORTHLESS)}

    def _forward_inference(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        with torch.no_grad():
            return {ACTIONS: self.network(batch[OBS]).argmax(-1)}

    def _forward_exploration(self, batch: dict[str, Any], t: int) -> dict[str, Tensor]:
        seen = batch[OBS]
        with torch.no_grad():
            best = self.network(seen).argmax(-1)
            drawn = torch.multinomial(seen[..., VALID] + 1e-9, 1)[:, 0]
        first, last, steps = self._epsilon
        epsilon = first + (last - first) * min(t / steps, 1.0)
        return {ACTIONS: torch.where(torch.rand(len(best)) < epsilon, drawn, best)}


ENV_NAME = "gpuyard_plan"
MODULE = "default_policy"


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


class PlanTrainer:
    """One training: iterations and checkpoints."""

    def __init__(self, *, make_env: Callable[[], PlanEnv], spec: PlanDqnSpec, seed: int) -> None:
        """Build the algorithm; Ray must be running."""
        copies = count()

        def create(context: Any) -> OwnStream:
            del context
            return OwnStream(make_env(), seed * 1_000_003 + next(copies))

        register_env(ENV_NAME, create)
        self._algorithm: DQN = built(_config(spec, seed))

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

    def weights(self) -> dict[str, Tensor]:
        """The network's, as they stand."""
        module: Any = self._algorithm.get_module(MODULE)
        return {key: value.detach().clone() for key, value in module.network.state_dict().items()}

    def save(self, folder: Path) -> None:
        """Everything that resuming needs, replay buffer included."""
        self._algorithm.save_to_path(str(folder.resolve()))

    def restore(self, folder: Path) -> None:
        """Go on from what `save` wrote.

        Raises:
            PlanPolicyError: it cannot be read.
        """
        try:
            self._algorithm.restore_from_path(str(folder.resolve()))
        except Exception as error:  # RLlib raises whatever its parts raise on a broken file
            raise PlanPolicyError(f"{folder}: cannot be resumed from ({error})") from error

    def close(self) -> None:
        """Stop what the algorithm started."""
        self._algorithm.stop()


def _config(spec: PlanDqnSpec, seed: int) -> DQNConfig:
    epsilon = (spec.epsilon_first, spec.epsilon_last, spec.epsilon_steps)
    model = {"hidden": spec.hidden, "epsilon_steps": epsilon}
    return (
        DQNConfig()
        .environment(ENV_NAME, disable_env_checking=True)
        .env_runners(
            num_env_runners=0, num_envs_per_env_runner=spec.envs, rollout_fragment_length=1
        )
        .rl_module(rl_module_spec=RLModuleSpec(module_class=PlacementModule, model_config=model))
        .learners(num_learners=0)
        .training(
            gamma=spec.gamma,
            n_step=1,
            lr=spec.learning_rate,
            grad_clip=spec.grad_clip,
            train_batch_size_per_learner=spec.batch,
            training_intensity=spec.batch / spec.steps_per_update,
            target_network_update_freq=spec.target_steps,
            num_steps_sampled_before_learning_starts=spec.start_steps,
            double_q=True,
            dueling=False,
            num_atoms=1,
            epsilon=spec.epsilon_last,  # the module's own schedule counts
            store_buffer_in_checkpoints=True,
            replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": spec.replay_steps},
        )
        .reporting(min_sample_timesteps_per_iteration=spec.iteration_steps)
        .debugging(seed=seed, log_level="ERROR")
    )
