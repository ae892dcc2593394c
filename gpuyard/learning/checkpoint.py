"""A search on disk: arrays and a text, no pickle."""

import zipfile
from dataclasses import dataclass, fields
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from gpuyard.learning.form import Form
from gpuyard.learning.network_form import SPEC, NetworkForm
from gpuyard.learning.player import VectorForm
from gpuyard.learning.strategies import Climb
from sim.errors import GpuYardError
from sim.report.atomic import write_atomically

CHECKPOINT = "checkpoint.npz"
# What numpy raises of files that are cut off, empty, or something else.
UNREADABLE = (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile)


@dataclass(frozen=True)
class Point:
    """What the averaged weights were worth at a time of the search."""

    update: int
    minutes: float  # of learning, validation included
    runs: int  # windows played to learn, so far
    to_begin: float  # geometric mean over validation windows of mean JCT / that of the beginning
    to_reference: float


@dataclass(frozen=True, eq=False)
class Saved:
    """All that a search needs to go on."""

    setting: str  # what is played and learned: a checkpoint of another setting is refused
    climb: Climb
    form: VectorForm
    elapsed_s: float
    curve: tuple[Point, ...]


def save(saved: Saved, folder: Path) -> None:
    """Write the checkpoint of a folder, whole or not at all.

    Raises:
        OSError: it cannot be written, on a full disk for example; the former one is as it was.
    """
    climb, form = saved.climb, saved.form
    arrays = {each.name: np.asarray(getattr(climb, each.name)) for each in fields(Climb)}
    file = BytesIO()
    np.savez(
        file,
        **arrays,  # type: ignore[arg-type]
        setting=np.array(saved.setting),
        elapsed_s=np.array(saved.elapsed_s),
        **form.arrays(),
        curve=np.array([_row(point) for point in saved.curve]).reshape(-1, len(fields(Point))),
    )
    write_atomically(folder / CHECKPOINT, file.getvalue())


def load(folder: Path, setting: str) -> Saved:
    """The search whose checkpoint is in `folder`.

    Raises:
        GpuYardError: there is none, it cannot be read, or it belongs to another setting.
    """
    path = folder / CHECKPOINT
    try:
        with np.load(path, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
        saved = _saved(arrays)
    except FileNotFoundError:
        raise GpuYardError(f"{folder} holds no {CHECKPOINT}; give the folder of a run") from None
    except UNREADABLE as error:
        raise GpuYardError(f"{path} cannot be read: {error}") from error
    if saved.setting != setting:
        raise GpuYardError(f"{path} belongs to another setting; repeat the overrides of its run")
    return saved


def _saved(arrays: dict[str, Any]) -> Saved:
    values: dict[str, Any] = {each.name: arrays[each.name] for each in fields(Climb)}
    climb = Climb(**values | {name: int(values[name]) for name in ("seed", "update")})
    if not all(np.isfinite(each).all() for each in values.values()):
        raise ValueError("a number in it is not finite")
    form = (NetworkForm if SPEC in arrays else Form).of_arrays(arrays)
    curve = tuple(
        Point(int(row[0]), row[1], int(row[2]), row[3], row[4]) for row in arrays["curve"].tolist()
    )
    return Saved(str(arrays["setting"]), climb, form, float(arrays["elapsed_s"]), curve)


def _row(point: Point) -> list[float]:
    return [float(getattr(point, each.name)) for each in fields(Point)]
