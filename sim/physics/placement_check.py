"""Predicted against measured step times on placements that the fit has not seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.errors import PhysicsError
from sim.physics.placement_costs import Costs, Placement, cost_columns
from sim.physics.placement_fit import StepFit, fit_steps
from sim.physics.placement_rows import MeasuredStep


@dataclass(frozen=True)
class Prediction:
    """One held-out row and what a network model made of it."""

    step: MeasuredStep
    model: str
    split: str
    predicted_s: float
    alone_s: float  # measured on the smallest placement at the same batch; NaN where it is not
    num_bytes: float  # fitted, of its application


@dataclass(frozen=True)
class Split:
    """One division of placements: those held out of a fit."""

    name: str
    held_out: frozenset[Placement]


def fold_splits(steps: Sequence[MeasuredStep], folds: int, rng: np.random.Generator) -> list[Split]:
    """`folds` divisions in which every placement but the smallest is held out once."""
    placements = sorted({step.placement for step in steps}, key=lambda p: (sum(p), len(p), p))
    order = rng.permutation(len(placements) - 1) + 1
    return [
        Split("folds", frozenset(placements[k] for k in order[fold::folds]))
        for fold in range(min(folds, len(order)))
    ]


def scale_up_split(steps: Sequence[MeasuredStep], most_gpus: int) -> Split:
    """Fit on gangs up to `most_gpus`, predict the larger ones."""
    larger = {step.placement for step in steps if sum(step.placement) > most_gpus}
    return Split("scale_up", frozenset(larger))


def check_split(
    steps: Sequence[MeasuredStep], split: Split, models: Mapping[str, Sequence[Costs]]
) -> list[Prediction]:
    """Predictions of the held-out rows of one source and GPU type.

    Args:
        steps: rows of all its applications.
        split: what is held out.
        models: by name; of several costs (candidates for one machine constant), the one that fits
            the other rows of all applications best is used.
    """
    if not steps:
        raise PhysicsError("no measured step to check; is the file empty?")
    apps = [[s for s in steps if s.app == app] for app in sorted({s.app for s in steps})]
    found = []
    for name, candidates in models.items():
        tried = [[_Group(app, costs, split) for app in apps] for costs in candidates]
        best = min(tried, key=lambda groups: sum(group.training_error for group in groups))
        found += [each for group in best for each in group.predictions(name, split.name)]
    return found


class _Group:
    """One application on one GPU type: fitted on what is not held out."""

    def __init__(self, steps: list[MeasuredStep], costs: Costs, split: Split) -> None:
        self._steps = steps
        self._batch, self._alone_s = _batches(steps)
        self._held: BoolArray = np.array([step.placement in split.held_out for step in steps])
        self._step_s = np.array([step.step_s for step in steps])
        latency_s, s_per_byte = cost_columns(costs, [step.placement for step in steps])
        self._fit: StepFit | None = None
        self.training_error = 0.0
        self._predicted_s: FloatArray = np.full(len(steps), np.nan)
        if not self._held.all():
            self._fit = fit_steps(
                batch=self._batch,
                step_s=self._step_s,
                latency_s=latency_s,
                s_per_byte=s_per_byte,
                used=~self._held,
            )
            self._predicted_s = self._fit.predict(self._batch, latency_s, s_per_byte)
            error = (self._predicted_s / self._step_s - 1.0)[~self._held]
            self.training_error = float(np.mean(error**2))

    def predictions(self, model: str, split: str) -> list[Prediction]:
        """The held-out rows whose batch was fitted."""
        if self._fit is None:
            return []
        return [
            Prediction(
                step=self._steps[row],
                model=model,
                split=split,
                predicted_s=float(self._predicted_s[row]),
                alone_s=float(self._alone_s[row]),
                num_bytes=self._fit.num_bytes,
            )
            for row in np.flatnonzero(self._held & np.isfinite(self._predicted_s))
        ]


def _batches(steps: list[MeasuredStep]) -> tuple[IntArray, FloatArray]:
    """(N,) number of each row's batch, and (N,) step on the smallest placement at that batch."""
    number = {batch: k for k, batch in enumerate(sorted({step.batch for step in steps}))}
    smallest = min((step.placement for step in steps), key=lambda p: (sum(p), len(p), p))
    alone = {step.batch: step.step_s for step in steps if step.placement == smallest}
    batch = np.array([number[step.batch] for step in steps], dtype=np.int64)
    return batch, np.array([alone.get(step.batch, np.nan) for step in steps])
