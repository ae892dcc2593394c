"""Communication time of a gang as tables over how far its placement spreads."""

from dataclasses import dataclass

from sim.arrays import FloatArray


@dataclass(frozen=True)
class NetworkTables:
    """Seconds an iteration spends in exposed communication.

    comm_s = local_s[p, g] + server_s[p, s] * nic_factor[k] + rack_s[p, r] * uplink_factor[u]
    for a gang with at most g GPUs on one server, spread over s servers in r racks, where k and u
    are the numbers of multi-server (multi-rack) jobs on its busiest NIC (uplink), itself included.
    Counts beyond a table's end read its last entry.
    """

    local_s: FloatArray  # (P, largest server + 1)
    server_s: FloatArray  # (P, servers + 1), 0 up to one server
    rack_s: FloatArray  # (P, racks + 1), 0 up to one rack
    nic_factor: FloatArray  # (K,) factor[0] = factor[1] = 1
    uplink_factor: FloatArray  # (U,)
