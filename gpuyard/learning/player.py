"""Who plays windows: what a vector stands for, or a rival of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sim.arrays import FloatArray
from sim.jobs import JobTable
from sim.metrics.job_times import mean_jct_s
from sim.scoring.linear_score import LinearScore, unlogged
from sim.scoring.weights import ScoreWeights
from sim.simulator import Simulator


class Field(Protocol):
    """What windows are played on."""

    @property
    def scheduler(self) -> LinearScore:
        """What plays linear scores, with other weights each time."""

    def window(self, part: str, index: int) -> JobTable:
        """One window of a part of the workload."""

    def simulator(self, part: str, index: int, jobs: JobTable) -> Simulator:
        """The jobs of window `index` of a part on its cluster, at time 0."""


class Player(Protocol):
    """Plays whole windows; it is sent to workers."""

    def jct_s(self, field: Field, simulator: Simulator) -> float:
        """Mean JCT of the measured jobs of a fresh simulator of the field.

        Raises:
            SimulationError: jobs wait for ever.
            InvalidDecision: a rule was broken.
        """


class VectorForm(Protocol):
    """How a vector is read: all that a search knows of what it learns."""

    def player(self, vector: FloatArray) -> Player:
        """Who plays as the vector says.

        Raises:
            ValueError: it has another length.
        """

    def arrays(self) -> Mapping[str, Any]:
        """Name -> array, for files; none holds objects."""


@dataclass(frozen=True, eq=False)
class ScorePlayer:
    """A linear score; its layer, if any, included."""

    weights: ScoreWeights

    def jct_s(self, field: Field, simulator: Simulator) -> float:
        """As `Player.jct_s`."""
        return mean_jct_s(unlogged(simulator, field.scheduler.weighing(self.weights)))
