"""Numbers that describe a directed row: solo step times, batches, models, GPU type."""

import numpy as np

from interference.dataset import ColocationRows
from sim.arrays import FloatArray, IntArray
from sim.physics.gavel_files import profile_key


def row_features(rows: ColocationRows) -> FloatArray:
    """(N, F) features of the victim, then of the aggressor, then the GPU type one-hot."""
    return np.hstack(
        [
            _of_role(rows, rows.victim),
            _of_role(rows, rows.aggressor),
            np.eye(len(rows.gpu_types))[rows.gpu_type],
        ]
    )


def log_solo(rows: ColocationRows, role: IntArray) -> FloatArray:
    """(N,) ln of the solo step time of `role` (victim or aggressor) on the row's GPU type.

    A profile that never ran on the type is taken as its average profile.
    """
    log_s = np.log(rows.solo_s)
    known = np.where(np.isnan(log_s), np.nanmean(log_s, axis=0), log_s)
    return np.asarray(known[role, rows.gpu_type])


def _of_role(rows: ColocationRows, role: IntArray) -> FloatArray:
    """(N, 1 + T + 2 + M): ln solo time; ln of other types' over it; batch, ln batch; model."""
    here = log_solo(rows, role)
    relative = np.log(rows.solo_s)[role] - here[:, None]
    keys = [profile_key(name) for name in rows.profiles]
    models = sorted({model for model, _ in keys})
    batch = np.array([float(batch) for _, batch in keys])
    one_hot = np.eye(len(models))[[models.index(model) for model, _ in keys]]
    return np.hstack(
        [
            here[:, None],
            np.nan_to_num(relative),  # unknown on another type: taken as equally fast
            batch[role, None],
            np.log1p(batch[role, None]),
            one_hot[role],
        ]
    )
