"""Failures and maintenance in one run."""

from typing import Protocol

from sim.outages.absences import joined
from sim.outages.changes import Outages
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
