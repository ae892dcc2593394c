"""Predicted co-location as an `InterferenceModel`: what schedulers may be told."""

from pathlib import Path

from interference.saved_model import load_model
from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue
from sim.physics.pair_table import PairTable

SHIPPED_DIR = Path(__file__).parent / "shipped"


class _SavedInterference:
    """Reads one model's table from a saved file."""

    model: str  # a name in the file, or "learned" for the best on held-out pairs

    def __init__(self, *, path: Path | str | None) -> None:
        """Take a file written by the fit; None: the shipped file for the catalogue's source."""
        self._path = None if path is None else Path(path)

    def pair_table(self, catalogue: Catalogue) -> PairTable:
        """Predicted table over the catalogue; PhysicsError for names the model never saw."""
        path = self._path or SHIPPED_DIR / f"{catalogue.source}.json"
        saved = load_model(path)
        model = saved.learned if self.model == "learned" else self.model
        if model not in saved.norm_speed:
            raise PhysicsError(f"{path}: no model {model!r}; it has {', '.join(saved.norm_speed)}")
        return saved.pair_table(model, catalogue)


class LearnedInterference(_SavedInterference):
    """The model that was best on held-out pairs."""

    model = "learned"


class LinearInterference(_SavedInterference):
    """Linear in solo step times: what a simple published predictor knows."""

    model = "linear"


class AdditiveInterference(_SavedInterference):
    """Additive victim and aggressor terms."""

    model = "additive"
