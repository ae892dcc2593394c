"""Which pattern the jobs of which profile follow: rules that make a `Traffic` of a catalogue."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue
from sim.physics.traffic import MIX, PARAMETER_SERVER, RING, Traffic

PATTERNS = {"ring": RING, "parameter_server": PARAMETER_SERVER, "mix": MIX}


class TrafficRule(Protocol):
    """States what each profile sends."""

    def traffic(self, catalogue: Catalogue) -> Traffic:
        """Rows in the catalogue's order."""


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """One pattern; its sizes are multiples of a profile's exposed gradient bytes."""

    pattern: str  # ring, parameter_server or mix
    ps_count: int  # shards of a parameter server
    stages: int  # of a mix
    tensor_width: int  # of a mix
    activation_frac: float  # bytes over a stage boundary / gradient bytes
    tensor_frac: float  # bytes all-reduced by tensor groups / gradient bytes

    def __post_init__(self) -> None:
        """Check names and ranges; PhysicsError names the key, the value and the rule."""
        if self.pattern not in PATTERNS:
            raise PhysicsError(
                f"network traffic pattern is {self.pattern!r}; use one of {', '.join(PATTERNS)}"
            )
        for key in ("ps_count", "stages", "tensor_width"):
            if getattr(self, key) < 1:
                raise PhysicsError(
                    f"network traffic {key} is {getattr(self, key)}; it must be at least 1"
                )
        for key in ("activation_frac", "tensor_frac"):
            value = getattr(self, key)
            if not 0.0 <= value < np.inf:
                raise PhysicsError(f"network traffic {key} is {value}; it must be 0 or more")

    def traffic(self, catalogue: Catalogue) -> Traffic:
        """The same pattern for every profile."""
        return PatternByModel(default=self, models={}).traffic(catalogue)


@dataclass(frozen=True, kw_only=True)
class PatternByModel:
    """A pattern for some models, another for the rest."""

    default: Pattern
    models: Mapping[str, Pattern]  # by profile name, or by model: what stands before the "/"

    def traffic(self, catalogue: Catalogue) -> Traffic:
        """Rows in the catalogue's order; PhysicsError for a model that the catalogue lacks."""
        known = {name.partition("/")[0] for name in catalogue.names} | set(catalogue.names)
        for name in self.models:
            if name not in known:
                raise PhysicsError(
                    f"network traffic names model {name!r}, which the profiles lack; "
                    f"use one of {', '.join(sorted(known))}"
                )
        chosen = [
            self.models.get(name, self.models.get(name.partition("/")[0], self.default))
            for name in catalogue.names
        ]
        grad_bytes = np.ascontiguousarray(catalogue.sync_bytes, dtype=np.float64)
        return Traffic(
            pattern=np.array([PATTERNS[rule.pattern] for rule in chosen], dtype=np.int64),
            grad_bytes=grad_bytes,
            ps_count=np.array([rule.ps_count for rule in chosen], dtype=np.int64),
            stages=np.array([rule.stages for rule in chosen], dtype=np.int64),
            tensor_width=np.array([rule.tensor_width for rule in chosen], dtype=np.int64),
            activation_bytes=grad_bytes * [rule.activation_frac for rule in chosen],
            tensor_bytes=grad_bytes * [rule.tensor_frac for rule in chosen],
        )
