"""Learners of other systems, on RLlib's new API stack.

Double DQN of TopDRL's job picker and of WORL-RTGS's plan generator, PPO of Proximity-DRL's GPU
picker.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.algorithms.dqn import DQN, DQNConfig
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.core.learner.utils import make_target_network
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.tune.registry import register_env
from torch import Tensor, nn

from marl.env.plan_env import OfPlace, PlacementNetwork, PlanEnv, PlanPolicyError
from marl.rllib.cluster import built
from marl.rllib.trainer import NetworkTrainer
from marl.topdrl.codec import NetworkSpec, ObservationSpec
from marl.topdrl.env import CompactTeacher, ImitationSpec, PickJobEnv, behind_by
from marl.topdrl.network import build_network
from marl.topdrl.proximity import GpuScores, PickGpuEnv, ProximitySpec
from marl.training.episodes import stream_seed
from marl.training.spec import DqnSpec, GpuPpoSpec, QSpec

OBS, ACTIONS, VALUES = "obs", "actions", "qf_preds"  # RLlib's names of columns


class OwnStream(gym.Wrapper[Any, Any, Any, Any]):
    """Begins with its own seed: RLlib gives all copies of an environment the same."""

    def __init__(self, env: gym.Env[Any, Any], seed: int) -> None:
        """`seed` of the first episode; later ones go on with the stream."""
        super().__init__(env)
        self._first = seed
        self._seed: int | None = seed

    def leave_behind(self, iterations: int) -> None:
        """Have the next episode be none of those that so many iterations played."""
        self._seed = stream_seed(self._first, iterations)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """The next episode of this copy."""
        del seed
        first, self._seed = self._seed, None
        return self.env.reset(seed=first, options=options)


def register_copies(name: str, make_env: Callable[[], gym.Env[Any, Any]], seed: int) -> None:
    """Tell RLlib of an environment whose copies each play episodes of their own."""
    copies = count()

    def create(context: Any) -> OwnStream:
        del context
        return OwnStream(make_env(), seed * 1_000_003 + next(copies))

    register_env(name, create)


class ValueModule(DefaultDQNTorchRLModule):
    """Values of actions by a network, explored by an epsilon that falls, once an iteration.

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
    """`model_config`: also dicts `network` and `observation`, `weights` to start from (or None).

    The network has the dueling heads and the mask in itself.
    """

    def built(self) -> nn.Module:
        """With the weights that were given."""
        config = self.model_config
        observation = ObservationSpec(**config["observation"])
        network = build_network(NetworkSpec(**config["network"]), observation)
        if config["weights"] is not None:
            network.load_state_dict(config["weights"])
        return network

    def chances(self, seen: Any) -> Tensor:
        """Every legal action is as likely."""
        return seen["action_mask"]


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
        knobs = self.config.learner_config_dict
        if knobs["weight"] == 0:
            return loss
        taught = CompactTeacher(knobs["least_speed"]).act_on_batch(batch[OBS])
        return loss + knobs["weight"] * behind_by(fwd_out[VALUES], taught, knobs["margin"]).mean()


PICK_JOB = "gpuyard_pick_job"


def build_dqn(
    *,
    make_env: Callable[[], PickJobEnv],
    dqn: DqnSpec,
    network: NetworkSpec,
    observation: ObservationSpec,
    imitation: ImitationSpec,
    weights: dict[str, Any] | None,
    seed: int,
) -> DQN:
    """The algorithm, ready to train; `weights` start the network, None draws them.

    `imitation` names the rule that it stays near, as far as `dqn.taught_weight` says.
    """
    register_copies(PICK_JOB, make_env, seed)
    model = {"network": asdict(network), "observation": asdict(observation), "weights": weights}
    rule = {"least_speed": imitation.least_speed, "margin": imitation.margin}
    config = dqn_config(dqn, PICK_JOB, (DuelingModule, model), seed=seed, n_step=dqn.n_step)
    config.learners(
        learner_class=TaughtLearner, learner_config_dict={"weight": dqn.taught_weight, **rule}
    )
    config.training(dueling=True)
    return _built(config)


def dqn_config(
    dqn: QSpec,
    env: str,
    module: tuple[type[ValueModule], dict[str, Any]],
    *,
    seed: int,
    n_step: int,
) -> DQNConfig:
    """Double DQN in this process.

    Args:
        dqn: knobs by our names.
        env: name of a registered environment.
        module: class, and its `model_config` but for epsilon.
        seed: of all draws but the environment's.
        n_step: steps of a return before a value stands in.
    """
    epsilon = (dqn.epsilon_first, dqn.epsilon_last, dqn.epsilon_steps)
    spec = RLModuleSpec(
        module_class=module[0], model_config={**module[1], "epsilon_steps": epsilon}
    )
    return (
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
            replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": dqn.replay_steps},
        )
        .reporting(min_sample_timesteps_per_iteration=dqn.iteration_steps)
        .debugging(seed=seed, log_level="ERROR")
    )


def _built(config: DQNConfig) -> DQN:
    """The algorithm; what it draws from the replay is seeded, too, which RLlib leaves to chance."""
    algorithm: DQN = built(config)
    algorithm.local_replay_buffer.rng = np.random.default_rng(config.seed)
    return algorithm


LOGITS, STATE = "action_dist_inputs", "embeddings"  # RLlib's names of columns


class GpuModule(TorchRLModule, ValueFunctionAPI):
    """`model_config`: `proximity` (ProximitySpec as dict)."""

    def setup(self) -> None:
        """Build the network."""
        self.network = GpuScores(ProximitySpec(**self.model_config["proximity"]))

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        del kwargs
        with torch.no_grad():
            return {LOGITS: self.network(batch[OBS])[0]}

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        del kwargs
        logits, state = self.network(batch[OBS])
        return {LOGITS: logits, STATE: state}

    def compute_values(self, batch: dict[str, Any], embeddings: Tensor | None = None) -> Tensor:
        """(B,) values; without embeddings it is the advantage pass, which needs no gradient."""
        if embeddings is not None:
            return self.network.values(embeddings)
        with torch.no_grad():
            return self.network.values(self.network(batch[OBS])[1])


PICK_GPU = "gpuyard_pick_gpu"


UNCLIPPED = 1e6  # RLlib's 10 stops a critic from learning returns further off than 3


def build_gpu_ppo(
    *, make_env: Callable[[], PickGpuEnv], ppo: GpuPpoSpec, spec: ProximitySpec, seed: int
) -> PPO:
    """The algorithm, ready to train."""
    register_copies(PICK_GPU, make_env, seed)
    config = (
        PPOConfig()
        .environment(PICK_GPU, disable_env_checking=True)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=ppo.envs)
        .rl_module(
            rl_module_spec=RLModuleSpec(
                module_class=GpuModule, model_config={"proximity": asdict(spec)}
            )
        )
        .learners(num_learners=0)
        .training(
            gamma=ppo.gamma,
            lambda_=ppo.gae_lambda,
            lr=ppo.learning_rate,
            train_batch_size_per_learner=ppo.batch,
            minibatch_size=ppo.minibatch,
            num_epochs=ppo.epochs,
            clip_param=ppo.clip,
            entropy_coeff=ppo.entropy,
            vf_loss_coeff=ppo.value_weight,
            vf_clip_param=UNCLIPPED,
            grad_clip=ppo.grad_clip,
            use_kl_loss=False,
        )
        .debugging(seed=seed, log_level="ERROR")
    )
    return built(config)


WORTHLESS = -1e4  # of an empty place: finite, so that an ended episode's zeros stay so


class PlacementModule(ValueModule):
    """`model_config`: also `hidden` units."""

    def built(self) -> nn.Module:
        """Of the network's size."""
        return PlacementNetwork(self.model_config["hidden"])

    def chances(self, seen: Any) -> Tensor:
        """Every place that is there is as likely."""
        return seen[..., OfPlace.VALID] + 1e-9

    def values(self, network: nn.Module, seen: Any) -> Tensor:
        """(B, A) with a finite one for places that are not there."""
        return network(seen).clamp_min(WORTHLESS)


MAKE_PLAN = "gpuyard_plan"


@dataclass(frozen=True, kw_only=True)
class PlanDqnSpec(QSpec):
    """Knobs; a step places one task."""

    at = "dqn"

    hidden: int  # units of each of two layers


class PlanTrainer(NetworkTrainer):
    """One training: iterations and checkpoints."""

    error = PlanPolicyError
    cure = "begin anew: fresh=true with a lower dqn.learning_rate or dqn.grad_clip"
    advice = "begin anew: fresh=true"

    def __init__(self, *, make_env: Callable[[], PlanEnv], spec: PlanDqnSpec, seed: int) -> None:
        """Build the algorithm; Ray must be running."""
        register_copies(MAKE_PLAN, make_env, seed)
        module = (PlacementModule, {"hidden": spec.hidden})
        super().__init__(_built(dqn_config(spec, MAKE_PLAN, module, seed=seed, n_step=1)))
