"""Co-location without slow-down, or that of models like those nobody measured together."""

import re
from collections.abc import Iterable, Mapping

import numpy as np

from sim.arrays import IntArray
from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue
from sim.physics.pair_table import PairTable
from sim.protocols import InterferenceModel


class NoInterference:
    """Every pair fits and runs at full speed."""

    def pair_table(self, catalogue: Catalogue) -> PairTable:
        """All ones, feasible everywhere, source "none"."""
        shape = (len(catalogue.gpu_types), len(catalogue.names), len(catalogue.names))
        return PairTable(slowdown=np.ones(shape), feasible=np.ones(shape, np.bool_), source="none")


class StandIns:
    """Treats every model of a catalogue as a profile of another one, on the same GPU type."""

    def __init__(
        self, *, model: InterferenceModel, profiles: Catalogue, names: Mapping[str, str]
    ) -> None:
        """Take the pairs of `model` over `profiles`.

        Args:
            model: knows the pairs of `profiles`.
            profiles: the catalogue with the stand-ins.
            names: model (what stands before the first blank or slash of a profile's name) -> the
                name of its stand-in.
        """
        self._model, self._profiles, self._names = model, profiles, dict(names)

    def pair_table(self, catalogue: Catalogue) -> PairTable:
        """The stand-ins' slow-downs in the catalogue's order.

        Raises:
            PhysicsError: a model has no stand-in, or the stand-ins' catalogue lacks it or the type.
        """
        table = self._model.pair_table(self._profiles)
        rows = self._found("profile", self._profiles.names, map(self._stand_in, catalogue.names))
        types = self._found("GPU type", self._profiles.gpu_types, catalogue.gpu_types)
        at = np.ix_(types, rows, rows)
        return PairTable(
            slowdown=table.slowdown[at], feasible=table.feasible[at], source=table.source
        )

    def _stand_in(self, name: str) -> str:
        model = re.split("[ /]", name)[0]
        if model not in self._names:
            raise PhysicsError(
                f"interference: model {model!r} has no stand-in; add it to names, beside "
                f"{', '.join(self._names)}"
            )
        return self._names[model]

    @staticmethod
    def _found(what: str, known: tuple[str, ...], wanted: Iterable[str]) -> IntArray:
        places = []
        for name in wanted:
            if name not in known:
                raise PhysicsError(
                    f"interference: {what} {name!r} is not among those of the stand-ins: "
                    f"{', '.join(known)}"
                )
            places.append(known.index(name))
        return np.array(places, dtype=np.int64)
