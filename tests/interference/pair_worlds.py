"""Rows of pairs made by a known law."""

import numpy as np

from interference.rows import CoRows, SoloProfiles, co_rows, solo_profiles
from sim.arrays import FloatArray, objects

PROFILES, TYPES = 9, 2
NAMES = tuple(f"M{i % 3}/{2**i}" for i in range(PROFILES))
KINDS = ("k", "v")
UTIL = np.linspace(0.1, 0.9, PROFILES)[:, None] * np.array([1.0, 0.7])  # (P, T)
MEMORY = 0.5 + 0.3 * np.cos(np.arange(PROFILES))


def solos_of_world(*, names: tuple[str, ...] = NAMES) -> SoloProfiles:
    """Step time and utilisations of every profile on both types."""
    cells = [(kind, row) for kind in range(TYPES) for row in range(PROFILES)]
    rows = np.array([row for _, row in cells])
    return solo_profiles(
        source="made",
        gpu_type=[KINDS[kind] for kind, _ in cells],
        profile=[names[row] for row in rows],
        model=[names[row].split("/")[0] for row in rows],
        batch=2**rows,
        step_s=np.array([0.1 + UTIL[row, kind] for kind, row in cells]),
        gpu_util=np.array([UTIL[row, kind] for kind, row in cells]),
        gmem_util=MEMORY[rows],
    )


def rows_of_world(norm: FloatArray) -> CoRows:
    """All cells of a (T, P, P) table [type, victim, aggressor]; (a, b) and (b, a) are one group."""
    kind, victim, aggressor = (index.ravel() for index in np.indices(norm.shape))
    low, high = np.minimum(victim, aggressor), np.maximum(victim, aggressor)
    names = objects(NAMES)
    return co_rows(
        source="made",
        gpu_type=objects(KINDS)[kind],
        group=(kind * PROFILES + low) * PROFILES + high,
        victim=names[victim],
        aggressors=[(name,) for name in names[aggressor]],
        norm_speed=norm.ravel().astype(np.float64),
    )


def additive_norm() -> FloatArray:
    """(T, P, P) exp of a victim's and an aggressor's term, at most 0.9."""
    rng = np.random.default_rng(0)
    victim, aggressor = rng.normal(0, 0.15, (2, TYPES, PROFILES))
    return np.minimum(np.exp(-0.7 + victim[:, :, None] + aggressor[:, None, :]), 0.9)


def smooth_norm() -> FloatArray:
    """(T, P, P) a bent function of both utilisations."""
    both = UTIL.T[:, :, None] + UTIL.T[:, None, :]
    return 1.0 - 0.5 * np.clip(both - 0.4, 0.0, None) ** 1.5 / (1.0 + both)
