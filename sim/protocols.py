"""The roles that other parts fill; whoever consumes a thing declares its interface here.

Also how a run is driven whose whole loop is compiled: events and decisions without Python between.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.decision import Decision
from sim.engine.occupancy import Occupancy
from sim.kernel.layout import State
from sim.kernel.step import FULL, PAUSE
from sim.physics.catalogue import Catalogue
from sim.physics.laws import NetworkTables
from sim.physics.link_network import LinkNetwork
from sim.physics.mix_table import PairTable
from sim.topology.topology import Topology
from sim.traces.trace import Trace
from sim.view import ClusterView, Signal, Slots, ViewMaker


class Scheduler(Protocol):
    """Decides at every decision epoch; values in, values out."""

    @property
    def name(self) -> str:
        """The whole composition, unique: like `sjf+consolidated+selective1.2+steal`."""

    @property
    def needs(self) -> Signal:
        """Signals the view must grant."""

    def reset(self, seed: int) -> None:
        """Forget everything; equal seeds give equal decisions on equal views."""

    def decide(self, view: ClusterView) -> Decision:
        """Orders for this instant; `WAIT` to let time pass."""


class Placer(Protocol):
    """Chooses GPUs for one gang among usable slots.

    Of a job that asks for part of a GPU these are the ones with least left over, empty ones where
    no other has room; with `chooses_parts = True` all with room for the part.
    """

    @property
    def name(self) -> str:
        """Short name used in compositions."""

    @property
    def needs(self) -> Signal:
        """Signals the view must grant."""

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """`gang` distinct usable GPUs, or None if the job should wait."""


@runtime_checkable
class PatientPlacer(Placer, Protocol):
    """A placer that judges the job (`slots.job`), its profile or its patience, not its gang alone.

    What it refuses one job it may give to the next of that gang.
    """

    def wake_s(self, view: ClusterView, job: int) -> float | None:
        """When the answer for a waiting job may change though nothing happens; None: never."""


class Sharing(Protocol):
    """Decides which GPUs a placer is offered for one job: empty, shared, in what order."""

    @property
    def name(self) -> str:
        """Short name used in compositions."""

    @property
    def shares(self) -> bool:
        """Whether a job may ever join another on a GPU that both ask for whole."""

    @property
    def needs(self) -> Signal:
        """Signals the view must grant."""

    def place(
        self,
        view: ClusterView,
        occupancy: Occupancy,
        job: int,
        placer: Placer,
        rng: np.random.Generator,
    ) -> IntArray | None:
        """GPUs for `job` under this rule, or None if it should wait."""


@dataclass(frozen=True)
class Loads:
    """What one job meets in each partition, jobs routed earlier in this instant included."""

    wanted: IntArray  # (M,) GPUs that its waiting and running jobs want
    capacity: IntArray  # (M,) GPUs it has; 0 where the job does not fit even if all are empty

    def moved(self, gang: int, source: int, target: int) -> "Loads":
        """The loads once `gang` GPUs' worth of work has changed partition."""
        wanted = self.wanted.copy()
        wanted[source] -= gang
        wanted[target] += gang
        return Loads(wanted=wanted, capacity=self.capacity)


class Forwarding(Protocol):
    """Routes a job when it arrives, and says whether partitions with room take others' jobs."""

    @property
    def name(self) -> str:
        """Short name used in compositions."""

    @property
    def steals(self) -> bool:
        """Whether a partition with room after its own queue takes waiting jobs of others."""

    def route(
        self, gang: int, home: int, fits_at_home: bool, loads: Loads, rng: np.random.Generator
    ) -> int:
        """Partition for a job that arrives at `home`; `home` itself means: keep it."""


class InterferenceModel(Protocol):
    """Predicts or states co-location slow-downs over the catalogue."""

    def pair_table(self, catalogue: Catalogue) -> PairTable:
        """Table over the catalogue's GPU types and profiles."""


class NetworkModel(Protocol):
    """States communication times over the catalogue and a topology."""

    def tables(self, catalogue: Catalogue, topology: Topology) -> NetworkTables:
        """Tables the kernel reads; with `links`, what schedulers are told instead."""

    def links(self, catalogue: Catalogue, topology: Topology) -> LinkNetwork | None:
        """Links that jobs share; None where the tables are all there is."""


class DurationEstimator(Protocol):
    """Predicts durations from what is known at submission."""

    @property
    def information(self) -> str:
        """`none`, `limit`, `predicted` or `oracle`."""

    def estimate(self, trace: Trace, rng: np.random.Generator) -> FloatArray:
        """(J,) predicted duration_s; NaN where there is no prediction."""


@runtime_checkable
class HistoryEstimator(DurationEstimator, Protocol):
    """An estimator that learns from finished jobs, those outside the window too."""

    def estimate_rows(self, trace: Trace, rows: IntArray, rng: np.random.Generator) -> FloatArray:
        """(K,) predicted duration_s of the jobs at `rows` (K,), ascending, of `trace`.

        `trace` is as read, neither thinned nor capped, on its own clock. A job's prediction may
        depend on those whose `known_s` is before its submission, on no other.
        """


Fault = tuple[int, int, int]  # verdict of `sim.kernel.step`, job, GPU or partition
EVERY = 1000  # decisions between two looks at what Python wants (progress, Ctrl-C), at most
LOOK_S = 0.5  # and about so long


class Loop(Protocol):
    """One run, at its beginning or on its way."""

    @property
    def decisions(self) -> int:
        """Made so far."""

    @property
    def fault(self) -> Fault:
        """Why a decision was refused; read after ILLEGAL alone."""

    def play(self, until_decision: int) -> int:
        """Run on; OVER, STUCK, FULL (flush the log), PAUSE or ILLEGAL (`sim.kernel.step`)."""


@runtime_checkable
class Looping(Protocol):
    """A scheduler that can play a whole run in a loop of its own: the decisions of `decide`."""

    def why_python(self) -> str:
        """Why it cannot as it is; empty if it can."""

    def loop(self, state: State, views: ViewMaker) -> Loop:
        """The loop for a run that begins; `views` grants the scheduler's `needs`."""


@runtime_checkable
class Acting(Protocol):
    """A scheduler that carries out what it decides: nothing passes through Python between."""

    def act(self, views: ViewMaker) -> tuple[list[Decision], bool]:
        """The next decisions of `decide` at this instant, and whether the last was carried out.

        Those before it were. Call it with a flushed log.
        """


def drive(loop: Loop, flush: Callable[[], None], tell: Callable[[], None]) -> int:
    """Play until nothing happens any more: OVER, STUCK or ILLEGAL.

    Args:
        loop: of a run at its beginning.
        flush: empties the log's buffers.
        tell: called every 1,000 decisions, sooner where they take long.
    """
    stop = count = 1
    while True:
        began_s = time.perf_counter()
        verdict = loop.play(stop)
        if verdict == FULL:
            flush()
        elif verdict == PAUSE:
            is_quick = time.perf_counter() - began_s < LOOK_S
            count = min(2 * count, EVERY) if is_quick else max(count // 2, 1)
            if stop % EVERY == 0 or not is_quick:
                tell()
            stop = min(stop + count, (stop // EVERY + 1) * EVERY)
        else:
            return verdict
