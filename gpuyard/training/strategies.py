"""Antithetic evolution strategies: state in, state out, nothing is played; and on disk.

An update draws pairs of members, mean + sigma * noise and mean - sigma * noise. Both play the same
window, so that what the window does to both cancels; the difference of their ln mean JCT tells
along which noise to climb. Everything is drawn from (seed, update, pair), so a worker that has the
mean makes its members itself, and a search that goes on draws what it would have drawn.
"""

import json
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields, replace
from io import BytesIO
from pathlib import Path
from typing import Any, Self

import numpy as np

from gpuyard.training.form import SPEC, Form, NetworkForm, VectorForm
from marl.rllib.checkpoint import first_difference
from sim.arrays import FloatArray
from sim.errors import GpuYardError
from sim.files import write_atomically

LAST_SHARE = 0.2  # of the first step, at the end
DECAY_FIRST, DECAY_SECOND = 0.9, 0.99  # Adam's
EPSILON = 1e-8
CLIP = 2.0  # standard deviations of a difference: tails of JCT are heavy
# Iterate k weighs as k (k + 1) (k + 2) in the average, about k ** AVERAGE_POWER: the last third
# counts most, and the end need not be known beforehand.
AVERAGE_POWER = 3.0


@dataclass(frozen=True, eq=False)
class Climb:
    """A search over n numbers, after `update` updates."""

    seed: int
    update: int
    mean: FloatArray  # (n,)
    sigma: FloatArray  # (n,) how far members are from the mean; 0 keeps a number as it is
    first: FloatArray  # (n,) Adam's moments of the gradient
    second: FloatArray  # (n,)
    average: FloatArray  # (n,) of the means so far, the later the heavier


def begin(mean: FloatArray, sigma: FloatArray, seed: int) -> Climb:
    """A search that has not moved yet; ValueError: the lengths differ, or a sigma is below 0."""
    if mean.shape != sigma.shape or mean.ndim != 1:
        raise ValueError(f"mean has shape {mean.shape} and sigma {sigma.shape}; give one of each")
    if not np.all(sigma >= 0):
        raise ValueError(f"sigma has {sigma.min()}; it must be 0 or more")
    none = np.zeros_like(mean)
    return Climb(seed, 0, mean, sigma, first=none, second=none, average=mean)


def noise(climb: Climb, pair: int) -> FloatArray:
    """(n,) standard normal numbers of one pair (from 0) of the next update."""
    drawn: FloatArray = np.random.default_rng([climb.seed, climb.update, pair, 0]).standard_normal(
        len(climb.mean)
    )
    return drawn


def drawn_window(climb: Climb, pair: int, windows: int) -> int:
    """The window, from 0 to `windows` - 1, on which both members of a pair are held."""
    return int(np.random.default_rng([climb.seed, climb.update, pair, 1]).integers(windows))


def members(climb: Climb, pair: int) -> tuple[FloatArray, FloatArray]:
    """(n,) each: the mean with the pair's noise added and taken away."""
    away = climb.sigma * noise(climb, pair)
    return climb.mean + away, climb.mean - away


def gradient(climb: Climb, pairs: Sequence[int], differences: Sequence[float]) -> FloatArray:
    """(n,) the direction that lowers ln mean JCT, in units of sigma.

    Args:
        climb: before the update.
        pairs: numbers of the pairs, in any order.
        differences: of each, ln mean JCT of the second member - that of the first. Infinite: the
            run of one member failed, which counts as the clip; NaN: both did, which tells nothing.

    Raises:
        ValueError: a pair has no difference, or is there twice.
    """
    by_pair = dict(zip(pairs, differences, strict=True))
    if len(by_pair) != len(pairs):
        raise ValueError("a pair is there twice")
    ordered = sorted(by_pair)  # sums of floats depend on the order
    found = np.array([by_pair[pair] for pair in ordered])
    usual = found[np.isfinite(found)]
    spread = float(usual.std()) if len(usual) else 0.0
    if not spread > 0:  # one pair, or all alike: only the signs say something
        spread = float(np.abs(usual).max(initial=0.0)) or 1.0
    rewards = np.where(np.isnan(found), 0.0, np.clip(found / spread, -CLIP, CLIP))
    total = np.zeros_like(climb.mean)
    for pair, reward in zip(ordered, rewards.tolist(), strict=True):
        total += reward * noise(climb, pair)
    return total / len(ordered)


def step_at(progress: float, first: float) -> float:
    """Length of a step in units of sigma, from `first` down while `progress` goes from 0 to 1."""
    return first + (LAST_SHARE * first - first) * min(max(progress, 0.0), 1.0)


def ascend(climb: Climb, along: FloatArray, step: float) -> Climb:
    """The search after one step of Adam along a gradient, in units of sigma."""
    count = climb.update + 1
    first = DECAY_FIRST * climb.first + (1 - DECAY_FIRST) * along
    second = DECAY_SECOND * climb.second + (1 - DECAY_SECOND) * along**2
    rate = np.sqrt(second / (1 - DECAY_SECOND**count)) + EPSILON
    mean = climb.mean + climb.sigma * step * first / (1 - DECAY_FIRST**count) / rate
    return moved(replace(climb, first=first, second=second), mean)


def moved(climb: Climb, mean: FloatArray) -> Climb:
    """The search one update later, at another mean, which joins the average."""
    count = climb.update + 1
    weight = (AVERAGE_POWER + 1) / (count + AVERAGE_POWER)
    average = climb.average + weight * (mean - climb.average)
    return replace(climb, update=count, mean=mean, average=average)


CHECKPOINT = "checkpoint.npz"
ANEW = "resume=FOLDER of another learning, or resume=null to begin anew"
# What numpy raises of files that are cut off, empty, or something else.
UNREADABLE = (OSError, EOFError, ValueError, LookupError, TypeError, zipfile.BadZipFile)


@dataclass(frozen=True)
class Point:
    """What the averaged weights were worth at a time of the search."""

    update: int
    minutes: float  # of learning, validation included
    runs: int  # windows played to learn, so far
    to_begin: float  # geometric mean over validation windows of mean JCT / that of the beginning
    to_reference: float

    @classmethod
    def of(cls, values: Iterable[float | str]) -> Self:
        """From numbers, or texts of numbers, in the order of the fields."""
        update, minutes, runs, *ratios = values
        return cls(int(update), float(minutes), int(runs), *map(float, ratios))


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
        curve=np.array([astuple(point) for point in saved.curve]).reshape(-1, len(fields(Point))),
    )
    write_atomically(folder / CHECKPOINT, file.getvalue())


def load(folder: Path, setting: str) -> Saved:
    """The search whose checkpoint is in `folder`; GpuYardError: none to be read, or another."""
    path = folder / CHECKPOINT
    try:
        with np.load(path, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
        saved = _saved(arrays)
    except FileNotFoundError:
        raise GpuYardError(f"{folder} holds no {CHECKPOINT}; {ANEW}") from None
    except UNREADABLE as error:
        raise GpuYardError(f"{path} cannot be read: {error}; {ANEW}") from error
    other = _difference(saved.setting, setting)
    if other is not None:
        raise GpuYardError(
            f"{path} belongs to another setting: {other}; repeat the overrides of its run"
        )
    return saved


def _saved(arrays: dict[str, Any]) -> Saved:
    values: dict[str, Any] = {each.name: arrays[each.name] for each in fields(Climb)}
    climb = Climb(**values | {name: int(values[name]) for name in ("seed", "update")})
    elapsed_s = float(arrays["elapsed_s"])
    if not all(np.isfinite(each).all() for each in (*values.values(), elapsed_s)):
        raise ValueError("a number in it is not finite")
    if min(climb.seed, climb.update, elapsed_s) < 0:
        raise ValueError("its seed, update or elapsed_s is below 0")
    form = (NetworkForm if SPEC in arrays else Form).of_arrays(arrays)
    form.player(climb.mean)  # raises if it has another length
    if len({each.shape for each in values.values() if each.ndim}) != 1:
        raise ValueError("its vectors differ in length")
    curve = tuple(map(Point.of, arrays["curve"].tolist()))
    return Saved(str(arrays["setting"]), climb, form, elapsed_s, curve)


def _difference(before: str, now: str) -> str | None:
    """`KEY was A, is B` for the first key in which two settings differ."""
    try:
        was, asked = json.loads(before), json.loads(now)
    except ValueError:  # no settings of ours
        return None if before == now else f"it was {before!r}, is {now!r}"
    if "algo" in asked:  # a search of before one of its keys was kept says nothing of it
        was["algo"] = asked["algo"] | was.get("algo", {})
    return first_difference(was, asked)
