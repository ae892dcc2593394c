"""Predicted co-location: fitted models as a file, and as an `InterferenceModel` to be told.

The file holds predictions over its profiles in JSON, so loading runs no code.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from interference.models.encoding import LEAST_SPEED
from sim.arrays import BoolArray, FloatArray
from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue
from sim.physics.mix_table import PairTable

FORMAT = "gpuyard-interference-2"


@dataclass(frozen=True)
class SavedModel:
    """Predicted tables of several models over the same T GPU types and P profiles."""

    gpu_types: tuple[str, ...]
    profiles: tuple[str, ...]
    norm_speed: dict[str, FloatArray]  # model -> (T, P, P) [type, victim, aggressor]
    sd: dict[str, FloatArray]  # model -> (T, P, P) standard deviation of the expected error
    infeasible: BoolArray  # (T, P, P) symmetric
    source: str  # rows it was fitted on: "measured" or "generated"

    def pair_table(self, model: str, catalogue: Catalogue, *, caution: float = 0.0) -> PairTable:
        """The table of one model in the catalogue's order; PhysicsError for an unknown name.

        With `caution` above 0 every speed is told that many standard deviations lower.
        """
        types = self._index("GPU type", self.gpu_types, catalogue.gpu_types)
        names = self._index("profile", self.profiles, catalogue.names)
        at = np.ix_(types, names, names)
        speed = self.norm_speed[model][at] - caution * self.sd[model][at]
        return PairTable(
            slowdown=np.maximum(1.0, 1.0 / np.maximum(speed, LEAST_SPEED)),
            feasible=~self.infeasible[at],
            source=model,
        )

    @staticmethod
    def _index(what: str, known: tuple[str, ...], wanted: tuple[str, ...]) -> list[int]:
        for name in wanted:
            if name not in known:
                raise PhysicsError(
                    f"interference model: {what} {name!r} is not among {', '.join(known)}; fit one "
                    "on rows that hold it (gpuyard fit_interference) and set its path"
                )
        return [known.index(name) for name in wanted]


def save_model(model: SavedModel, path: Path) -> None:
    """Write JSON; speeds with three decimals, infeasible pairs once."""
    upper = np.triu(np.ones(model.infeasible.shape[1:], np.bool_))
    content = {
        "format": FORMAT,
        "source": model.source,
        "gpu_types": model.gpu_types,
        "profiles": model.profiles,
        "infeasible": np.argwhere(model.infeasible & upper).tolist(),
        "norm_speed": {name: np.round(t, 3).tolist() for name, t in model.norm_speed.items()},
        "sd": {name: np.round(t, 3).tolist() for name, t in model.sd.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")


def load_model(path: Path) -> SavedModel:
    """Read and check; PhysicsError names the file and what is wrong with it."""
    if not path.is_file():
        raise PhysicsError(
            f"{path}: no interference model; name one that gpuyard fit_interference wrote "
            f"(belief.model.path=FILE), or say belief=oracle, the physics itself, or belief=none"
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = content["format"]
        model = _parsed(content) if found == FORMAT else None
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise PhysicsError(f"{path}: not a whole model ({error!r}); fit it again") from error
    if model is None:
        raise PhysicsError(f"{path}: format is {found!r}; expected {FORMAT!r}; fit it again")
    for what, tables in (("norm_speed", model.norm_speed), ("sd", model.sd)):
        for name, table in tables.items():
            if table.shape != model.infeasible.shape or not np.all(table > 0):
                raise PhysicsError(f"{path}: {what}.{name}: wrong shape or a value of 0 or less")
    return model


def _parsed(content: dict[str, Any]) -> SavedModel:
    """The model in a JSON object; KeyError, TypeError, ValueError, IndexError where broken."""
    profiles = len(content["profiles"])
    infeasible = np.zeros((len(content["gpu_types"]), profiles, profiles), np.bool_)
    for gpu_type, a, b in content["infeasible"]:
        infeasible[gpu_type, a, b] = infeasible[gpu_type, b, a] = True
    return SavedModel(
        gpu_types=tuple(content["gpu_types"]),
        profiles=tuple(content["profiles"]),
        norm_speed={name: np.array(t, np.float64) for name, t in content["norm_speed"].items()},
        sd={name: np.array(content["sd"][name], np.float64) for name in content["norm_speed"]},
        infeasible=infeasible,
        source=content["source"],
    )


SHIPPED_DIR = Path(__file__).parent / "shipped"


@dataclass(frozen=True, kw_only=True)
class _SavedInterference:
    """Reads one model's table from a saved file."""

    model: ClassVar[str]  # a name in the file
    path: Path | str | None  # written by the fit; None: the shipped one of the catalogue's source
    caution: float = 0.0  # standard deviations by which speeds are told lower; 0: the mean

    def __post_init__(self) -> None:
        """Raise a PhysicsError if `caution` is negative."""
        if not 0.0 <= self.caution < float("inf"):
            raise PhysicsError(f"belief.model.caution is {self.caution}; give 0 or more")

    def pair_table(self, catalogue: Catalogue) -> PairTable:
        """Predicted table over the catalogue; PhysicsError for names the model never saw."""
        path = Path(self.path or SHIPPED_DIR / f"{catalogue.source}.json")
        saved = load_model(path)
        if self.model not in saved.norm_speed:
            names = ", ".join(saved.norm_speed)
            raise PhysicsError(f"{path}: no model {self.model!r}; it has {names}")
        return saved.pair_table(self.model, catalogue, caution=self.caution)


class LearnedInterference(_SavedInterference):
    """The blend of `interference.models.blend`."""

    model = "learned"


class LinearInterference(_SavedInterference):
    """Linear in what jobs use alone: what a simple published predictor knows."""

    model = "linear"
