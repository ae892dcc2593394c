"""Where outages come from: seeded failures, rolling maintenance, both, none."""

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import SimulationError
from sim.topology.outages import (
    NO_OUTAGES,
    Change,
    Outages,
    check_seconds,
    joined,
    outages_of_absences,
)
from sim.topology.topology import Topology


class Source(Protocol):
    """Anything that says when servers go away and come back."""

    def outages(self, topology: Topology, seed: int) -> Outages:
        """Its changes on `topology`."""


class FailuresAndMaintenance:
    """Both, independently of each other: a server is up when neither keeps it away.

    Maintenance does not wait for a repair, nor does a closed server keep from failing; at one
    instant failures come first.
    """

    def __init__(self, *, failures: Source, maintenance: Source) -> None:
        """Two sources, as in `conf/outages/failures.yaml` and `conf/outages/maintenance.yaml`."""
        self._failures, self._maintenance = failures, maintenance

    def outages(self, topology: Topology, seed: int) -> Outages:
        """Changes of both in order of time; equal for equal seeds."""
        return joined(
            self._failures.outages(topology, seed), self._maintenance.outages(topology, seed)
        )


Draw = Callable[[np.random.Generator], float]
OWN, RACK = 0, 1  # streams


class ServerFailures:
    """Each server (and rack) fails and is repaired over and over, independently of the others.

    Time between the end of a repair and the next failure is Weibull with mean `mtbf_s`: shape 1
    is exponential, below 1 failures come in clusters, above 1 with age. Repairs are log-normal
    with median `repair_median_s`; `repair_sigma` is the standard deviation of their logarithm. A
    rack's failures (power, switch) are exponential with mean `rack_mtbf_s`; they take all its
    servers at once, and give them back at once. Every server and rack has its own random stream,
    so a larger cluster keeps the failures of a smaller one.

    Nobody knows beforehand how long a run lasts, so failures are drawn up to `horizon_s`; after
    that nothing fails any more, and what is being repaired comes back. What lies beyond the last
    job is never played.
    """

    def __init__(
        self,
        *,
        mtbf_s: float,
        shape: float,
        repair_median_s: float,
        repair_sigma: float,
        rack_mtbf_s: float | None,
        horizon_s: float,
    ) -> None:
        """See the class; `rack_mtbf_s` None: racks do not fail.

        Raises:
            SimulationError: naming the key, the value and the rule.
        """
        check_seconds("outages", mtbf_s=mtbf_s, repair_median_s=repair_median_s, shape=shape,
                      horizon_s=horizon_s)  # fmt: skip
        check_seconds("outages", zero_ok=True, repair_sigma=repair_sigma)
        if rack_mtbf_s is not None:
            check_seconds("outages", rack_mtbf_s=rack_mtbf_s)
        self._mtbf_s, self._shape, self._rack_mtbf_s = mtbf_s, shape, rack_mtbf_s
        self._repair = (math.log(repair_median_s), repair_sigma)
        self._horizon_s = horizon_s

    def outages(self, topology: Topology, seed: int) -> Outages:
        """Failures of the servers of `topology`, equal for equal seeds.

        Raises:
            SimulationError: so many that the horizon or the mean time is surely a mistake.
        """
        scale_s = self._mtbf_s / math.gamma(1.0 + 1.0 / self._shape)
        self._check_amount(topology)
        own = self._of_units(
            topology.num_servers, (seed, OWN), lambda rng: scale_s * float(rng.weibull(self._shape))
        )
        failures = outages_of_absences(*own, Change.FAIL)
        mean_s = self._rack_mtbf_s
        if mean_s is None:
            return failures
        racks, away_s, back_s = self._of_units(
            topology.num_racks, (seed, RACK), lambda rng: float(rng.exponential(mean_s))
        )
        inside = [np.flatnonzero(topology.server_rack == rack) for rack in racks.tolist()]
        sizes = [len(servers) for servers in inside]
        servers = np.concatenate([*inside, np.zeros(0, dtype=np.int64)])
        of_racks = outages_of_absences(
            servers, np.repeat(away_s, sizes), np.repeat(back_s, sizes), Change.FAIL
        )
        return joined(of_racks, failures)

    def _check_amount(self, topology: Topology) -> None:
        most = 10_000_000
        expected = topology.num_servers * self._horizon_s / self._mtbf_s
        if expected > most:
            raise SimulationError(
                f"outages.mtbf_s {self._mtbf_s} over outages.horizon_s {self._horizon_s} means "
                f"about {expected:.0f} failures on {topology.num_servers} servers, above {most}; "
                "raise the first or lower the second"
            )

    def _of_units(
        self, units: int, stream: tuple[int, int], up_s: Draw
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        """Unit, failure and repair of every failure before the horizon."""
        rows: list[tuple[int, float, float]] = []
        for unit in range(units):
            rng = np.random.default_rng((*stream, unit))
            now_s = up_s(rng)
            while now_s < self._horizon_s:
                back_s = now_s + float(rng.lognormal(*self._repair))
                rows.append((unit, now_s, back_s))
                now_s = back_s + up_s(rng)
        unit_of, away_s, back_at_s = np.array(rows, dtype=np.float64).reshape(-1, 3).T
        return unit_of.astype(np.int64), away_s, back_at_s


class RollingMaintenance:
    """Every `every_s`, from `first_s` on, all servers are closed in turn, a few at a time.

    In each round `servers_at_once` servers, in order of their index, are closed for `duration_s`,
    then the next ones. Jobs on them write a checkpoint and queue again. Rounds begin up to
    `horizon_s`; a run that lasts longer sees no more of them.
    """

    def __init__(
        self,
        *,
        first_s: float,
        every_s: float,
        duration_s: float,
        servers_at_once: int,
        horizon_s: float,
    ) -> None:
        """See the class.

        Raises:
            SimulationError: naming the key, the value and the rule.
        """
        check_seconds("outages", every_s=every_s, duration_s=duration_s, horizon_s=horizon_s)
        check_seconds("outages", zero_ok=True, first_s=first_s)
        if servers_at_once < 1:
            raise SimulationError(
                f"outages.servers_at_once is {servers_at_once}; it must be 1 or more"
            )
        self._first_s, self._every_s, self._duration_s = first_s, every_s, duration_s
        self._at_once, self._horizon_s = servers_at_once, horizon_s

    def outages(self, topology: Topology, seed: int) -> Outages:
        """Closures of the servers of `topology`; the seed does not matter.

        Raises:
            SimulationError: one round does not end before the next begins.
        """
        del seed
        turns = -(-topology.num_servers // self._at_once)
        if turns * self._duration_s > self._every_s:
            raise SimulationError(
                f"outages: a round of maintenance takes {turns * self._duration_s} s for "
                f"{topology.num_servers} servers, longer than every_s {self._every_s}; raise "
                "outages.every_s or outages.servers_at_once, or lower outages.duration_s"
            )
        rounds_s = np.arange(self._first_s, self._horizon_s, self._every_s)
        servers = np.arange(topology.num_servers)
        offset_s = servers // self._at_once * self._duration_s
        away_s = (rounds_s[:, None] + offset_s).ravel()
        back_s = away_s + self._duration_s
        return outages_of_absences(np.tile(servers, len(rounds_s)), away_s, back_s, Change.CLOSE)


class NoOutages:
    """Nothing ever goes away."""

    def outages(self, topology: Topology, seed: int) -> Outages:
        """None."""
        del topology, seed
        return NO_OUTAGES
