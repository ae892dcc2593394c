"""A deep set over the tenants of a GPU, with spreads that are calibrated on rows left out.

The speed is the mean of an ensemble (Lakshminarayanan et al. 2017). The spread, that of the members
and between them, is multiplied so that 90 % of the fitted rows lie inside their interval, each
judged by the members that left its mix out: locally weighted conformal prediction (Lei et al. 2018,
5.2) over folds (Vovk 2015). Rows with a new model or GPU type have a factor, and members, of their
own (conformal prediction by category, Vovk et al. 2005): these never met some of the models, and
are judged on the rows of those. The rows left out also stop the training and teach the spread, and
folds are not one split: coverage is measured (docs/results/interference_models.md), not guaranteed.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from interference.models.deep_set_calibration import conformal_factor, pooled
from interference.models.deep_set_folds import division
from interference.models.deep_set_rows import Hiding, Size, Tenants
from interference.models.deep_set_training import Plan, trained
from interference.models.encoding import UNKNOWN, Encoded, RowEncoder
from interference.models.protocol import Prediction, prediction
from interference.models.scaling import TypeScale
from interference.rows import CoRows, SoloProfiles, mix_numbers
from sim.arrays import BoolArray, FloatArray

BLOCK = 1000  # rows a pass
MANY_ROWS = 8000  # from which on batches are larger
HIDING = Hiding(model=0.1, profile=0.2, gpu_type=0.05, blur=0.3)


class DeepSetModel:
    """Ten members by mixes, up to five by models."""

    name = "deep_set"

    def __init__(self, *, seed: int, steps: int = 1000) -> None:
        """Set the seed of folds, weights and batches, and the steps of training."""
        self._seed, self._steps = seed, steps

    def fit(self, rows: CoRows, solos: SoloProfiles) -> None:
        """Train the members, then set the factors."""
        self._encoder = RowEncoder(rows, solos)
        encoded = self._encoder.encode(rows, solos)
        size = self._size = Size.of(self._encoder)
        self._scale = TypeScale(encoded.gpu_type, rows.norm_speed, size.types)
        target = self._scale.scaled(encoded.gpu_type, rows.norm_speed)
        rng = np.random.default_rng(self._seed)
        parts = division(mix_numbers(rows), encoded, size.models, rng)
        tenants = Tenants.of(encoded, size)
        single = torch.as_tensor(target, dtype=torch.float32)
        with _one_thread():
            self._net = trained(
                tenants, single, parts, size, _plan(len(rows), self._steps), self._seed
            )
            mean, sd = self._asked(tenants, torch.as_tensor(parts.forgotten))
        self._of_known = ~parts.for_new
        self._of_new = parts.for_new if parts.for_new.any() else self._of_known
        self._factor_known, self._factor_new = (
            conformal_factor(target, mean[those], sd[those], parts.outside[those])
            for those in (self._of_known, self._of_new)
        )

    def predict(self, rows: CoRows, solos: SoloProfiles) -> Prediction:
        """Mean of the members; the spread is theirs and that between them, calibrated."""
        encoded = self._encoder.encode(rows, solos)
        none = torch.zeros(len(self._of_known), self._size.models + 1, dtype=torch.bool)
        with _one_thread():
            mean, sd = self._asked(Tenants.of(encoded, self._size), none)
        known, sd_known = pooled(mean[self._of_known], sd[self._of_known])
        _, sd_new = pooled(mean[self._of_new], sd[self._of_new])
        new = ~_familiar(encoded)
        speed = np.where(new, mean.mean(axis=0), known)
        spread = np.where(new, self._factor_new * sd_new, self._factor_known * sd_known)
        kinds = encoded.gpu_type
        return prediction(self._scale.speed(kinds, speed), self._scale.spread(kinds, spread))

    def _asked(self, rows: Tenants, forgotten: torch.Tensor) -> tuple[FloatArray, FloatArray]:
        """(K, N) mean and spread that each member tells."""
        means, spreads = [], []
        with torch.no_grad():
            for block in torch.arange(len(rows)).split(BLOCK):
                each = rows.take(block.expand(len(forgotten), -1))
                mean, ln_sd = self._net(each.forget(forgotten, self._size))
                means.append(mean.double())
                spreads.append(ln_sd.double().exp())
        return torch.cat(means, dim=1).numpy(), torch.cat(spreads, dim=1).numpy()


def _plan(rows: int, steps: int) -> Plan:
    """Of the sizes tried on Gavel's and Lucid's held-out pairs."""
    batch = 128 if rows < MANY_ROWS else 384
    return Plan(
        width=16,
        hidden=48,
        steps=steps,
        batch=batch,
        spread_batch=batch // 2,
        rate=0.01,
        decay=0.05,
        hiding=HIDING,
        looks=25,
        look_rows=1000,
    )


def _familiar(encoded: Encoded) -> BoolArray:
    """(N,) True where every model and the GPU type were fitted."""
    return np.asarray((encoded.known() > 0.0) & (encoded.gpu_type != UNKNOWN))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Small nets: more threads wait for each other; sums also depend on how many there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
