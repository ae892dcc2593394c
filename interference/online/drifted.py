"""A truth that has moved away from what models were fitted on."""

from dataclasses import replace

import numpy as np

from sim.arrays import FloatArray
from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue
from sim.physics.pair_table import PairTable
from sim.protocols import InterferenceModel

DRIFTED = "drifted "  # begins the source of such a table


class DriftedInterference:
    """Another model's slow-downs with what co-location adds multiplied by seeded factors.

    slow-down = 1 + (slow-down before - 1) * exp(u_v + w_a), where on each GPU type every victim v
    and every aggressor a has a term: the sum of `steps` draws of N(0, sigma^2). As after an update
    of drivers or frameworks, by which some models come to suffer or to disturb more than before.
    With one more step the same factors move on; without any nothing has moved. What fits into
    memory stays.
    """

    def __init__(self, *, model: InterferenceModel, sigma: float, steps: int, seed: int) -> None:
        """Drift away from `model`.

        Raises:
            PhysicsError: `sigma` is below 0 or not finite, or `steps` below 0.
        """
        if not 0 <= sigma < float("inf"):
            raise PhysicsError(f"interference.sigma is {sigma!r}; it must be a number from 0")
        if steps < 0:
            raise PhysicsError(f"interference.steps is {steps!r}; it must be 0 or more")
        self._model, self._sigma, self._steps, self._seed = model, sigma, steps, seed

    def pair_table(self, catalogue: Catalogue) -> PairTable:
        """The drifted table over the catalogue."""
        table = self._model.pair_table(catalogue)
        if self._sigma == 0 or self._steps == 0:
            return table
        excess = (table.slowdown - 1.0) * np.exp(self._terms(table.slowdown.shape[:2]))
        return replace(table, slowdown=1.0 + excess, source=f"{DRIFTED}{table.source}")

    def _terms(self, shape: tuple[int, ...]) -> FloatArray:
        """(T, P, P) sum of the victim's and the aggressor's term."""
        draws = np.random.default_rng(self._seed).normal(size=(self._steps, 2, *shape))
        victim, aggressor = self._sigma * draws.sum(axis=0)
        terms: FloatArray = victim[:, :, None] + aggressor[:, None, :]
        return terms
