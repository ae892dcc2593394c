"""Rows as tensors for a deep set, and what each member of it never meets."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from interference.models.encoding import Encoded, RowEncoder
from sim.arrays import BoolArray, IntArray, Rows
from sim.errors import PhysicsError

SIDES = ("victim", "aggressor")


@dataclass(frozen=True)
class Size:
    """How many there are of what is learned of; the index after the last stands for unknown."""

    features: int
    profiles: int
    models: int
    types: int

    @classmethod
    def of(cls, encoder: RowEncoder) -> "Size":
        """Of the fitted rows."""
        named = (encoder.feature_names, encoder.profiles, encoder.models, encoder.gpu_types)
        return cls(*map(len, named))


@dataclass(frozen=True)
class Hiding:
    """What training conceals, so that jobs and devices never met get sensible values.

    A job whose model is hidden has no profile either, and its features are blurred: they are all
    that tells it from other jobs, and few jobs were measured.
    """

    model: float  # chance, a job
    profile: float  # chance, a job; at least `model`
    gpu_type: float  # chance, a row
    blur: float  # standard deviation added to standardised features


@dataclass(frozen=True)
class Tenants(Rows):
    """Rows with up to A aggressors and F features a job: (N, ...), or (K, B, ...) a member."""

    victim: Tensor  # (..., F)
    aggressors: Tensor  # (..., A, F)
    present: Tensor  # (..., A) 1 where there is an aggressor
    share: Tensor  # (..., 1)
    gpu_type: Tensor  # (...) indices, as all below
    victim_profile: Tensor  # (...)
    victim_model: Tensor  # (...)
    aggressor_profile: Tensor  # (..., A)
    aggressor_model: Tensor  # (..., A)

    @classmethod
    def of(cls, encoded: Encoded, size: Size) -> "Tenants":
        """Single precision; unknown is the index after the last."""
        return cls(
            victim=_single(encoded.victim),
            aggressors=_single(encoded.aggressors),
            present=_single(encoded.present),
            share=_single(encoded.share[:, None]),
            gpu_type=_index(encoded.gpu_type, size.types),
            victim_profile=_index(encoded.victim_profile, size.profiles),
            victim_model=_index(encoded.victim_model, size.models),
            aggressor_profile=_index(encoded.aggressor_profile, size.profiles),
            aggressor_model=_index(encoded.aggressor_model, size.models),
        )

    def forget(self, models: Tensor, size: Size) -> "Tenants":
        """Take (K, B) rows as one does who never met the models marked in `models`, (K, M + 1)."""
        parts = {}
        for side in SIDES:
            model, profile = getattr(self, f"{side}_model"), getattr(self, f"{side}_profile")
            member = torch.arange(len(models)).view(-1, *[1] * (model.dim() - 1))
            forgotten = models[member, model]
            parts[f"{side}_model"] = model.masked_fill(forgotten, size.models)
            parts[f"{side}_profile"] = profile.masked_fill(forgotten, size.profiles)
        return replace(self, **parts)

    def hide(self, hiding: Hiding, size: Size, generator: torch.Generator) -> "Tenants":
        """Conceal names, GPU types and features at random."""
        parts = {}
        for side, features in zip(SIDES, ("victim", "aggressors"), strict=True):
            model, profile = getattr(self, f"{side}_model"), getattr(self, f"{side}_profile")
            draw = torch.rand(model.shape, generator=generator)
            model = model.masked_fill(draw < hiding.model, size.models)
            parts[f"{side}_model"] = model
            parts[f"{side}_profile"] = profile.masked_fill(draw < hiding.profile, size.profiles)
            exact = getattr(self, features)
            blur = hiding.blur * torch.randn(exact.shape, generator=generator)
            parts[features] = exact + blur * (model == size.models)[..., None]
        draw = torch.rand(self.gpu_type.shape, generator=generator)
        parts["gpu_type"] = self.gpu_type.masked_fill(draw < hiding.gpu_type, size.types)
        return replace(self, **parts)


def _single(values: np.ndarray) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float32)


def _index(numbers: IntArray, kinds: int) -> Tensor:
    return torch.as_tensor(np.where(numbers < 0, kinds, numbers))


FOLDS, TIMES = 5, 2  # divisions of the mixes, each into folds: every row is left out TIMES times
GROUPS = 5  # of models
LEAST_PART = 0.1  # of the rows, that a member must keep


@dataclass(frozen=True)
class Division:
    """K members over N rows of M models."""

    outside: BoolArray  # (K, N) rows that a member does not learn speeds from
    forgotten: BoolArray  # (K, M + 1) models that it never meets; none is unknown, the last
    for_new: BoolArray  # (K,) members that forget models: they tell how wrong one is of such


def division(mix: IntArray, encoded: Encoded, models: int, rng: np.random.Generator) -> Division:
    """Members by mixes, whole mixes each, then members by groups of models where there are some.

    `mix` (N,) is equal where the same jobs ran together.

    Raises:
        PhysicsError: if the rows are of one mix.
    """
    mixes = int(mix.max()) + 1
    if mixes < 2:  # noqa: PLR2004  (one to learn from, one to judge by)
        raise PhysicsError(
            "the rows are of 1 mix of jobs; a deep set needs 2 or more: add rows, or leave it out, "
            "as models=[linear,learned] does"
        )
    folds = min(FOLDS, mixes)
    dealt = [rng.permutation(mixes)[mix] % folds for _ in range(TIMES)]
    outside = [fold == number for fold in dealt for number in range(folds)]
    forgotten = [np.zeros(models + 1, dtype=np.bool_)] * len(outside)
    for marks in _groups(models, rng):
        with_them = _with_models(encoded, marks)
        if with_them.any() and (~with_them).mean() >= LEAST_PART:
            outside.append(with_them)
            forgotten.append(marks)
    for_new = np.arange(len(outside)) >= TIMES * folds
    return Division(np.stack(outside), np.stack(forgotten), for_new)


def _groups(models: int, rng: np.random.Generator) -> list[BoolArray]:
    groups = min(GROUPS, models)
    dealt = np.append(rng.permutation(models) % groups, groups)  # the last, unknown, is in none
    return [dealt == number for number in range(groups)]


def _with_models(encoded: Encoded, marks: BoolArray) -> BoolArray:
    """(N,) rows in which a marked model takes part; an UNKNOWN index, -1, reads the last mark."""
    others = marks[encoded.aggressor_model] & (encoded.present > 0.0)
    return np.asarray(marks[encoded.victim_model] | others.any(axis=1))
