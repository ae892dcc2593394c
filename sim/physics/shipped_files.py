"""Profiles and co-location that come with the package, and stand-ins by likeness.

They hold coefficients of Gavel's measurements (MIT licence), and pairs drawn from summary
statistics of them, which `python -m interference.make_shipped` writes:

    step time:   base_s + per_sample_s * batch, by GPU type and model
    sync bytes:  max(0, base + per_doubling * log2(batch)), by model
    pairs:       ln(norm) = constant + victim + aggressor terms + seeded residual, by GPU type

and of MISO's on the A100 (`a100_*.csv`, `interference.make_shipped`, docs/clusters.md):

    co-location: time of a victim = 1 + sensitivity of the victim * sum of its neighbours' loads
"""

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue, host_needs
from sim.physics.mix_table import PairTable
from sim.protocols import InterferenceModel

SHIPPED_DIR = Path(__file__).parent / "shipped"


def profile_key(name: str) -> tuple[str, int]:
    """Sort key of a profile name: model, then batch as a number."""
    model, _, batch = name.rpartition("/")
    return model, int(batch)


def shipped_rows(name: str) -> list[dict[str, str]]:
    """Rows of one shipped csv file as text by column."""
    path = SHIPPED_DIR / name
    if not path.is_file():
        raise PhysicsError(f"{path}: file of the package is missing; reinstall gpuyard")
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


class ShippedProfiles(Catalogue):
    """The shipped profiles, computed from the fitted coefficients."""

    def __init__(self) -> None:
        """Read `steps.csv` and `models.csv`."""
        models = shipped_rows("models.csv")
        steps = {(row["gpu_type"], row["model"]): row for row in shipped_rows("steps.csv")}
        gpu_types = tuple(dict.fromkeys(gpu_type for gpu_type, _ in steps))
        batches = [(row, int(batch)) for row in models for batch in row["batches"].split()]
        names = tuple(f"{row['model']}/{batch}" for row, batch in batches)
        super().__init__(
            names=names,
            gpu_types=gpu_types,
            compute_s=np.array(
                [
                    [_step_s(steps[gpu_type, row["model"]], batch) for gpu_type in gpu_types]
                    for row, batch in batches
                ]
            ),
            sync_bytes=np.array([_sync_bytes(row, batch) for row, batch in batches]),
            gang_ok=np.array([row["gang_ok"] == "1" for row, _ in batches]),
            source="shipped",
            host=host_needs(names),
        )


class ShippedInterference:
    """The shipped generated pairs."""

    def pair_table(self, catalogue: Catalogue) -> PairTable:
        """Slow-downs over the catalogue; PhysicsError for a pair that is not shipped."""
        pairs = {
            (row["gpu_type"], row["victim"], row["aggressor"]): row
            for row in shipped_rows("pairs.csv")
        }
        shape = (len(catalogue.gpu_types), len(catalogue.names), len(catalogue.names))
        norm, feasible = np.empty(shape), np.empty(shape, np.bool_)
        for at in np.ndindex(*shape):
            key = (catalogue.gpu_types[at[0]], catalogue.names[at[1]], catalogue.names[at[2]])
            if key not in pairs:
                raise PhysicsError(
                    f"no shipped pair of {key[1]!r} beside {key[2]!r} on {key[0]!r}; use "
                    "profiles=shipped or profiles=measured, whose names and types are shipped, or "
                    "interference=none belief=none"
                )
            norm[at] = float(pairs[key]["norm_speed"])
            feasible[at] = pairs[key]["feasible"] == "1"
        return PairTable(slowdown=np.maximum(1.0, 1.0 / norm), feasible=feasible, source="shipped")


def _step_s(row: dict[str, str], batch: int) -> float:
    """Seconds a step of `batch` samples."""
    return float(row["base_s"]) + float(row["per_sample_s"]) * batch


def _sync_bytes(row: dict[str, str], batch: int) -> float:
    """Exposed gradient bytes of a step of `batch` samples."""
    slope = float(row["sync_bytes_per_doubling"])
    return max(0.0, float(row["sync_base_bytes"]) + slope * float(np.log2(batch)))


A100 = "a100"
# MISO ran other models; each of ours is taken for the one most like it, at the nearest batch size.
MISO_MODEL = {
    "LM": "deepspeech2",  # both recurrent
    "Recommendation": "embedding",
    "ResNet-18": "mobilenet",  # both light convolutional networks on small images
    "ResNet-50": "resnet",
    "Transformer": "transformer",
}


def covers(catalogue: Catalogue) -> bool:
    """Whether all profiles are of the models that the fits are for."""
    return all("/" in name and name.rpartition("/")[0] in MISO_MODEL for name in catalogue.names)


def a100_slowdown(names: tuple[str, ...]) -> FloatArray:
    """(P, P) slow-down [victim, aggressor] of a pair on one GPU."""
    found = {(row["model"], int(row["batch"])): row for row in shipped_rows("a100_mixes.csv")}
    rows = [found[_miso_profile(name, list(found))] for name in names]
    sensitivity = np.array([float(row["sensitivity"]) for row in rows])
    load = np.array([float(row["load"]) for row in rows])
    slowdown: FloatArray = 1.0 + sensitivity[:, None] * load[None, :]
    return slowdown


def a100_pairs_note() -> str:
    """What its co-location is fitted to."""
    error = {row["fit"]: float(row["mean_error"]) for row in shipped_rows("a100_errors.csv")}
    return (
        f"{A100}: co-location fitted to MISO's mixes of seven jobs (mean error "
        f"{error['mixes']:.1%}, of pairs {error['pairs']:.1%}), each model taken for the one there "
        "most like it"
    )


def _miso_profile(name: str, known: list[tuple[str, int]]) -> tuple[str, int]:
    model, batch = profile_key(name)
    batches = [size for each, size in known if each == MISO_MODEL[model]]
    ratio = np.abs(np.log2(np.array(batches) / batch))
    return MISO_MODEL[model], batches[int(np.argmin(ratio))]


class NoInterference:
    """Every pair fits and runs at full speed."""

    assumed = "neighbours on a GPU slow nobody"

    def pair_table(self, catalogue: Catalogue) -> PairTable:
        """All ones, feasible everywhere, source "none"."""
        shape = (len(catalogue.gpu_types), len(catalogue.names), len(catalogue.names))
        return PairTable(slowdown=np.ones(shape), feasible=np.ones(shape, np.bool_), source="none")


@dataclass(frozen=True, kw_only=True)
class StandIns:
    """Treats every model of a catalogue as a profile of another one, on the same GPU type."""

    model: InterferenceModel  # knows the pairs of `profiles`
    profiles: Catalogue  # with the stand-ins
    # What stands before the first blank or slash of a profile's name -> name of its stand-in.
    names: Mapping[str, str]

    def pair_table(self, catalogue: Catalogue) -> PairTable:
        """The stand-ins' slow-downs in the catalogue's order; PhysicsError where one is missing."""
        table = self.model.pair_table(self.profiles)
        rows = self._found("profile", self.profiles.names, map(self._stand_in, catalogue.names))
        types = self._found("GPU type", self.profiles.gpu_types, catalogue.gpu_types)
        at = np.ix_(types, rows, rows)
        return PairTable(
            slowdown=table.slowdown[at], feasible=table.feasible[at], source=table.source
        )

    def _stand_in(self, name: str) -> str:
        model = re.split("[ /]", name)[0]
        if model not in self.names:
            raise PhysicsError(
                f"interference: model {model!r} has no stand-in; add it to names, beside "
                f"{', '.join(self.names)}"
            )
        return self.names[model]

    @staticmethod
    def _found(what: str, known: tuple[str, ...], wanted: Iterable[str]) -> IntArray:
        places = []
        for name in wanted:
            if name not in known:
                raise PhysicsError(
                    f"interference: {what} {name!r} is not among those of the stand-ins: "
                    f"{', '.join(known)}"
                )
            places.append(known.index(name))
        return np.array(places, dtype=np.int64)
