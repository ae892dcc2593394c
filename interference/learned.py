"""Predicted co-location as an `InterferenceModel`: what schedulers may be told."""

from pathlib import Path

from interference.saved_model import load_model
from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue
from sim.physics.pair_table import PairTable

SHIPPED_DIR = Path(__file__).parent / "shipped"


class _SavedInterference:
    """Reads one model's table from a saved file."""

    model: str  # a name in the file

    def __init__(self, *, path: Path | str | None, caution: float = 0.0) -> None:
        """Take what to read and how to tell it.

        Args:
            path: a file written by the fit; None: the shipped file for the catalogue's source.
            caution: standard deviations by which speeds are told lower; 0: the mean.

        Raises:
            PhysicsError: if `caution` is negative.
        """
        if not 0.0 <= caution < float("inf"):
            raise PhysicsError(f"belief.model.caution is {caution}; give 0 or more")
        self._path = None if path is None else Path(path)
        self._caution = caution

    def pair_table(self, catalogue: Catalogue) -> PairTable:
        """Predicted table over the catalogue; PhysicsError for names the model never saw."""
        path = self._path or SHIPPED_DIR / f"{catalogue.source}.json"
        saved = load_model(path)
        if self.model not in saved.norm_speed:
            names = ", ".join(saved.norm_speed)
            raise PhysicsError(f"{path}: no model {self.model!r}; it has {names}")
        return saved.pair_table(self.model, catalogue, caution=self._caution)


class LearnedInterference(_SavedInterference):
    """The blend of `interference.models.blend`."""

    model = "learned"


class LinearInterference(_SavedInterference):
    """Linear in what jobs use alone: what a simple published predictor knows."""

    model = "linear"
