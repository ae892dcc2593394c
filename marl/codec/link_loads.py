"""How busy NICs and uplinks are, as far as a scheduler can predict it."""

import numpy as np

from marl.codec.tables import Tables
from sim.arrays import FloatArray, IntArray
from sim.jit import array_kernel


@array_kernel
def link_loads(
    tables: Tables, running: IntArray, placed: IntArray, first: IntArray, held: IntArray
) -> tuple[FloatArray, FloatArray]:
    """(S,) loads of NICs and (R,) of uplinks.

    The load of a link is the sum, over the jobs that use it, of the predicted share of an
    undisturbed step for which they communicate between servers: 2 where two jobs would always
    communicate. GPUs of running job j are placed[first[j] : first[j] + held[j]].
    """
    nic, uplink = np.zeros(len(tables.server_rack)), np.zeros(tables.server_rack.max() + 1)
    for job in running:
        gpus = placed[first[job] : first[job] + held[job]]
        servers = np.unique(tables.gpu_server[gpus])
        if len(servers) == 1:
            continue
        racks = np.unique(tables.server_rack[servers])
        share = _share(tables, tables.profile[job], gpus, servers, racks)
        nic[servers] += share
        if len(racks) > 1:
            uplink[racks] += share
    return nic, uplink


@array_kernel
def _share(
    tables: Tables, profile: int, gpus: IntArray, servers: IntArray, racks: IntArray
) -> float:
    """Share of its step that a job communicates between servers."""
    most, compute_s = 0, 0.0
    for server in servers:
        most = max(most, np.sum(tables.gpu_server[gpus] == server))
        compute_s = max(compute_s, tables.compute_s[profile, tables.server_type[server]])
    between_s = tables.server_s[profile, min(len(servers), tables.server_s.shape[1] - 1)]
    between_s += tables.rack_s[profile, min(len(racks), tables.rack_s.shape[1] - 1)]
    local_s = tables.local_s[profile, min(most, tables.local_s.shape[1] - 1)]
    return float(between_s / (compute_s + local_s + between_s))
