"""The picker of GPUs as an RLlib module for PPO."""

from typing import Any

import torch
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from torch import Tensor

from marl.topdrl.proximity.network import GpuScores
from marl.topdrl.proximity.spec import ProximitySpec

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
