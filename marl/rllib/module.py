"""The pair-score policy as an RLlib module; all agents share it."""

from typing import Any

import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from torch import Tensor

from marl.policy.build import PolicySpec, build_policy
from marl.rllib.lazy_categorical import LazyCategorical

CHUNK_ROWS = 1024  # the advantage pass judges the whole train batch: bound its memory


class PairScoreModule(TorchRLModule, ValueFunctionAPI):
    """`model_config`: `spec` (PolicySpec as dict), `num_racks`, `weights` (or None)."""

    def setup(self) -> None:
        """Build the network, from given weights if there are any."""
        config = self.model_config
        self.action_dist_cls = LazyCategorical
        self.policy = build_policy(PolicySpec(**config["spec"]), config["num_racks"])
        if config["weights"] is not None:
            self.policy.load_state_dict(config["weights"])

    def logits(self, observations: dict[str, Tensor]) -> Tensor:
        """(B, actions) without gradient.

        As RLlib's `forward_exploration`, but for the walk over all layers that puts them into
        evaluation mode: none differs in it, and at each step it took a third of the network's time.
        """
        with torch.inference_mode():
            logits: Tensor = self.policy(observations).logits
        return logits

    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        del kwargs
        return {Columns.ACTION_DIST_INPUTS: self.logits(batch[Columns.OBS])}

    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self._forward_exploration(batch, **kwargs)

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        del kwargs
        scores = self.policy(batch[Columns.OBS])
        return {Columns.ACTION_DIST_INPUTS: scores.logits, Columns.EMBEDDINGS: scores.state}

    def compute_values(self, batch: dict[str, Any], embeddings: Tensor | None = None) -> Tensor:
        """(B,) values; without embeddings it is the advantage pass, which needs no gradient."""
        if embeddings is not None:
            return self.policy.values(embeddings)
        observation: dict[str, Tensor] = batch[Columns.OBS]
        rows = len(observation["context"])
        judged = []
        with torch.no_grad():
            for first in range(0, rows, CHUNK_ROWS):
                part = {k: v[first : first + CHUNK_ROWS] for k, v in observation.items()}
                judged.append(self.policy.values(self.policy.encode(part)[0]))
        return torch.cat(judged)
