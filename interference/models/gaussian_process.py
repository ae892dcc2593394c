"""A Gaussian process over rows (Rasmussen and Williams 2006, chapters 2 and 5).

Its covariance (`kernel`) does not depend on the order of aggressors, and its uncertainty grows
with the distance from what was measured. The parameters maximise the marginal likelihood with a
prior, so no held-out rows are spent on them.
"""

import numpy as np
import torch
from torch import Tensor

from interference.models.encoding import Encoded, RowEncoder
from interference.models.kernel import PRIOR_WIDTH, START, Likeness
from interference.models.protocol import Prediction, prediction
from interference.models.scaling import TypeScale
from interference.rows import CoRows, SoloProfiles
from sim.arrays import FloatArray
from sim.errors import PhysicsError

TUNING_ROWS = 500  # parameters are chosen on a draw: cost grows with the cube
MOST_ROWS = 6000  # 290 MB a matrix
STEPS = 15  # of L-BFGS
BLOCK = 200
JITTER = 1e-6


class GaussianProcessModel:
    """Exact inference on all rows; costs seconds at a thousand rows."""

    name = "gaussian_process"

    def __init__(self, *, seed: int) -> None:
        """Set the seed of the draw on which parameters are chosen."""
        self._seed = seed

    def fit(self, rows: CoRows, solos: SoloProfiles) -> None:
        """Choose parameters, then condition on the rows."""
        if len(rows) > MOST_ROWS:
            raise PhysicsError(f"{len(rows)} rows are too many for a process; fit {MOST_ROWS}")
        self._encoder = RowEncoder(rows, solos)
        self._fitted = self._encoder.encode(rows, solos)
        kinds = self._fitted.gpu_type
        self._scale = TypeScale(kinds, rows.norm_speed, len(self._encoder.gpu_types))
        target = torch.as_tensor(self._scale.scaled(kinds, rows.norm_speed))
        draw = np.random.default_rng(self._seed).permutation(len(rows))[:TUNING_ROWS]
        self._ln = _tuned(self._fitted.take(draw), target[torch.as_tensor(draw)])
        with torch.no_grad():
            likeness = Likeness(self._fitted, self._fitted)
            self._root = _root(likeness.covariance(self._ln), self._ln["noise"])
            self._weights = torch.cholesky_solve(target[:, None], self._root)[:, 0]

    def predict(self, rows: CoRows, solos: SoloProfiles) -> Prediction:
        """Posterior mean and standard deviation of a new measurement."""
        encoded = self._encoder.encode(rows, solos)
        mean, sd = np.zeros(len(rows)), np.zeros(len(rows))
        for first in range(0, len(rows), BLOCK):
            block = np.arange(first, min(first + BLOCK, len(rows)))
            mean[block], sd[block] = self._posterior(encoded.take(block))
        kinds = encoded.gpu_type
        return prediction(self._scale.speed(kinds, mean), self._scale.spread(kinds, sd))

    def _posterior(self, encoded: Encoded) -> tuple[FloatArray, FloatArray]:
        with torch.no_grad():
            cross = Likeness(encoded, self._fitted).covariance(self._ln)
            own = torch.diagonal(Likeness(encoded, encoded).covariance(self._ln))
            explained = torch.linalg.solve_triangular(self._root, cross.T, upper=False)
            variance = own - explained.square().sum(dim=0) + self._ln["noise"].exp()
            return (cross @ self._weights).numpy(), variance.clamp(min=JITTER).sqrt().numpy()


def _tuned(encoded: Encoded, target: Tensor) -> dict[str, Tensor]:
    """Parameters of the largest posterior density, found by L-BFGS."""
    likeness = Likeness(encoded, encoded)
    ln = {
        name: torch.tensor(v, dtype=torch.float64, requires_grad=True) for name, v in START.items()
    }
    search = torch.optim.LBFGS(
        ln.values(), max_iter=STEPS, line_search_fn="strong_wolfe", tolerance_change=1e-4
    )

    def loss() -> Tensor:
        search.zero_grad()
        value = _negative_log_density(likeness, ln, target)
        value.backward()
        return value

    search.step(loss)
    return {name: value.detach() for name, value in ln.items()}


def _negative_log_density(likeness: Likeness, ln: dict[str, Tensor], target: Tensor) -> Tensor:
    root = _root(likeness.covariance(ln), ln["noise"])
    whitened = torch.linalg.solve_triangular(root, target[:, None], upper=False)
    fit = 0.5 * whitened.square().sum() + torch.log(torch.diagonal(root)).sum()
    away = torch.stack([(ln[name] - start) / PRIOR_WIDTH for name, start in START.items()])
    return fit + 0.5 * away.square().sum()


def _root(covariance: Tensor, ln_noise: Tensor) -> Tensor:
    noise = (ln_noise.exp() + JITTER) * torch.eye(len(covariance), dtype=torch.float64)
    return torch.linalg.cholesky(covariance + noise)
