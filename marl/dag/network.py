"""The generator's network: one value for each GPU on the shortlist."""

import numpy as np
import torch
from torch import Tensor, nn

from marl.dag.sight import FEATURES, VALID, Weights


class PlacementNetwork(nn.Module):
    """The same two hidden layers for every GPU, so that their order does not matter.

    value = learned - end of the task beyond the least: untrained it places as HEFT does, by the
    earliest end. Empty places are worth minus infinity.

    Shapes:
        seen: (B, K, FEATURES), see `sight`; returns (B, K).
    """

    def __init__(self, hidden: int) -> None:
        """The last layer starts at zero."""
        super().__init__()
        self.first = nn.Linear(FEATURES, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, 1, bias=False)
        nn.init.zeros_(self.last.weight)

    def forward(self, seen: Tensor) -> Tensor:
        """Values of the shortlist."""
        learned = self.last(torch.relu(self.second(torch.relu(self.first(seen)))))[..., 0]
        return (learned - seen[..., 1]).masked_fill(seen[..., VALID] == 0, -torch.inf)

    def weights(self) -> Weights:
        """For compiled code."""
        found = (
            self.first.weight, self.first.bias, self.second.weight, self.second.bias,
            self.last.weight[0],
        )  # fmt: skip
        return Weights(*(np.ascontiguousarray(w.detach().numpy(), np.float64) for w in found))
