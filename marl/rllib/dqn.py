"""Double DQN of a job picker, on RLlib's new API stack."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
from ray.rllib.algorithms.dqn import DQN, DQNConfig
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner
from ray.rllib.core.learner.utils import make_target_network
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from torch import Tensor, nn

from marl.rllib.build import built, register_copies
from marl.topdrl.env import PickJobEnv
from marl.topdrl.imitate import CompactTeacher, ImitationSpec, behind_by
from marl.topdrl.network import build_network
from marl.topdrl.spec import DqnSpec, NetworkSpec, SightSpec

OBS, ACTIONS, VALUES = "obs", "actions", "qf_preds"  # RLlib's names of columns


class ValueModule(DefaultDQNTorchRLModule):
    """Values of actions by a network, explored by an epsilon that falls evenly.

    `model_config`: `epsilon_steps` (first, last, steps), and what the network is made of.
    """

    def setup(self) -> None:
        """Build the network; the target network comes with the learner."""
        self.uses_double_q = self.model_config["double_q"]
        self.num_atoms = 1
        self.network = self.built()
        self._epsilon = list(self.model_config["epsilon_steps"])

    @abstractmethod
    def built(self) -> nn.Module:
        """The network."""

    @abstractmethod
    def chances(self, seen: Any) -> Tensor:
        """(B, A) of each action where one is drawn, not all 0."""

    def values(self, network: nn.Module, seen: Any) -> Tensor:
        """(B, A) that are learnt; RLlib's loss leaves actions of minus infinity alone."""
        return network(seen)

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
        return {VALUES: self.values(self.network, batch[OBS])}

    def forward_target(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """(B, A) values of its copy."""
        return {VALUES: self.values(self.target, batch[OBS])}

    def _forward_inference(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        with torch.no_grad():
            return {ACTIONS: self.network(batch[OBS]).argmax(-1)}

    def _forward_exploration(self, batch: dict[str, Any], t: int) -> dict[str, Tensor]:
        with torch.no_grad():
            best = self.network(batch[OBS]).argmax(-1)
            drawn = torch.multinomial(self.chances(batch[OBS]), 1)[:, 0]
        first, last, steps = self._epsilon
        epsilon = first + (last - first) * min(t / steps, 1.0)
        return {ACTIONS: torch.where(torch.rand(len(best)) < epsilon, drawn, best)}


class DuelingModule(ValueModule):
    """`model_config`: also `network` and `sight` as dicts, `weights` to start from (or None).

    The network has the dueling heads and the mask in itself.
    """

    def built(self) -> nn.Module:
        """With the weights that were given."""
        config = self.model_config
        network = build_network(NetworkSpec(**config["network"]), SightSpec(**config["sight"]))
        if config["weights"] is not None:
            network.load_state_dict(config["weights"])
        return network

    def chances(self, seen: Any) -> Tensor:
        """Every legal action is as likely."""
        mask: Tensor = seen["action_mask"]
        return mask


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
    register_copies(ENV_NAME, make_env, seed)
    model = {"network": asdict(network), "sight": asdict(sight), "weights": weights}
    rule = {"least_speed": imitation.least_speed, "margin": imitation.margin}
    config = dqn_config(dqn, ENV_NAME, (DuelingModule, model), seed=seed, n_step=dqn.n_step)
    config.learners(
        learner_class=TaughtLearner,
        learner_config_dict={"weight": dqn.taught_weight, **rule},
    )
    config.training(dueling=True)
    algorithm: DQN = built(config)
    return algorithm


def dqn_config(
    dqn: Any, env: str, module: tuple[type[ValueModule], dict[str, Any]], *, seed: int, n_step: int
) -> DQNConfig:
    """Double DQN in this process.

    Args:
        dqn: knobs by our names; `DqnSpec` has them.
        env: name of a registered environment.
        module: class, and its `model_config` but for epsilon.
        seed: of all draws but the environment's.
        n_step: steps of a return before a value stands in.
    """
    epsilon = (dqn.epsilon_first, dqn.epsilon_last, dqn.epsilon_steps)
    spec = RLModuleSpec(
        module_class=module[0], model_config={**module[1], "epsilon_steps": epsilon}
    )
    config: DQNConfig = (
        DQNConfig()
        .environment(env, disable_env_checking=True)
        .env_runners(
            num_env_runners=0, num_envs_per_env_runner=dqn.envs, rollout_fragment_length=n_step
        )
        .rl_module(rl_module_spec=spec)
        .learners(num_learners=0)
        .training(
            gamma=dqn.gamma,
            n_step=n_step,
            lr=dqn.learning_rate,
            grad_clip=dqn.grad_clip,
            train_batch_size_per_learner=dqn.batch,
            training_intensity=dqn.batch / dqn.steps_per_update,
            target_network_update_freq=dqn.target_steps,
            num_steps_sampled_before_learning_starts=dqn.start_steps,
            double_q=True,
            dueling=False,
            num_atoms=1,
            epsilon=dqn.epsilon_last,  # the module's own schedule counts
            store_buffer_in_checkpoints=True,
            replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": dqn.replay_steps},
        )
        .reporting(min_sample_timesteps_per_iteration=dqn.iteration_steps)
        .debugging(seed=seed, log_level="ERROR")
    )
    return config
