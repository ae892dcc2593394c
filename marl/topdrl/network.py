"""The networks that score slots and hold: three convolutional branches, or one; dueling heads."""

import torch
from torch import Tensor, nn

from marl.topdrl import images
from marl.topdrl.spec import MULTI, NetworkSpec, SightSpec

TIME_KERNEL, TIME_STRIDE = 5, 3  # rows
SINGLE_KERNEL, SINGLE_STRIDE = (5, 8), (3, 4)  # of the one-branch network: rows, columns


def build_network(network: NetworkSpec, sight: SightSpec) -> nn.Module:
    """Maps an observation (batch of dict of tensors) to (B, slots + 1) Q-values.

    What the mask forbids gets minus infinity; the dueling mean is over what is legal.
    """
    made = MultiBranch if network.branches == MULTI else SingleBranch
    return made(network, sight)


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

    def __init__(self, network: NetworkSpec, sight: SightSpec) -> None:
        """Random weights."""
        super().__init__()
        self._rows, self._width = sight.rows, sight.block_gpus
        kernel = min(TIME_KERNEL, sight.rows)
        windows = (sight.rows - kernel) // TIME_STRIDE + 1
        channels, hidden = network.channels, network.hidden
        self.canvas = nn.Conv2d(images.CANVAS_CHANNELS, channels, (kernel, 1), (TIME_STRIDE, 1))
        self.canvas_out = nn.Linear(2 * channels * windows, hidden)
        self.blocks = nn.Conv2d(
            images.BLOCK_CHANNELS, channels, (kernel, self._width), (TIME_STRIDE, self._width)
        )
        self.blocks_out = nn.Linear(channels * windows, hidden)
        self.map = nn.Conv2d(images.MAP_CHANNELS, hidden, (1, network.server_gpus))
        self.map_out = nn.Linear(2 * hidden, hidden)
        around = 3 * hidden + 1
        self.value = _head(around, hidden)
        self.hold = _head(around, hidden)
        self.pick = _head(around + hidden, hidden)

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        """(B, slots + 1) Q-values."""
        gpus, slots = observation["gpus"], observation["slots"]
        jobs = self._jobs(slots)  # (B, Q, hidden)
        there = slots[..., :1]
        queue = (jobs * there).sum(1) / there.sum(1).clamp(min=1.0)
        parts = [self._cluster(gpus), self._topology(gpus), queue, observation["backlog"]]
        around = torch.cat(parts, dim=-1)
        beside = around[:, None].expand(-1, jobs.shape[1], -1)
        picks = self.pick(torch.cat([jobs, beside], dim=-1))[..., 0]
        advantage = torch.cat([picks, self.hold(around)], dim=-1)
        return dueling(self.value(around), advantage, observation["action_mask"])

    def _cluster(self, gpus: Tensor) -> Tensor:
        there = gpus.flatten(1, 3)[:, None, None, :, 2]
        seen = torch.relu(self.canvas(images.canvas(gpus, self._rows))) * there
        mean = seen.sum(-1) / there.sum(-1).clamp(min=1.0)
        both = torch.cat([mean, seen.amax(-1)], dim=1)
        return torch.relu(self.canvas_out(both.flatten(1)))

    def _jobs(self, slots: Tensor) -> Tensor:
        seen = torch.relu(self.blocks(images.blocks(slots, self._rows, self._width)))
        per_slot = seen.permute(0, 3, 1, 2).flatten(2)  # (B, Q, channels * windows)
        return torch.relu(self.blocks_out(per_slot))

    def _topology(self, gpus: Tensor) -> Tensor:
        batch, racks, servers = gpus.shape[:3]
        seen = torch.relu(self.map(images.topology_map(gpus)))[..., 0]  # (B, hidden, R * S)
        per_server = seen.reshape(batch, -1, racks, servers)
        there = (gpus[..., 2].amax(-1) > 0).to(gpus.dtype)[:, None]  # (B, 1, R, S)
        per_rack = (per_server * there).sum(-1) / there.sum(-1).clamp(min=1.0)
        both = torch.cat([per_rack.mean(-1), (per_server * there).amax((-1, -2))], dim=-1)
        return torch.relu(self.map_out(both))


class SingleBranch(nn.Module):
    """One convolutional network over canvas and queue side by side, flattened; dueling heads.

    Stands for the job selector from which TopDRL's authors started. Its weights fit one cluster
    and one number of slots.
    """

    def __init__(self, network: NetworkSpec, sight: SightSpec) -> None:
        """Random weights."""
        super().__init__()
        self._rows, self._width = sight.rows, sight.block_gpus
        gpus = network.racks * network.rack_servers * network.server_gpus
        columns = gpus + sight.slots * sight.block_gpus + 1
        kernel = min(SINGLE_KERNEL[0], sight.rows), min(SINGLE_KERNEL[1], columns)
        down = (sight.rows - kernel[0]) // SINGLE_STRIDE[0] + 1
        across = (columns - kernel[1]) // SINGLE_STRIDE[1] + 1
        self.image = nn.Conv2d(2, network.channels, kernel, SINGLE_STRIDE)
        self.out = nn.Linear(network.channels * down * across, network.hidden)
        self.value = _head(network.hidden, network.hidden)
        self.advantage = _head(network.hidden, network.hidden, sight.slots + 1)

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        """(B, slots + 1) Q-values."""
        seen = torch.relu(self.image(self._painted(observation)))
        around = torch.relu(self.out(seen.flatten(1)))
        return dueling(self.value(around), self.advantage(around), observation["action_mask"])

    def _painted(self, observation: dict[str, Tensor]) -> Tensor:
        """(B, 2, rows, columns): what is filled, and waiting times; the backlog is last."""
        cluster = images.canvas(observation["gpus"], self._rows)
        queue = images.blocks(observation["slots"], self._rows, self._width)
        filled = torch.cat([cluster[:, :1], queue[:, :1]], dim=-1)
        waits = torch.cat([torch.zeros_like(cluster[:, :1]), queue[:, 1:2]], dim=-1)
        backlog = observation["backlog"][:, None, None, :].expand(-1, 2, self._rows, 1)
        return torch.cat([torch.cat([filled, waits], dim=1), backlog], dim=-1)


def _head(inputs: int, hidden: int, outputs: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
