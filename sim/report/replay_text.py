"""A replayed cluster as text: one line an event, and a map of racks, servers and GPUs."""

from collections.abc import Iterable

import numpy as np

from sim.arrays import IntArray
from sim.event_log import Kind
from sim.report.event_table import Recorded
from sim.report.replay import Replay

LEVELS = "·▁▂▃▄▅▆▇█"  # share of busy GPUs, none to all
DOWN = "x"
MOST_TENANTS_SHOWN = 9
DAY_S, HOUR_S, MINUTE_S = 86400, 3600, 60
LEGEND_GPUS = "one sign a GPU: · free, 1-9 tenants, x down"
LEGEND_SERVERS = f"one sign a server: {LEVELS} share of busy GPUs, x down"
LEGEND_RACKS = f"one sign a rack: {LEVELS} share of busy GPUs, x down"


def event_line(replay: Replay, event: int) -> str:
    """What event number `event` did, and the queue and free GPUs now."""
    log = replay.recorded.log
    job = int(log.job[event])
    gpus = log.gpus[event]
    if job >= 0:
        who = f"job {replay.recorded.job_id[job]}"
    else:
        who = f"server {_server_name(replay.recorded, gpus)}"
    where = f"GPUs {ranges(gpus)}" if len(gpus) else ""
    kind = Kind(int(log.kind[event])).name.lower()
    return (
        f"#{event:<6} {clock(float(log.time_s[event])):>15}  {kind:<11} {who:<24} "
        f"partition {log.partition[event]:<3} queue {replay.queue_length:<5} "
        f"free {replay.free_gpus}/{len(replay.tenants)}  {where}"
    ).rstrip()


def clock(time_s: float) -> str:
    """Days and time of day since time 0, like `3d 04:05:06.5`."""
    days, rest = divmod(round(time_s, 1), DAY_S)
    hours, rest = divmod(rest, HOUR_S)
    minutes, seconds = divmod(rest, MINUTE_S)
    text = f"{int(hours):02d}:{int(minutes):02d}:{seconds:04.1f}"
    return f"{int(days)}d {text}" if days else text


def ranges(numbers: Iterable[int]) -> str:
    """Numbers with runs joined, like `0-3,8`."""
    found: list[list[int]] = []
    for number in sorted(int(n) for n in numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in found)


def heat_map(replay: Replay, *, width: int, height: int) -> str:
    """The cluster now, in at most `width` columns and about `height` lines if that can be.

    One sign a GPU where the cluster is small enough, else one a server, else one a rack.
    """
    recorded = replay.recorded
    racks = [np.flatnonzero(recorded.server_rack == r) for r in np.unique(recorded.server_rack)]
    for legend, lines in (
        (LEGEND_GPUS, _gpu_lines),
        (LEGEND_SERVERS, _server_lines),
    ):
        drawn = lines(replay, racks)
        if len(drawn) <= height and max(map(len, drawn)) <= width:
            return "\n".join([legend, *drawn])
    signs = "".join(_sign(replay, _gpus_of(recorded, rack)) for rack in racks)
    cut = [signs[at : at + width] for at in range(0, len(signs), width)]
    return "\n".join([LEGEND_RACKS, *cut])


def _gpu_lines(replay: Replay, racks: list[IntArray]) -> list[str]:
    lines = []
    for number, rack in enumerate(racks):
        servers = [
            "".join(_gpu_sign(replay, gpu) for gpu in _gpus_of(replay.recorded, np.array([server])))
            for server in rack.tolist()
        ]
        lines.append(f"{_rack_title(replay, number, rack)}  {' '.join(servers)}")
    return lines


def _server_lines(replay: Replay, racks: list[IntArray]) -> list[str]:
    lines = []
    for number, rack in enumerate(racks):
        signs = [
            _sign(replay, _gpus_of(replay.recorded, np.array([server]))) for server in rack.tolist()
        ]
        lines.append(f"{_rack_title(replay, number, rack)}  {''.join(signs)}")
    return lines


def _rack_title(replay: Replay, number: int, rack: IntArray) -> str:
    """Name of a rack and the share of its GPUs that are busy."""
    gpus = _gpus_of(replay.recorded, rack)
    busy = sum(replay.tenants[gpu] > 0 for gpu in gpus)
    return f"rack {number:<4} {busy / len(gpus):4.0%}"


def _gpus_of(recorded: Recorded, servers: IntArray) -> list[int]:
    first = recorded.server_first_gpu
    return [gpu for server in servers.tolist() for gpu in range(first[server], first[server + 1])]


def _gpu_sign(replay: Replay, gpu: int) -> str:
    if replay.down[gpu]:
        return DOWN
    return str(min(replay.tenants[gpu], MOST_TENANTS_SHOWN)) if replay.tenants[gpu] else LEVELS[0]


def _sign(replay: Replay, gpus: list[int]) -> str:
    """Share of busy GPUs; a sign of its own for none and for all."""
    if all(replay.down[gpu] for gpu in gpus):
        return DOWN
    busy = sum(replay.tenants[gpu] > 0 for gpu in gpus)
    return LEVELS[int(np.ceil((len(LEVELS) - 1) * busy / len(gpus)))]


def _server_name(recorded: Recorded, gpus: IntArray) -> str:
    if not len(gpus):
        return "?"
    server = int(np.searchsorted(recorded.server_first_gpu, int(gpus[0]), side="right")) - 1
    return str(recorded.server_name[server])
