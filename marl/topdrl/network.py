"""The network of a job picker: images painted from observations, branches and heads, its files."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from marl.env import SPEC, WEIGHTS, write_policy
from marl.topdrl.codec import MULTI, NetworkSpec, ObservationSpec, OfGpu, OfSlot, TopDrlError

CANVAS_CHANNELS, BLOCK_CHANNELS, MAP_CHANNELS = 2, 4, 3


def canvas(gpus: Tensor, rows: int) -> Tensor:
    """(B, R, S, K, OfGpu) -> (B, 2, rows, R * S * K): a column a GPU, filled until it is free.

    Channel 0 is 1 where filled, channel 1 the worth of the job there.
    """
    columns = gpus.flatten(1, 3)
    filled = _filled(columns[..., OfGpu.LEFT], rows)
    return torch.stack([filled, filled * columns[:, None, :, OfGpu.WORTH]], dim=1)


def blocks(slots: Tensor, rows: int, width: int) -> Tensor:
    """(B, Q, OfSlot) -> (B, 4, rows, Q * width): a block a slot.

    Channel 0 is the job, rows of time times GPUs; 1 to 3 are its wait, worth and speed on the
    closest GPUs, all over the block.
    """
    batch, count, _ = slots.shape
    down = _filled(slots[..., OfSlot.LEFT], rows)  # (B, rows, Q)
    across = _across(slots[..., OfSlot.WIDTH], width)  # (B, Q, width)
    job = down[..., None] * across[:, None]  # (B, rows, Q, width)
    flat = slots[:, None, :, None, OfSlot.WAIT :].expand(batch, rows, count, width, 3)
    image = torch.cat([job[..., None], flat], dim=-1) * slots[:, None, :, None, :1]
    return image.permute(0, 4, 1, 2, 3).flatten(3)


def topology_map(gpus: Tensor) -> Tensor:
    """(B, R, S, K, OfGpu) -> (B, 3, R * S, K): who is free, how soon, and what is there.

    A row a server, racks one below the other.
    """
    present, left = gpus[..., OfGpu.PRESENT], gpus[..., OfGpu.LEFT]
    image = torch.stack([present * (left == 0), left, present], dim=1)
    return image.flatten(2, 3)


def _filled(share: Tensor, rows: int) -> Tensor:
    """(B, n) shares of the rows -> (B, rows, n), 1 from the top as far as they reach."""
    row = torch.arange(rows, device=share.device, dtype=share.dtype)
    return (row[None, :, None] < (share * rows).round()[:, None]).to(share.dtype)


def _across(share: Tensor, width: int) -> Tensor:
    """(B, n) shares of the width -> (B, n, width), 1 from the left."""
    column = torch.arange(width, device=share.device, dtype=share.dtype)
    return (column < (share * width).round()[..., None]).to(share.dtype)


TIME_KERNEL, TIME_STRIDE = 5, 3  # rows
SINGLE_KERNEL, SINGLE_STRIDE = (5, 8), (3, 4)  # of the one-branch network: rows, columns


def build_network(network: NetworkSpec, observation: ObservationSpec) -> nn.Module:
    """Maps an observation (batch of dict of tensors) to (B, slots + 1) Q-values.

    What the mask forbids gets minus infinity; the dueling mean is over what is legal.
    """
    made = MultiBranch if network.branches == MULTI else SingleBranch
    return made(network, observation)


def dueling(value: Tensor, advantage: Tensor, mask: Tensor) -> Tensor:
    """Value (B, 1) + advantage (B, A) - its mean over the legal actions; -inf where masked."""
    legal = mask > 0
    mean = (advantage * legal).sum(-1, keepdim=True) / legal.sum(-1, keepdim=True).clamp(min=1)
    return (value + advantage - mean).masked_fill(~legal, -torch.inf)


class MultiBranch(nn.Module):
    """Branches for the cluster's canvas, the queue's blocks and the topology's map.

    The canvas is convolved in time and averaged over GPUs; blocks share one convolution and every
    slot one head; the map is convolved server by server, averaged over racks and maximised over
    the cluster. So no weight depends on the numbers of GPUs, racks or slots, and the scores follow
    their jobs from slot to slot.
    """

    def __init__(self, network: NetworkSpec, observation: ObservationSpec) -> None:
        """Random weights."""
        super().__init__()
        self._rows, self._width = observation.rows, observation.block_gpus
        kernel = min(TIME_KERNEL, observation.rows)
        windows = (observation.rows - kernel) // TIME_STRIDE + 1
        channels, hidden = network.channels, network.hidden
        self.canvas = nn.Conv2d(CANVAS_CHANNELS, channels, (kernel, 1), (TIME_STRIDE, 1))
        self.canvas_out = nn.Linear(2 * channels * windows, hidden)
        self.blocks = nn.Conv2d(
            BLOCK_CHANNELS, channels, (kernel, self._width), (TIME_STRIDE, self._width)
        )
        self.blocks_out = nn.Linear(channels * windows, hidden)
        self.map = nn.Conv2d(MAP_CHANNELS, hidden, (1, network.server_gpus))
        self.map_out = nn.Linear(2 * hidden, hidden)
        around = 3 * hidden + 1
        self.value = _head(around, hidden)
        self.hold = _head(around, hidden)
        self.pick = _head(around + hidden, hidden)

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        """(B, slots + 1) Q-values."""
        gpus, slots = observation["gpus"], observation["slots"]
        jobs = self._jobs(slots)  # (B, Q, hidden)
        present = slots[..., :1]
        queue = (jobs * present).sum(1) / present.sum(1).clamp(min=1.0)
        parts = [self._cluster(gpus), self._topology(gpus), queue, observation["backlog"]]
        around = torch.cat(parts, dim=-1)
        beside = around[:, None].expand(-1, jobs.shape[1], -1)
        picks = self.pick(torch.cat([jobs, beside], dim=-1))[..., 0]
        advantage = torch.cat([picks, self.hold(around)], dim=-1)
        return dueling(self.value(around), advantage, observation["action_mask"])

    def _cluster(self, gpus: Tensor) -> Tensor:
        present = gpus.flatten(1, 3)[:, None, None, :, OfGpu.PRESENT]
        seen = torch.relu(self.canvas(canvas(gpus, self._rows))) * present
        mean = seen.sum(-1) / present.sum(-1).clamp(min=1.0)
        both = torch.cat([mean, seen.amax(-1)], dim=1)
        return torch.relu(self.canvas_out(both.flatten(1)))

    def _jobs(self, slots: Tensor) -> Tensor:
        seen = torch.relu(self.blocks(blocks(slots, self._rows, self._width)))
        per_slot = seen.permute(0, 3, 1, 2).flatten(2)  # (B, Q, channels * windows)
        return torch.relu(self.blocks_out(per_slot))

    def _topology(self, gpus: Tensor) -> Tensor:
        batch, racks, servers = gpus.shape[:3]
        seen = torch.relu(self.map(topology_map(gpus)))[..., 0]  # (B, hidden, R * S)
        per_server = seen.reshape(batch, -1, racks, servers)
        present = (gpus[..., OfGpu.PRESENT].amax(-1) > 0).to(gpus.dtype)[:, None]  # (B, 1, R, S)
        per_rack = (per_server * present).sum(-1) / present.sum(-1).clamp(min=1.0)
        both = torch.cat([per_rack.mean(-1), (per_server * present).amax((-1, -2))], dim=-1)
        return torch.relu(self.map_out(both))


class SingleBranch(nn.Module):
    """One convolutional network over canvas and queue side by side, flattened; dueling heads.

    Stands for the job selector from which TopDRL's authors started. Its weights fit one cluster
    and one number of slots.
    """

    def __init__(self, network: NetworkSpec, observation: ObservationSpec) -> None:
        """Random weights."""
        super().__init__()
        self._rows, self._width = observation.rows, observation.block_gpus
        gpus = network.racks * network.rack_servers * network.server_gpus
        columns = gpus + observation.slots * observation.block_gpus + 1
        kernel = min(SINGLE_KERNEL[0], observation.rows), min(SINGLE_KERNEL[1], columns)
        down = (observation.rows - kernel[0]) // SINGLE_STRIDE[0] + 1
        across = (columns - kernel[1]) // SINGLE_STRIDE[1] + 1
        self.image = nn.Conv2d(2, network.channels, kernel, SINGLE_STRIDE)
        self.out = nn.Linear(network.channels * down * across, network.hidden)
        self.value = _head(network.hidden, network.hidden)
        self.advantage = _head(network.hidden, network.hidden, observation.slots + 1)

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        """(B, slots + 1) Q-values."""
        seen = torch.relu(self.image(self._painted(observation)))
        around = torch.relu(self.out(seen.flatten(1)))
        return dueling(self.value(around), self.advantage(around), observation["action_mask"])

    def _painted(self, observation: dict[str, Tensor]) -> Tensor:
        """(B, 2, rows, columns): what is filled, and waiting times; the backlog is last."""
        cluster = canvas(observation["gpus"], self._rows)
        queue = blocks(observation["slots"], self._rows, self._width)
        filled = torch.cat([cluster[:, :1], queue[:, :1]], dim=-1)
        waits = torch.cat([torch.zeros_like(cluster[:, :1]), queue[:, 1:2]], dim=-1)
        backlog = observation["backlog"][:, None, None, :].expand(-1, 2, self._rows, 1)
        return torch.cat([torch.cat([filled, waits], dim=1), backlog], dim=-1)


def _head(inputs: int, hidden: int, outputs: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


FORMAT = 1


def save_picker(
    folder: Path, weights: Mapping[str, Tensor], network: NetworkSpec, observation: ObservationSpec
) -> None:
    """Write weights, then sizes; each file appears whole or not at all."""
    sizes = {"kind": "topdrl", "network": asdict(network), "observation": asdict(observation)}
    write_policy(folder, weights, {"format": FORMAT, **sizes})


def load_picker(folder: Path) -> tuple[nn.Module, NetworkSpec, ObservationSpec]:
    """The network in `folder`, ready to be asked; TopDrlError: a file missing or broken."""
    network, observation = read_picker(folder)
    module = build_network(network, observation)
    load_weights(module, folder)
    return module.eval(), network, observation


def read_picker(folder: Path) -> tuple[NetworkSpec, ObservationSpec]:
    """Sizes of the policy in `folder`; errors as in `load_picker`."""
    sizes = read_sizes(folder, "topdrl")
    try:
        observation = sizes["sight" if "sight" in sizes else "observation"]  # its name before
        return NetworkSpec(**sizes["network"]), ObservationSpec(**observation)
    except (KeyError, TypeError) as error:
        raise TopDrlError(f"{folder / SPEC}: is no description of a policy ({error})") from error


def read_sizes(folder: Path, kind: str) -> dict[str, Any]:
    """What is written beside the weights; TopDrlError: it is missing, broken or of another kind."""
    path = folder / SPEC
    if not path.is_file():
        raise TopDrlError(
            f"{path} is not there; give the policy folder that scripts/train_topdrl.py wrote, with "
            f"{SPEC} and {WEIGHTS}"
        )
    try:
        sizes = json.loads(path.read_text(encoding="utf-8"))
        found = sizes["format"], sizes["kind"]
    except (ValueError, KeyError, TypeError) as error:
        raise TopDrlError(f"{path}: is no description of a policy ({error})") from error
    if found != (FORMAT, kind):
        raise TopDrlError(f"{path}: is format {found[0]}, {found[1]}; needed: {FORMAT}, {kind}")
    return dict(sizes)


def load_weights(module: nn.Module, folder: Path) -> None:
    """Fill `module` from the weights file; TopDrlError: it is missing, truncated or foreign."""
    path = folder / WEIGHTS
    try:
        module.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:  # torch raises many kinds for a truncated or foreign file
        raise TopDrlError(f"{path}: cannot be read as this policy's weights ({error})") from error
