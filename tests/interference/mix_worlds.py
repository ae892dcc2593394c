"""Mixes of jobs made by a known law."""

from collections.abc import Callable, Sequence

import numpy as np

from interference.rows import CoRows, SoloProfiles, co_rows, solo_profiles

KIND, SOURCE = "a", "made"
UTIL = {f"{model}/{batch}": util for (model, batch), util in zip(
    [(m, b) for m in ("ant", "bee", "cow", "dog") for b in (1, 2, 4)],
    np.linspace(0.05, 0.6, 12).tolist(), strict=True,
)}  # fmt: skip
NAMES = tuple(UTIL)
Law = Callable[[str, tuple[str, ...], float], float]  # victim, aggressors, share -> speed


def solos_of_mixes(*, kinds: Sequence[str] = (KIND,), source: str = SOURCE) -> SoloProfiles:
    """Step time and utilisation of every profile on every GPU type."""
    cells = [(kind, name) for kind in kinds for name in NAMES]
    return solo_profiles(
        source=source,
        gpu_type=[kind for kind, _ in cells],
        profile=[name for _, name in cells],
        model=[name.split("/")[0] for _, name in cells],
        batch=np.array([int(name.split("/")[1]) for _, name in cells]),
        step_s=np.array([0.1 + UTIL[name] for _, name in cells]),
        gpu_util=np.array([UTIL[name] for _, name in cells]),
    )


def rows_of_mixes(
    mixes: Sequence[Sequence[str]],
    law: Law,
    *,
    kind: str = KIND,
    source: str = SOURCE,
    shares: Sequence[float] = (1.0,),
    relative_to: str = "solo",
) -> CoRows:
    """A row for every job of every mix at every share, in this order; each mix is a group."""
    told = [
        (group, jobs[at], tuple(sorted((*jobs[:at], *jobs[at + 1 :]))), share)
        for group, jobs in enumerate(tuple(mix) for mix in mixes)
        for at in range(len(jobs))
        for share in shares
    ]
    return co_rows(
        source=source,
        gpu_type=kind,
        group=np.array([row[0] for row in told], dtype=np.int64),
        victim=[row[1] for row in told],
        aggressors=[row[2] for row in told],
        share=np.array([row[3] for row in told], dtype=np.float64),
        norm_speed=np.array([law(*row[1:]) for row in told], dtype=np.float64),
        relative_to=relative_to,
    )


def drawn(rng: np.random.Generator, count: int, *, most: int) -> list[tuple[str, ...]]:
    """Mixes of 1 to `most` jobs."""
    sizes = rng.integers(1, most + 1, count)
    return [tuple(rng.choice(NAMES, size).tolist()) for size in sizes]


def crowded(victim: str, others: tuple[str, ...], _: float) -> float:
    """Slow-down of 1 + the sum of products of utilisations, as if by a memory bus."""
    return 1.0 / (1.0 + sum(2.0 * UTIL[victim] * UTIL[name] + 0.2 * UTIL[name] for name in others))
