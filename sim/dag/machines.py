"""The GPUs that a DAG may run on: speeds, memory, and how long a MB takes between two."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.graph import DagError

BITS_PER_BYTE = 8.0


@dataclass(frozen=True)
class Machines:
    """g GPUs; a transfer between two takes `s_per_mb` times its MB, and nothing on one GPU.

    Transfers do not slow each other, and a GPU computes while it sends: the model of HEFT and of
    the published WORL-RTGS figures, where the network is one capacity, "busy" or "idle".
    """

    name: str
    speed: FloatArray  # (g,) above 0; 1 is the speed that works are given for
    room_gib: FloatArray  # (g,)
    s_per_mb: FloatArray  # (g, g) at least 0, symmetric, 0 on the diagonal

    def __len__(self) -> int:
        """How many GPUs there are."""
        return len(self.speed)


def machines(name: str, speed: FloatArray, room_gib: FloatArray, s_per_mb: FloatArray) -> Machines:
    """Check the numbers.

    Raises:
        DagError: no GPU, shapes that differ, or a number out of range.
    """
    count = len(speed)
    if not count:
        raise DagError(f"{name}: there is no GPU")
    if room_gib.shape != (count,) or s_per_mb.shape != (count, count):
        raise DagError(
            f"{name}: {count} speeds, memory of shape {room_gib.shape} and transfers of shape "
            f"{s_per_mb.shape}; they must be (g,), (g,) and (g, g)"
        )
    if not (np.isfinite(speed).all() and (speed > 0).all()):
        raise DagError(f"{name}: a speed is {speed.min()}; speeds must be finite and above 0")
    if not (np.isfinite(s_per_mb).all() and (s_per_mb >= 0).all()):
        raise DagError(f"{name}: a transfer time is negative or not finite")
    if np.diagonal(s_per_mb).any() or not (s_per_mb == s_per_mb.T).all():
        raise DagError(f"{name}: transfers must take no time within a GPU, and equal both ways")
    return Machines(name, speed, room_gib, s_per_mb)


@dataclass(frozen=True)
class GpuKind:
    """One model of GPU."""

    name: str
    speed: float  # over that of a V100
    room_gib: float


def drawn_machines(
    kinds: tuple[GpuKind, ...],
    *,
    gpus: int,
    per_server: int,
    inside_gbps: float,
    between_gbps: float,
    least_share: float,
    rng: np.random.Generator,
) -> Machines:
    """Servers of one random kind each; between two servers a random part of the capacity is free.

    Args:
        kinds: to draw from, each equally likely.
        gpus: how many; the last server may have fewer than the others.
        per_server: GPUs of a server, which reach each other at `inside_gbps`.
        inside_gbps: within a server.
        between_gbps: the highest rate between two servers ("500" busy, "2000" idle as published,
            in Mb/s).
        least_share: the lowest, as a share of that; rates are uniform between the two.
        rng: of kinds and rates.

    Raises:
        DagError: a number out of range.
    """
    if gpus < 1 or per_server < 1 or not kinds:
        raise DagError(f"{gpus} GPUs of {len(kinds)} kinds, {per_server} a server: must be above 0")
    if not (inside_gbps > 0 and between_gbps > 0 and 0 < least_share <= 1):
        raise DagError(
            f"rates are {inside_gbps} and {between_gbps} Gb/s with a least share of {least_share}; "
            f"rates must be above 0, the share above 0 and at most 1"
        )
    server: IntArray = np.arange(gpus) // per_server
    count = int(server[-1]) + 1
    kind = rng.integers(len(kinds), size=count)[server]
    share = rng.uniform(least_share, 1.0, size=(count, count))
    share = np.triu(share) + np.triu(share, 1).T
    gbps = (between_gbps * share)[np.ix_(server, server)]
    gbps[server[:, None] == server[None, :]] = inside_gbps
    s_per_mb = BITS_PER_BYTE / (1000.0 * gbps)
    np.fill_diagonal(s_per_mb, 0.0)
    return machines(
        f"{gpus} GPUs",
        np.array([kinds[k].speed for k in kind]),
        np.array([kinds[k].room_gib for k in kind]),
        s_per_mb,
    )
