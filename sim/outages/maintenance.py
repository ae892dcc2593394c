"""Planned maintenance that rolls over the servers of a cluster."""

import numpy as np

from sim.errors import SimulationError
from sim.outages.absences import check_seconds, outages_of_absences
from sim.outages.changes import Change, Outages
from sim.topology.topology import Topology


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
