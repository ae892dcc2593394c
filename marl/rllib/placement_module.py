"""The plan generator's network as an RLlib module for double DQN."""

from typing import Any

import torch
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.core.learner.utils import make_target_network
from torch import Tensor

from marl.dag.network import PlacementNetwork
from marl.dag.sight import VALID

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
