"""Random streams of one window, independent of each other and of every other window."""

from dataclasses import dataclass

import numpy as np

from sim.errors import TraceError, nearest

ALL = "all"  # the part that is everything
PARTS = {"train": 0, "validation": 1, "test": 2, ALL: 4}  # first entry of the parts' spawn keys
WHOLE = 3  # that of whole traces
STRETCHES = 5  # that of stretches, whatever the part


@dataclass(frozen=True)
class Streams:
    """One generator a purpose, so that a change of one draw leaves the others as they were."""

    jobs: np.random.Generator  # which jobs, or the generated jobs themselves
    profiles: np.random.Generator
    homes: np.random.Generator
    estimates: np.random.Generator


def whole_streams(*, seed: int) -> Streams:
    """The streams of a whole trace, shared with no window; TraceError if the seed is negative."""
    return _streams(seed, WHOLE, 0)


def window_streams(*, seed: int, part: str, index: int) -> Streams:
    """The streams of window `index` of `part`; equal arguments give equal streams.

    Raises:
        TraceError: if the part is unknown, or seed or index is negative.
    """
    return _streams(seed, _number(part), index)


def stretch_stream(*, seed: int, part: str, stretch: int) -> np.random.Generator:
    """Deals the jobs of one stretch of `part` to its windows; equal for all of these.

    Raises:
        TraceError: if the part is unknown, or seed or stretch is negative.
    """
    return np.random.default_rng(_root(seed, STRETCHES, _number(part), stretch))


def _number(part: str) -> int:
    if part not in PARTS:
        raise TraceError(
            f"part '{part}' is unknown{nearest(part, PARTS)}; parts: {', '.join(PARTS)}"
        )
    return PARTS[part]


def _streams(seed: int, kind: int, index: int) -> Streams:
    root = _root(seed, kind, index)
    jobs, profiles, homes, estimates = map(np.random.default_rng, root.spawn(4))
    return Streams(jobs, profiles, homes, estimates)


def _root(seed: int, *key: int) -> np.random.SeedSequence:
    for name, value in (("seed", seed), ("window", key[-1])):
        if value < 0:
            raise TraceError(f"{name} is {value}; it must be 0 or more")
    return np.random.SeedSequence(entropy=seed, spawn_key=key)
