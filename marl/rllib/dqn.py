"""Double DQN of a job picker, on RLlib's new API stack."""

from collections.abc import Callable
from dataclasses import asdict
from itertools import count
from typing import Any

import torch
from ray.rllib.algorithms.dqn import DQN, DQNConfig
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner
from ray.rllib.core.learner.utils import make_target_network
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.tune.registry import register_env
from torch import Tensor

from marl.rllib.build import OwnStream, built
from marl.topdrl.env import PickJobEnv
from marl.topdrl.imitate import CompactTeacher, ImitationSpec, behind_by
from marl.topdrl.network import build_network
from marl.topdrl.spec import DqnSpec, NetworkSpec, SightSpec

OBS, ACTIONS, VALUES = "obs", "actions", "qf_preds"  # RLlib's names of columns


class DuelingModule(DefaultDQNTorchRLModule):
    """`model_config`: `network` and `sight` as dicts, `weights` to start from (or None).

    The network has the dueling heads and the mask in itself; RLlib's loss leaves actions of value
    minus infinity alone.
    """

    def setup(self) -> None:
        """Build the network; the target network comes with the learner."""
        config = self.model_config
        self.uses_double_q = config["double_q"]
        self.num_atoms = 1
        self.network = build_network(NetworkSpec(**config["network"]), SightSpec(**config["sight"]))
        if config["weights"] is not None:
            self.network.load_state_dict(config["weights"])
        self._epsilon = list(config["epsilon_steps"])

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
        return {VALUES: self.network(batch[OBS])}

    def forward_target(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """(B, A) values of its copy."""
        return {VALUES: self.target(batch[OBS])}

    def _forward_inference(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        with torch.no_grad():
            return {ACTIONS: self.network(batch[OBS]).argmax(-1)}

    def _forward_exploration(self, batch: dict[str, Any], t: int) -> dict[str, Tensor]:
        with torch.no_grad():
            best = self.network(batch[OBS]).argmax(-1)
            drawn = torch.multinomial(batch[OBS]["action_mask"], 1)[:, 0]
        explore = torch.rand(len(best)) < self._epsilon_at(t)
        return {ACTIONS: torch.where(explore, drawn, best)}

    def _epsilon_at(self, t: int) -> float:
        """Falls evenly from the first value to the last."""
        first, last, steps = self._epsilon
        return float(first + (last - first) * min(t / steps, 1.0))


class TaughtLearner(DQNTorchLearner):
    """Adds the large margin of what `CompactTeacher` would do, in every state of the batch.

    So the network leaves the rule only where values say so by more than the margin.
    `learner_config_dict`: `least_speed` of the rule, `margin`, and its `weight` in the loss; a
    weight of 0 leaves double DQN as it is.
    """

    def compute_loss_for_module(
        self, *, module_id: Any, config: Any, batch: dict[str, Any], fwd_out: dict[str, Tensor]
    ) -> Tensor:
        """RLlib's loss and the margin's."""
        loss: Tensor = super().compute_loss_for_module(
            module_id=module_id, config=config, batch=batch, fwd_out=fwd_out
        )
        told = self.config.learner_config_dict
        if told["weight"] == 0:
            return loss
        taught = CompactTeacher(told["least_speed"]).act_on_batch(batch[OBS])
        return loss + told["weight"] * behind_by(fwd_out[VALUES], taught, told["margin"]).mean()


ENV_NAME = "gpuyard_pick_job"


def build_dqn(
    *,
    make_env: Callable[[], PickJobEnv],
    dqn: DqnSpec,
    network: NetworkSpec,
    sight: SightSpec,
    imitation: ImitationSpec,
    weights: dict[str, Any] | None,
    seed: int,
) -> DQN:
    """The algorithm, ready to train; `weights` start the network, None draws them.

    `imitation` names the rule that it stays near, as far as `dqn.taught_weight` says.
    """
    copies = count()

    def create(context: Any) -> OwnStream:
        del context
        return OwnStream(make_env(), seed * 1_000_003 + next(copies))

    register_env(ENV_NAME, create)
    model = {
        "network": asdict(network),
        "sight": asdict(sight),
        "weights": weights,
        "epsilon_steps": (dqn.epsilon_first, dqn.epsilon_last, dqn.epsilon_steps),
    }
    rule = {"least_speed": imitation.least_speed, "margin": imitation.margin}
    config = (
        DQNConfig()
        .environment(ENV_NAME, disable_env_checking=True)
        .env_runners(
            num_env_runners=0,
            num_envs_per_env_runner=dqn.envs,
            rollout_fragment_length=dqn.n_step,
        )
        .rl_module(rl_module_spec=RLModuleSpec(module_class=DuelingModule, model_config=model))
        .learners(
            num_learners=0,
            learner_class=TaughtLearner,
            learner_config_dict={"weight": dqn.taught_weight, **rule},
        )
        .training(**_knobs(dqn))
        .reporting(min_sample_timesteps_per_iteration=dqn.iteration_steps)
        .debugging(seed=seed, log_level="ERROR")
    )
    algorithm: DQN = built(config)
    return algorithm


def _knobs(dqn: DqnSpec) -> dict[str, Any]:
    """RLlib's names for DQN's knobs."""
    return {
        "gamma": dqn.gamma,
        "n_step": dqn.n_step,
        "lr": dqn.learning_rate,
        "grad_clip": dqn.grad_clip,
        "train_batch_size_per_learner": dqn.batch,
        "training_intensity": dqn.batch / dqn.steps_per_update,
        "target_network_update_freq": dqn.target_steps,
        "num_steps_sampled_before_learning_starts": dqn.start_steps,
        "double_q": True,
        "dueling": True,
        "num_atoms": 1,
        "epsilon": dqn.epsilon_last,  # the module's own schedule counts
        "store_buffer_in_checkpoints": True,
        "replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": dqn.replay_steps},
    }
