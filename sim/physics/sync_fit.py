"""Exposed gradient bytes of a profile, fitted to how much slower it ran when spread.

The measured ratio is speed spread / speed on one server, geometric mean over 2, 4 and 8 GPUs,
clipped to [0.3, 1]. The model of that ratio is the alpha-beta ring without latency on the links
below, one GPU a server when spread. One number of bytes a profile, the same for all GPU types,
minimises the weighted squared error of the ln ratio over the types; a search over a grid, since
there is one unknown. The links are an assumption (the source does not state them): only the
ratio bytes / bandwidth is identified.
"""

import numpy as np

from sim.arrays import FloatArray
from sim.physics.ring import ring_share, transfer_s

FIT_NIC_GBPS = 10.0
FIT_INTRA_GBPS = 100.0
GANGS = (2, 4, 8)
LEAST_RATIO = 0.3
TYPE_WEIGHT = {"p100": 3.0, "v100": 1.0}  # V100 figures mix machines; the K80 shows no cost
_GRID_BYTES = np.concatenate([[0.0], np.geomspace(1e3, 1e10, 7001)])  # steps of 0.23 %


def spread_ratio(compute_s: FloatArray, sync_bytes: FloatArray) -> FloatArray:
    """Modelled spread / consolidated speed, geometric mean over `GANGS`; shapes broadcast."""
    log_ratio = np.zeros(np.broadcast(compute_s, sync_bytes).shape)
    for gang in GANGS:
        share = ring_share(np.asarray(float(gang)))
        local_s = share * transfer_s(sync_bytes, FIT_INTRA_GBPS)
        spread_s = share * transfer_s(sync_bytes, FIT_NIC_GBPS)
        log_ratio += np.log((compute_s + local_s) / (compute_s + spread_s))
    return np.asarray(np.exp(log_ratio / len(GANGS)))


def fit_sync_bytes(*, compute_s: FloatArray, ratio: FloatArray, weight: FloatArray) -> FloatArray:
    """(P,) bytes that reproduce the measured ratios best.

    Args:
        compute_s: (P, T) seconds a step on one GPU.
        ratio: (P, T) measured ratio; NaN where there is none.
        weight: (T,) weight of each GPU type; 0 leaves it out.

    Profiles without any ratio get the median of the others.
    """
    target = np.log(np.clip(ratio, LEAST_RATIO, 1.0))  # (P, T)
    used = np.isfinite(target) & (weight > 0)[None, :]
    fitted = np.full(len(compute_s), np.nan)
    for row in np.flatnonzero(used.any(axis=1)):
        types = used[row]
        model = np.log(spread_ratio(compute_s[row, types][None, :], _GRID_BYTES[:, None]))
        error = ((model - target[row, types]) ** 2 * weight[types]).sum(axis=1)
        fitted[row] = _GRID_BYTES[int(error.argmin())]
    return np.where(np.isnan(fitted), np.nanmedian(fitted), fitted)
