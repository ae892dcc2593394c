"""The rule that the network imitates before it learns by itself."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from marl.topdrl.codec import Observation


@dataclass(frozen=True)
class CompactTeacher:
    """Starts the first slot whose closest GPUs are compact enough; else holds.

    Slots come in order of worth a GPU (`SightSpec.order`), so this is: the most valuable job first,
    and no job on GPUs far apart while it can wait. Where holding is not legal the fastest start is
    taken.
    """

    least_speed: float  # on the closest GPUs, relative to compact ones

    def act(self, observation: Observation) -> int:
        """An action that the mask allows."""
        mask, speed = observation["action_mask"], observation["slots"][:, 5]
        good = np.flatnonzero((mask[:-1] > 0) & (speed >= self.least_speed))
        if len(good):
            return int(good[0])
        if mask[-1]:
            return len(mask) - 1
        return int(np.argmax(np.where(mask[:-1] > 0, speed, -1.0)))

    def act_on_batch(self, observation: dict[str, Tensor]) -> Tensor:
        """(B,) the same for a batch."""
        mask, speed = observation["action_mask"] > 0, observation["slots"][..., 5]
        starts = mask[:, :-1]
        good = starts & (speed >= self.least_speed)
        hold = torch.full_like(good[:, 0], mask.shape[1] - 1, dtype=torch.int64)
        fastest = torch.where(starts, speed, -1.0).argmax(-1)
        otherwise = torch.where(mask[:, -1], hold, fastest)
        return torch.where(good.any(-1), good.to(torch.int64).argmax(-1), otherwise)
