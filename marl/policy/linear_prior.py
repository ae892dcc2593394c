"""The tuned linear score, read off an agent's observation: what the network begins from."""

import math

import numpy as np
import torch
from torch import Tensor, nn

from sim.linear.features import AGE_SCALE, AGE_UNIT_S, DURATION_SCALE, HOUR_S
from sim.linear.forwarding import MOST_DIFFERENCE
from sim.linear.names import (
    AGE,
    BIAS,
    DURATION,
    F_BIAS,
    F_DURATION,
    F_FRAGMENTS,
    F_GANG,
    F_HOPS,
    F_LOAD_DIFFERENCE,
    F_PLACEABLE,
    F_PROLONGS,
    F_PUTS_OFF,
    F_START_DIFFERENCE,
    F_WAIT_DIFFERENCE,
    FORWARD_FEATURES,
    FRAGMENTS,
    GANG,
    HOLDS_UP,
    OCCUPANCY,
    OWN_SLOWDOWN,
    PRESSURE,
    PROLONGS,
    RELATIVE_AGE,
    SHARED,
    SHARED_X_PRESSURE,
    SPREAD,
    SPREAD_X_DURATION,
    SPREAD_X_OCCUPANCY,
    SPREAD_X_PRESSURE,
    START_FEATURES,
    VICTIMS_DELAY,
    WAIT_OVER_LOSS,
    WORST_VICTIM,
)

LEAST_DUE = 1e-3  # score of a start that must not be kept waiting: above *wait*, which has 0


class LinearPrior(nn.Module):
    """Scores of starts and forwards as `scheduler=linear_score` gives them; *wait* has 0.

    The weights are parameters, so training may move them. See `docs/linear_score.md` for the
    features; all of them are columns of the observation or follow from columns.

    Shapes:
        input: observation tensors (`Layout.shapes`) with a leading batch dimension
        output: starts (B, W, S, MODES), forwards (B, W, M)
    """

    def __init__(self) -> None:
        """All weights 0; `take` gives others."""
        super().__init__()
        self.start = nn.Parameter(torch.zeros(len(START_FEATURES)))
        self.forward_to = nn.Parameter(torch.zeros(len(FORWARD_FEATURES)))

    def take(self, start: np.ndarray, forward: np.ndarray) -> None:
        """Begin from weights in the order of `sim.linear.names`."""
        with torch.no_grad():
            self.start.copy_(torch.as_tensor(start))
            self.forward_to.copy_(torch.as_tensor(forward))

    def forward(self, observation: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Scores of all starts and forwards, legal or not."""
        jobs, context = observation["jobs"], observation["context"].unsqueeze(1)
        ln_left_s = jobs[..., 3] * 2.5 + 7.0
        known = {
            "duration": (ln_left_s - math.log(HOUR_S)) / DURATION_SCALE,
            "age_s": torch.expm1(jobs[..., 4] * 10.0),
            "left_s": ln_left_s.exp(),
            "gang": jobs[..., 1],
            "occupancy": 1.0 - context[..., 0],
            "pressure": context[..., 8],
        }
        return self._starts(observation, known), self._forwards(observation, known)

    def _starts(self, observation: dict[str, Tensor], known: dict[str, Tensor]) -> Tensor:
        w, pairs, jobs = self.start, observation["pairs"], observation["jobs"]
        pressure, occupancy, duration = known["pressure"], known["occupancy"], known["duration"]
        age = torch.log1p(known["age_s"] / AGE_UNIT_S) / AGE_SCALE
        relative = torch.log1p(known["age_s"] / known["left_s"]) / AGE_SCALE
        of_job = w[BIAS] + w[DURATION] * duration + w[AGE] * age + w[RELATIVE_AGE] * relative
        of_job = of_job + w[GANG] * known["gang"]
        of_job = of_job + w[OCCUPANCY] * occupancy + w[PRESSURE] * pressure  # (B, W)
        per_spread = w[SPREAD] + w[SPREAD_X_OCCUPANCY] * occupancy
        per_spread = per_spread + w[SPREAD_X_DURATION] * duration
        per_spread = per_spread + w[SPREAD_X_PRESSURE] * pressure
        of_sharing = w[SHARED] + w[SHARED_X_PRESSURE] * pressure  # (B, 1)
        spread = pairs[..., 1] + pairs[..., 2]  # (B, W, S, MODES)
        score = of_job[..., None, None] + per_spread[..., None, None] * spread
        score = score + w[OWN_SLOWDOWN] * pairs[..., 3] + w[WORST_VICTIM] * pairs[..., 4]
        score = score + w[VICTIMS_DELAY] * pairs[..., 5]
        score = score + w[FRAGMENTS] * pairs[..., 8] + w[WAIT_OVER_LOSS] * pairs[..., 10]
        score = score + w[PROLONGS] * pairs[..., 11] + w[HOLDS_UP] * pairs[..., 12]
        shared = torch.tensor([0.0, 1.0], device=score.device)
        score = score + of_sharing[..., None, None] * shared
        due = (jobs[..., 14, None, None] > 0) & (pairs[..., 9] > 0) & (shared == 0)
        return torch.where(due, score.clamp(min=LEAST_DUE), score)

    def _forwards(self, observation: dict[str, Tensor], known: dict[str, Tensor]) -> Tensor:
        w, rows = self.forward_to, observation["forwards"]
        of_job = w[F_BIAS] + w[F_DURATION] * known["duration"] + w[F_GANG] * known["gang"]
        difference = (-rows[..., 2]).clamp(-MOST_DIFFERENCE, MOST_DIFFERENCE)
        made, left = observation["jobs"][..., 6, None], rows[..., 5]
        hops = made / (made + left).clamp(min=1e-6)  # of those that a job may make; 0/0 at padding
        score = w[F_LOAD_DIFFERENCE] * difference + w[F_PLACEABLE] * rows[..., 1]
        score = score + w[F_HOPS] * hops
        score = score + w[F_WAIT_DIFFERENCE] * rows[..., 6]
        score = score + w[F_START_DIFFERENCE] * rows[..., 7]
        score = score + w[F_PROLONGS] * rows[..., 8] + w[F_FRAGMENTS] * rows[..., 9]
        score = score + w[F_PUTS_OFF] * rows[..., 10]
        return of_job.unsqueeze(-1) + score
