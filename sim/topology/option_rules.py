"""Checks of the generators' numbers; a message names the key, the value and the rule."""

import math
from collections.abc import Mapping

from sim.errors import TopologyError

MOST_GPUS = 10_000_000  # of a cluster: a typing error should not fill the memory
MOST_SERVERS = 1_000_000  # of a description, server by server
MOST_GPUS_PER_SERVER = 1024
MOST_PORTS = 1024  # of a switch towards the switches above it


def check_counts(counts: Mapping[str, int]) -> None:
    """Raise TopologyError unless every count is from 1 to MOST_GPUS."""
    for key, value in counts.items():
        if value < 1:
            raise TopologyError(f"topology.{key} is {value}; it must be at least 1")
        if value > MOST_GPUS:
            raise TopologyError(f"topology.{key} is {value}; it must be at most {MOST_GPUS}")


def check_rates(rates: Mapping[str, float]) -> None:
    """Raise TopologyError unless every rate is a finite number above 0."""
    for key, value in rates.items():
        if not (value > 0 and math.isfinite(value)):
            raise TopologyError(f"topology.{key} is {value}; it must be above 0 and finite")


def check_ports(key: str, ports: int) -> None:
    """Raise TopologyError unless a number of ports is from 1 to MOST_PORTS."""
    if not 1 <= ports <= MOST_PORTS:
        raise TopologyError(
            f"topology.{key} is {ports}; it must be at least 1, at most {MOST_PORTS}"
        )


def check_gpus(key: str, gpus: int) -> None:
    """Raise TopologyError unless a server's number of GPUs is from 1 to MOST_GPUS_PER_SERVER."""
    if gpus < 1:
        raise TopologyError(f"topology.{key} is {gpus}; it must be at least 1")
    if gpus > MOST_GPUS_PER_SERVER:
        raise TopologyError(
            f"topology.{key} is {gpus}; a server has at most {MOST_GPUS_PER_SERVER}"
        )
