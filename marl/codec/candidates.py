"""The placement that an action (job, server, mode) stands for: outwards from the server."""

import numpy as np

from marl.codec.asks import GPU_MILLI, MORE
from marl.codec.costs import joining_cost
from marl.codec.room import workers_now
from marl.codec.tables import Tables
from sim.arrays import IntArray
from sim.jit import array_kernel, kernel
from sim.traits import WHOLE_GPU_MILLI

EXCLUSIVE, SHARED = 0, 1
MODES = 2  # a placement on empty GPUs only, or one that shares


@kernel
def can_join(tables: Tables, job: int, gpu: int) -> bool:
    """Whether `job` fits on `gpu` beside its tenants (none is fine)."""
    count, asked = tables.state.gpu[gpu].tenants, tables.asks[job, GPU_MILLI]
    if count >= tables.state.tenant.shape[1]:
        return False
    if tables.state.gpu[gpu].milli + asked > tables.limit_milli:
        return False
    kind = tables.server_type[tables.gpu_server[gpu]]
    for k in range(count):
        other = tables.state.tenant[gpu, k]
        if asked + tables.asks[other, GPU_MILLI] <= WHOLE_GPU_MILLI:
            continue  # they ask for parts that fit together
        if not tables.feasible[kind, tables.profile[job], tables.profile[other]]:
            return False
    return True


@array_kernel
def usable_counts(tables: Tables, job: int, servers: IntArray, mode: int) -> IntArray:
    """(s,) GPUs of each own server that `job` may use in this mode, as far as it has room."""
    counts = np.zeros(len(servers), dtype=np.int64)
    if tables.asks[job, GPU_MILLI] > tables.limit_milli:
        return counts
    asks_more = tables.asks[job, MORE] != 0
    for i in range(len(servers)):
        if tables.state.server[servers[i]].closed > 0:
            continue
        first, last = tables.server_first_gpu[servers[i]], tables.server_first_gpu[servers[i] + 1]
        for gpu in range(first, last):
            if tables.state.gpu[gpu].tenants == 0 or (
                mode == SHARED and can_join(tables, job, gpu)
            ):
                counts[i] += 1
        if asks_more:
            counts[i] = min(counts[i], workers_now(tables, job, servers[i]))
    return counts


@kernel
def _holds(gpus: IntArray, first: int, last: int, gpu: int) -> bool:
    """Whether gpus[first:last] contains `gpu`."""
    found = False
    for i in range(first, last):
        found = found or gpus[i] == gpu
    return found


@kernel
def _take_from(
    tables: Tables, job: int, server: int, mode: int, left: int, out: IntArray, done: int,
    before: int,
) -> int:  # fmt: skip
    """Take up to `left` GPUs of `server`: empty ones, then where joining is predicted cheapest.

    The first `before` of the `done` GPUs that `out` holds may be of this server too.

    Returns:
        How many `out` holds then.
    """
    first, last = tables.server_first_gpu[server], tables.server_first_gpu[server + 1]
    for gpu in range(first, last):
        if left > 0 and tables.state.gpu[gpu].tenants == 0 and can_join(tables, job, gpu):
            if _holds(out, 0, before, gpu):
                continue
            out[done] = gpu
            done += 1
            left -= 1
    if mode != SHARED:
        return done
    begun = done
    while left > 0:
        best, least = -1, np.inf
        for gpu in range(first, last):
            if tables.state.gpu[gpu].tenants == 0 or not can_join(tables, job, gpu):
                continue
            taken = _holds(out, begun, done, gpu) or _holds(out, 0, before, gpu)
            cost = np.inf if taken else joining_cost(tables, job, gpu)
            if cost < least:
                best, least = gpu, cost
        if best < 0:
            return done
        out[done] = best
        done += 1
        left -= 1
    return done


@kernel
def _next_server(
    tables: Tables, servers: IntArray, counts: IntArray, used: IntArray, rack: int, left: int
) -> int:
    """The nearest next server: same rack first; the tightest that finishes, else the roomiest."""
    best, best_key = -1, -1.0
    for i in range(len(servers)):
        if used[i] != 0 or counts[i] == 0:
            continue
        near = 1000.0 if tables.server_rack[servers[i]] == rack else 0.0
        fit = 500.0 - counts[i] if counts[i] >= left else float(counts[i])
        if near + fit > best_key:
            best, best_key = i, near + fit
    return best


@array_kernel
def place_outwards(
    tables: Tables, job: int, servers: IntArray, counts: IntArray, start: int, mode: int
) -> IntArray:
    """GPUs for the gang, first from own server number `start`; empty if it does not fit.

    `counts` are this mode's usable GPUs of each own server. A shared placement that finds only
    empty GPUs is no candidate of its own, so it comes back empty too.
    """
    nobody = np.empty(0, dtype=np.int64)
    out = completed(tables, job, servers, counts, start, mode, nobody)
    if mode == SHARED:
        for gpu in out:
            if tables.state.gpu[gpu].tenants > 0:
                return out
        return out[:0]
    return out


@array_kernel
def completed(
    tables: Tables, job: int, servers: IntArray, counts: IntArray, start: int, mode: int,
    placed: IntArray,
) -> IntArray:  # fmt: skip
    """`placed` and the rest of the gang outwards from own server `start`; empty if it does not fit.

    `counts` are this mode's GPUs of each own server that are still usable, those in `placed` not
    counted.
    """
    gang, before = tables.num_gpus[job], len(placed)
    out = np.empty(gang, dtype=np.int64)
    if counts[start] == 0 or before + counts.sum() < gang:
        return out[:0]
    out[:before] = placed
    used = np.zeros(len(servers), dtype=np.int64)
    rack = tables.server_rack[servers[start]]
    done, at = before, start
    while done < gang:
        used[at] = 1
        here = min(gang - done, counts[at])
        done = _take_from(tables, job, servers[at], mode, here, out, done, before)
        if done < gang:
            at = _next_server(tables, servers, counts, used, rack, gang - done)
    return out


@array_kernel
def still_usable(
    tables: Tables, job: int, servers: IntArray, mode: int, placed: IntArray
) -> IntArray:
    """(s,) GPUs of each own server that `job` may use in this mode beside its workers `placed`."""
    counts = usable_counts(tables, job, servers, mode)
    for gpu in placed:
        for i in range(len(servers)):
            counts[i] -= servers[i] == tables.gpu_server[gpu]
    return counts
