"""Profiles whose numbers the configuration states, for models that nobody measured here."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue


@dataclass(frozen=True, kw_only=True)
class StatedModel:
    """One model: what an iteration computes and exchanges."""

    step_s: float  # an iteration of one worker alone, without communication
    gradient_bytes: float  # of the whole model, that compute does not hide

    def __post_init__(self) -> None:
        """Check ranges; PhysicsError names the key, the value and the rule."""
        if not 0.0 < self.step_s < np.inf:
            raise PhysicsError(f"profiles step_s is {self.step_s}; it must be above 0")
        if not 0.0 <= self.gradient_bytes < np.inf:
            raise PhysicsError(
                f"profiles gradient_bytes is {self.gradient_bytes}; it must be 0 or more"
            )


class StatedProfiles(Catalogue):
    """One profile a model, equally fast on every GPU type, all of them fit for gangs."""

    def __init__(self, *, gpu_types: list[str], models: Mapping[str, StatedModel]) -> None:
        """`models`: name, as `Catalogue.names`, -> numbers.

        Raises:
            PhysicsError: there is no model or no GPU type.
        """
        if not gpu_types or not models:
            raise PhysicsError("profiles state no gpu_types or no models; name at least one each")
        steps_s = np.array([[model.step_s] for model in models.values()], dtype=np.float64)
        super().__init__(
            names=tuple(models),
            gpu_types=tuple(gpu_types),
            compute_s=np.repeat(steps_s, len(gpu_types), axis=1),
            sync_bytes=np.array(
                [model.gradient_bytes for model in models.values()], dtype=np.float64
            ),
            gang_ok=np.ones(len(models), dtype=np.bool_),
            source="stated",
        )
