"""PPO of the GPU picker, on RLlib's new API stack."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from torch import Tensor

from marl.rllib.build import built, register_copies
from marl.topdrl.proximity.env import GpuPpoSpec, PickGpuEnv, ProximitySpec
from marl.topdrl.proximity.network import GpuScores

OBS, LOGITS, STATE = "obs", "action_dist_inputs", "embeddings"  # RLlib's names of columns


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


ENV_NAME = "gpuyard_pick_gpu"


def build_gpu_ppo(
    *, make_env: Callable[[], PickGpuEnv], ppo: GpuPpoSpec, spec: ProximitySpec, seed: int
) -> PPO:
    """The algorithm, ready to train."""
    register_copies(ENV_NAME, make_env, seed)
    config = (
        PPOConfig()
        .environment(ENV_NAME, disable_env_checking=True)
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
            grad_clip=ppo.grad_clip,
            use_kl_loss=False,
        )
        .debugging(seed=seed, log_level="ERROR")
    )
    algorithm: PPO = built(config)
    return algorithm
