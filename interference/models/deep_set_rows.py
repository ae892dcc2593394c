"""Rows as tensors for a deep set, and the ways in which it is kept from knowing too much."""

from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from interference.models.encoding import Encoded, RowEncoder
from sim.arrays import IntArray

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
        return cls(
            len(encoder.feature_names),
            len(encoder.profiles),
            len(encoder.models),
            len(encoder.gpu_types),
        )


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
class Tenants:
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

    def __len__(self) -> int:
        """N, or K."""
        return len(self.share)

    def take(self, index: Tensor) -> "Tenants":
        """The rows of `index`, (B,) or (K, B)."""
        names = [field.name for field in fields(self)]
        return replace(self, **{name: getattr(self, name)[index] for name in names})

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
