"""The network that picks GPUs, and its policy files."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn

from marl.topdrl.network import SPEC, load_weights, read_sizes, write_policy
from marl.topdrl.proximity.env import ProximitySpec
from marl.topdrl.spec import TopDrlError

MASKED = -1e9  # not infinity: entropies stay finite
KIND = "proximity"


class GpuScores(nn.Module):
    """Two layers shared by scores and value."""

    def __init__(self, spec: ProximitySpec) -> None:
        """Random weights."""
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(2 * spec.gpus + 2, spec.hidden), nn.Tanh(),
            nn.Linear(spec.hidden, spec.hidden), nn.Tanh(),
        )  # fmt: skip
        self.scores = nn.Linear(spec.hidden, spec.gpus + 1)
        self.value = nn.Linear(spec.hidden, 1)

    def forward(self, observation: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """(B, GPUs + 1) logits, very low where masked; (B, hidden) state."""
        state = self.body(observation["seen"])
        return self.scores(state).masked_fill(observation["action_mask"] == 0, MASKED), state

    def values(self, state: Tensor) -> Tensor:
        """(B,) of states."""
        value: Tensor = self.value(state)[:, 0]
        return value


def save_proximity(folder: Path, weights: Mapping[str, Tensor], spec: ProximitySpec) -> None:
    """Write weights, then sizes."""
    write_policy(folder, weights, {"kind": KIND, "proximity": asdict(spec)})


def read_proximity(folder: Path) -> ProximitySpec:
    """Sizes of the policy in `folder`.

    Raises:
        TopDrlError: the file is missing, broken or of another kind.
    """
    sizes = read_sizes(folder, KIND)
    try:
        return ProximitySpec(**sizes["proximity"])
    except (KeyError, TypeError) as error:
        raise TopDrlError(f"{folder / SPEC}: is no description of a policy ({error})") from error


def load_proximity(folder: Path) -> GpuScores:
    """The network in `folder`; errors as in `read_proximity`."""
    network = GpuScores(read_proximity(folder))
    load_weights(network, folder)
    return network.eval()


def best_gpu(network: GpuScores, observation: Mapping[str, object]) -> int:
    """The action of the largest score."""
    batch = {key: torch.as_tensor(value)[None] for key, value in observation.items()}
    with torch.no_grad():
        return int(network(batch)[0][0].argmax())
