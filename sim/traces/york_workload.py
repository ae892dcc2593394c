"""Jobs of TopDRL's authors: classes of lengths and gangs, stretched by their placement's cost."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.arrays import IntArray, objects
from sim.errors import TraceError
from sim.jobs import JobTable
from sim.physics.york_network import YorkNetwork
from sim.topology.topology import Topology
from sim.traces.generated_workload import DrawnWorkload
from sim.traces.prepare import fitted, prepare
from sim.traces.setting import Setting
from sim.traces.streams import Streams
from sim.traces.trace import Trace


@dataclass(frozen=True, kw_only=True)
class YorkMix:
    """Classes (short, medium, long, extreme) of whole numbers up to a maximum.

    Class c holds the numbers above bound c - 1 and up to bound c, as shares of the maximum; a job
    draws a class by its share and a number within it uniformly, for length and gang apart. In every
    row of time a job arrives with `arrival_prob`.
    """

    row_s: float  # seconds of one row of length
    arrival_prob: float
    shares: Sequence[float]  # of the classes
    most_rows: int
    length_bounds: Sequence[float]  # shares of `most_rows`, ascending, the last 1
    most_gpus: int
    gang_bounds: Sequence[float]  # shares of `most_gpus`

    def __post_init__(self) -> None:
        """Check ranges.

        Raises:
            TraceError: naming the key, the value and the rule.
        """
        classes = len(self.shares)
        for key, good, rule in (
            ("row_s", 0 < self.row_s < np.inf, "above 0"),
            ("arrival_prob", 0 < self.arrival_prob <= 1, "above 0 and at most 1"),
            ("shares", min(self.shares) >= 0 and sum(self.shares) > 0, "0 or more, not all 0"),
            ("length_bounds", _rising(self.length_bounds, classes), f"{classes} shares up to 1"),
            ("gang_bounds", _rising(self.gang_bounds, classes), f"{classes} shares up to 1"),
            ("most_rows", self.most_rows >= classes, f"{classes} or more"),
            ("most_gpus", self.most_gpus >= classes, f"{classes} or more"),
        ):
            if not good:
                raise TraceError(f"workload.mix.{key} is {getattr(self, key)}; it must be {rule}")

    def lengths(self, jobs: int, rng: np.random.Generator) -> IntArray:
        """(jobs,) rows, 1 to `most_rows`."""
        return self._draw(self.length_bounds, self.most_rows, jobs, rng)

    def gangs(self, jobs: int, rng: np.random.Generator) -> IntArray:
        """(jobs,) GPUs, 1 to `most_gpus`."""
        return self._draw(self.gang_bounds, self.most_gpus, jobs, rng)

    def _draw(
        self, bounds: Sequence[float], most: int, jobs: int, rng: np.random.Generator
    ) -> IntArray:
        top = np.maximum(np.floor(np.asarray(bounds) * most + 1e-9), 1).astype(np.int64)
        low = np.minimum(np.concatenate([[0], top[:-1]]) + 1, top)
        shares = np.asarray(self.shares, dtype=np.float64)
        which = rng.choice(len(top), jobs, p=shares / shares.sum())
        return rng.integers(low[which], top[which], endpoint=True)


def _rising(bounds: Sequence[float], classes: int) -> bool:
    values = np.asarray(bounds, dtype=np.float64)
    if len(values) != classes or values[0] <= 0 or values[-1] != 1:
        return False
    return bool((np.diff(values) >= 0).all())


@dataclass(kw_only=True, eq=False, repr=False)
class YorkWorkload(DrawnWorkload):
    """`num_jobs` jobs of a mix, drawn anew for each part, window and seed.

    The group counts a job's work as length x speed on its GPUs alone, and divides speed by the cost
    of its placement; work here is the time on the most compact placement, length x that cost.
    """

    mix: YorkMix
    network: YorkNetwork
    topology: Topology

    def _check(self) -> None:
        self._count()
        if self.thin not in {None, 1}:
            raise TraceError(
                f"workload.thin is {self.thin}; jobs are drawn one by one, so it must be null"
            )

    def _table(self, draws: Streams, setting: Setting, measured: tuple[float, float]) -> JobTable:
        return prepare(
            fitted(self._trace(draws.jobs), self._options, setting),
            options=self._options,
            setting=setting,
            draws=draws,
            measured_frac=measured,
        )

    def _trace(self, rng: np.random.Generator) -> Trace:
        mix, count = self.mix, self._count()
        rows, gangs = mix.lengths(count, rng), mix.gangs(count, rng)
        came = np.cumsum(rng.geometric(mix.arrival_prob, count))
        return Trace(
            name=self.name,
            job_id=objects([f"{self.name}-{row}" for row in range(count)]),
            submit_s=(came - came[0]) * mix.row_s,
            num_gpus=gangs.astype(np.int64),
            duration_s=rows * mix.row_s * self.network.least_cost(gangs, self.topology),
            user=objects([""] * count),
            vc=objects([""] * count),
        )
