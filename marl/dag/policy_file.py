"""The plan generator's network and its files: weights and sizes only; loading runs no code."""

import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from marl.dag.sight import FEATURES, VALID, Weights
from sim.errors import GpuYardError


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


FORMAT = 1
WEIGHTS, SPEC = "policy.pt", "policy.json"
COMMAND = "python scripts/train_worl.py"


class PlanPolicyError(GpuYardError):
    """A folder holds no policy of WORL-RTGS's generator."""


def save_plan_policy(folder: Path, weights: dict[str, torch.Tensor], hidden: int) -> None:
    """Write weights, then sizes; each file appears whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{WEIGHTS}.part"
    torch.save({key: value.detach().cpu() for key, value in weights.items()}, part)
    part.replace(folder / WEIGHTS)
    part = folder / f"{SPEC}.part"
    part.write_text(json.dumps({"format": FORMAT, "hidden": hidden}), encoding="utf-8")
    part.replace(folder / SPEC)


def load_plan_policy(folder: Path) -> PlacementNetwork:
    """The network that training wrote.

    Raises:
        PlanPolicyError: it is not there, or cannot be read.
    """
    if not (folder / SPEC).is_file():
        raise PlanPolicyError(f"{folder / SPEC} is not there; train it first: {COMMAND}")
    try:
        found = json.loads((folder / SPEC).read_text(encoding="utf-8"))
        if found["format"] != FORMAT:
            raise ValueError(f"format {found['format']}, this version reads {FORMAT}")
        network = PlacementNetwork(int(found["hidden"]))
        weights = torch.load(folder / WEIGHTS, map_location="cpu", weights_only=True)
        network.load_state_dict(weights)
    except Exception as error:  # torch raises many kinds for a truncated or foreign file
        raise PlanPolicyError(f"{folder}: cannot be read as a policy ({error})") from error
    return network.eval()
