"""A job picker's network as an RLlib module for double DQN."""

from typing import Any

import torch
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.core.learner.utils import make_target_network
from torch import Tensor

from marl.topdrl.network import build_network
from marl.topdrl.spec import NetworkSpec, SightSpec

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
