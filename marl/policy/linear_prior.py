"""The tuned linear score, read off an agent's observation: what the network begins from."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from sim.scoring.scores import AGE_SCALE, AGE_UNIT_S, DURATION_SCALE, LEAST_DUE, MOST_DIFFERENCE
from sim.scoring.table import (
    FORWARD_OF_ROW,
    START_OF_PAIR,
    SUSPEND_OF_ROW,
    Column,
    ForwardWeight,
    OfContext,
    OfForward,
    OfJob,
    OfPair,
    StartWeight,
    SuspendWeight,
)
from sim.scoring.weights import PARTS, Layer, ScoreWeights
from sim.times import HOUR_S

LAYERS = ("start_layer", "forward_layer", "suspend_layer")  # of a prior, and of its weights


class PriorLayer(nn.Module):
    """What a layer adds to a score (`sim.scoring.weights`): outer . tanh(inner z + bias).

    Shapes:
        input: features (..., F); output: (...)
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, features: int, units: int) -> None:
        """Adds 0 until `take` gives weights."""
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))
        self.inner = nn.Parameter(torch.zeros(units, features))
        self.bias = nn.Parameter(torch.zeros(units))
        self.outer = nn.Parameter(torch.zeros(units))

    def take(self, layer: Layer) -> None:
        """Begin from a layer of this size."""
        with torch.no_grad():
            for name in PARTS:
                getattr(self, name).copy_(torch.as_tensor(getattr(layer, name)))

    def forward(self, x: Tensor) -> Tensor:
        """What is added for each row of features."""
        z = (x - self.mean) / self.scale
        return torch.tanh(nn.functional.linear(z, self.inner, self.bias)) @ self.outer


class LinearPrior(nn.Module):
    """Scores of actions as `scheduler=linear_score` gives them; *wait* has 0.

    The weights are parameters, so training may move them. See `docs/policies/linear_score.md` for
    the features; all of them are columns of the observation or follow from columns.

    Shapes:
        input: observation tensors (`Layout.shapes`) with a leading batch dimension
        output: starts (B, W, S, MODES), forwards (B, W, M), suspensions (B, W, M) or None
    """

    def __init__(self, suspends: bool = False, units: Sequence[int] = (0, 0, 0)) -> None:
        """All weights 0; `take` gives others.

        Args:
            suspends: whether there are weights of suspensions.
            units: hidden units of the layers of starts, forwards and suspensions.
        """
        super().__init__()
        self.suspend = nn.Parameter(torch.zeros(len(SuspendWeight))) if suspends else None
        self.start = nn.Parameter(torch.zeros(len(StartWeight)))
        self.forward_to = nn.Parameter(torch.zeros(len(ForwardWeight)))
        features = (len(StartWeight), len(ForwardWeight), len(SuspendWeight))
        self.start_layer, self.forward_layer, self.suspend_layer = (
            PriorLayer(width, count) if count > 0 else None
            for width, count in zip(features, units, strict=True)
        )

    def take(self, weights: ScoreWeights) -> None:
        """Begin from the weights and layers of the linear score.

        Raises:
            ValueError: there are more or fewer than these have, or of suspensions where it scores
                none.
        """
        suspend = weights.suspend
        if (suspend is None) != (self.suspend is None):
            raise ValueError(
                "weights of suspensions are given and agents may not suspend (rules.suspends)"
                if self.suspend is None
                else "agents may suspend, but no weights of suspensions are given"
            )
        with torch.no_grad():
            if self.suspend is not None and suspend is not None:
                self.suspend.copy_(_checked(suspend, SuspendWeight))
            self.start.copy_(_checked(weights.start, StartWeight))
            self.forward_to.copy_(_checked(weights.forward, ForwardWeight))
        for name in LAYERS:
            own = getattr(self, name)
            if own is not None:
                own.take(getattr(weights, name))

    def forward(self, observation: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor | None]:
        """Scores of all starts, forwards and suspensions, legal or not."""
        jobs, context = observation["jobs"], observation["context"].unsqueeze(1)
        ln_left_s = jobs[..., OfJob.LEFT] * 2.5 + 7.0
        known = {
            "duration": (ln_left_s - math.log(HOUR_S)) / DURATION_SCALE,
            "age_s": torch.expm1(jobs[..., OfJob.AGE] * 10.0),
            "left_s": ln_left_s.exp(),
            "gang": jobs[..., OfJob.GANG],
            "occupancy": 1.0 - context[..., OfContext.EMPTY],
            "pressure": context[..., OfContext.PRESSURE],
        }
        suspensions = None if self.suspend is None else self._suspensions(observation, known)
        return self._starts(observation, known), self._forwards(observation, known), suspensions

    def _starts(self, observation: dict[str, Tensor], known: dict[str, Tensor]) -> Tensor:
        w, pairs, jobs = _named(self.start, StartWeight), observation["pairs"], observation["jobs"]
        pressure, occupancy, duration = known["pressure"], known["occupancy"], known["duration"]
        age = torch.log1p(known["age_s"] / AGE_UNIT_S) / AGE_SCALE
        relative = torch.log1p(known["age_s"] / known["left_s"]) / AGE_SCALE
        of_job = w["BIAS"] + w["DURATION"] * duration + w["AGE"] * age
        of_job = of_job + w["RELATIVE_AGE"] * relative + w["GANG"] * known["gang"]
        of_job = of_job + w["OCCUPANCY"] * occupancy + w["PRESSURE"] * pressure  # (B, W)
        per_spread = w["SPREAD"] + w["SPREAD_X_OCCUPANCY"] * occupancy
        per_spread = per_spread + w["SPREAD_X_DURATION"] * duration
        per_spread = per_spread + w["SPREAD_X_PRESSURE"] * pressure
        of_sharing = w["SHARED"] + w["SHARED_X_PRESSURE"] * pressure  # (B, 1)
        spread = pairs[..., OfPair.SPREAD] + pairs[..., OfPair.CONTENTION]  # (B, W, S, MODES)
        score = of_job[..., None, None] + per_spread[..., None, None] * spread
        for weight, column in START_OF_PAIR:
            score = score + w[weight.name] * pairs[..., column]
        shared = torch.tensor([0.0, 1.0], device=score.device)
        score = score + of_sharing[..., None, None] * shared
        if self.start_layer is not None:
            rows = [each[..., None, None] for each in (duration, age, relative, known["gang"])]
            home = [each[..., None, None] for each in (occupancy, pressure)]
            score = score + self.start_layer(_start_rows(pairs, spread, shared, rows, home))
        old, compact = jobs[..., OfJob.OLD, None, None] > 0, pairs[..., OfPair.COMPACT] > 0
        return torch.where(old & compact & (shared == 0), score.clamp(min=LEAST_DUE), score)

    def _forwards(self, observation: dict[str, Tensor], known: dict[str, Tensor]) -> Tensor:
        w, rows = _named(self.forward_to, ForwardWeight), observation["forwards"]
        of_job = w["BIAS"] + w["DURATION"] * known["duration"] + w["GANG"] * known["gang"]
        difference = -rows[..., OfForward.LOAD_DIFFERENCE]
        made, left = observation["jobs"][..., OfJob.FORWARDS, None], rows[..., OfForward.HOPS_LEFT]
        hops = made / (made + left).clamp(min=1e-6)  # of those that a job may make; 0/0 at padding
        score = w["LOAD_DIFFERENCE"] * difference.clamp(-MOST_DIFFERENCE, MOST_DIFFERENCE)
        for weight, column in FORWARD_OF_ROW:
            score = score + w[weight.name] * rows[..., column]
            # In the order of the weights, as the sums of shipped policies have always been.
            score = score + w["HOPS"] * hops if weight is ForwardWeight.PLACEABLE else score
        score = of_job.unsqueeze(-1) + score
        if self.forward_layer is not None:
            x: dict[Column, Tensor] = {
                ForwardWeight.BIAS: torch.ones_like(hops),
                ForwardWeight.LOAD_DIFFERENCE: difference.clamp(-MOST_DIFFERENCE, MOST_DIFFERENCE),
                ForwardWeight.DURATION: known["duration"].unsqueeze(-1),
                ForwardWeight.GANG: known["gang"].unsqueeze(-1),
                ForwardWeight.HOPS: hops,
                **{weight: rows[..., column] for weight, column in FORWARD_OF_ROW},
            }
            score = score + self.forward_layer(_stacked(x, ForwardWeight))
        return score

    def _suspensions(self, observation: dict[str, Tensor], known: dict[str, Tensor]) -> Tensor:
        assert self.suspend is not None
        rows = observation["suspensions"]
        x: dict[Column, Tensor] = {
            SuspendWeight.BIAS: torch.ones_like(rows[..., 0]),
            SuspendWeight.DURATION: known["duration"].unsqueeze(-1),
            SuspendWeight.AGE: (torch.log1p(known["age_s"] / AGE_UNIT_S) / AGE_SCALE).unsqueeze(-1),
            SuspendWeight.GANG: known["gang"].unsqueeze(-1),
            **{weight: rows[..., column] for weight, column in SUSPEND_OF_ROW},
        }
        score = torch.zeros_like(rows[..., 0])
        for weight in SuspendWeight:
            score = score + self.suspend[weight] * x[weight]
        layer = self.suspend_layer
        return score if layer is None else score + layer(_stacked(x, SuspendWeight))


def _start_rows(
    pairs: Tensor, spread: Tensor, shared: Tensor, of_job: Sequence[Tensor], home: Sequence[Tensor]
) -> Tensor:
    """(B, W, S, MODES, StartWeight) features of starts, in their order."""
    duration, age, relative, gang = of_job
    occupancy, pressure = home
    x: dict[Column, Tensor] = {
        StartWeight.BIAS: torch.ones_like(spread),
        StartWeight.SPREAD: spread,
        StartWeight.SPREAD_X_OCCUPANCY: spread * occupancy,
        StartWeight.SPREAD_X_DURATION: spread * duration,
        StartWeight.SPREAD_X_PRESSURE: spread * pressure,
        StartWeight.DURATION: duration,
        StartWeight.AGE: age,
        StartWeight.RELATIVE_AGE: relative,
        StartWeight.SHARED: shared,
        StartWeight.SHARED_X_PRESSURE: shared * pressure,
        StartWeight.GANG: gang,
        StartWeight.OCCUPANCY: occupancy,
        StartWeight.PRESSURE: pressure,
        **{weight: pairs[..., column] for weight, column in START_OF_PAIR},
    }
    return _stacked(x, StartWeight)


def _stacked(x: Mapping[Column, Tensor], group: type[Column]) -> Tensor:
    """(..., F) the features of a group in their order, each as large as the largest."""
    return torch.stack(torch.broadcast_tensors(*(x[each] for each in group)), -1)


def _named(weights: Tensor, group: type[Column]) -> dict[str, Tensor]:
    return {each.name: weights[each] for each in group}


def _checked(weights: np.ndarray, group: type[Column]) -> Tensor:
    """Weights, if there is one for each feature."""
    if np.shape(weights) != (len(group),):
        names = ", ".join(each.name.lower() for each in group)
        raise ValueError(f"weights of shape {np.shape(weights)}; it takes {len(group)}: {names}")
    return torch.as_tensor(weights)
