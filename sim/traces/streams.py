"""Random streams of one window: independent of each other and of every other window."""

from dataclasses import dataclass

import numpy as np

from sim.errors import TraceError
from sim.traces.column_map import nearest

PARTS = {"train": 0, "validation": 1, "test": 2}  # first entry of the parts' spawn keys
WHOLE = 3  # that of whole traces


@dataclass(frozen=True)
class Streams:
    """One generator a purpose, so that a change of one draw leaves the others as they were."""

    jobs: np.random.Generator  # which jobs, or the generated jobs themselves
    profiles: np.random.Generator
    homes: np.random.Generator
    estimates: np.random.Generator


def whole_streams(*, seed: int) -> Streams:
    """The streams of a whole trace, shared with no window.

    Raises:
        TraceError: if the seed is negative.
    """
    return _streams(seed, WHOLE, 0)


def window_streams(*, seed: int, part: str, index: int) -> Streams:
    """The streams of window `index` of `part`; equal arguments give equal streams.

    Raises:
        TraceError: if the part is unknown, or seed or index is negative.
    """
    if part not in PARTS:
        raise TraceError(
            f"part '{part}' is unknown{nearest(part, PARTS)}; parts: {', '.join(PARTS)}"
        )
    return _streams(seed, PARTS[part], index)


def _streams(seed: int, kind: int, index: int) -> Streams:
    if seed < 0 or index < 0:
        raise TraceError(f"seed is {seed} and window index is {index}; both must be 0 or more")
    root = np.random.SeedSequence(entropy=seed, spawn_key=(kind, index))
    jobs, profiles, homes, estimates = map(np.random.default_rng, root.spawn(4))
    return Streams(jobs, profiles, homes, estimates)
