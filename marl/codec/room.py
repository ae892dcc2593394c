"""How many workers of a job a server can take, beside the question which GPUs are empty."""

from marl.codec.asks import (
    CPU_MILLI,
    CPU_TOTAL_MILLI,
    GPU_TYPE,
    MEMORY_MIB,
    MEMORY_TOTAL_MIB,
    MORE,
    TYPE_MASK,
)
from marl.codec.tables import Tables
from sim.jit import kernel


@kernel
def _limited(tables: Tables, job: int, server: int, cpu_milli: int, memory_mib: int) -> int:
    """Workers of `job` on `server` for which its type, these cores and this memory are enough."""
    ask = tables.asks[job]
    most = int(tables.server_first_gpu[server + 1] - tables.server_first_gpu[server])
    if ask[MORE] == 0:
        return most
    if (ask[TYPE_MASK] >> tables.holds[server, GPU_TYPE]) & 1 == 0:
        return 0
    if ask[CPU_MILLI] > 0:
        most = min(most, cpu_milli // ask[CPU_MILLI])
    if ask[MEMORY_MIB] > 0:
        most = min(most, memory_mib // ask[MEMORY_MIB])
    return most


@kernel
def workers_now(tables: Tables, job: int, server: int) -> int:
    """Workers of `job` that a server could take now, were its GPUs empty; 0 while it is away."""
    if tables.state.server[server].closed > 0:
        return 0
    cpu_milli, memory_mib = (
        tables.state.server[server].cpu_free_milli,
        tables.state.server[server].memory_free_mib,
    )
    return _limited(tables, job, server, cpu_milli, memory_mib)


@kernel
def workers_ever(tables: Tables, job: int, server: int) -> int:
    """Workers of `job` that a server could take if it were up and empty."""
    hold = tables.holds[server]
    return _limited(tables, job, server, hold[CPU_TOTAL_MILLI], hold[MEMORY_TOTAL_MIB])
