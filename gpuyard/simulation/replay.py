"""Step through a run's event log: `python scripts/replay.py path=runs/simulate/FOLDER every=10`."""

import os
import shutil
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from gpuyard.launch.build import check_count, check_flags, check_seconds, resolve
from gpuyard.launch.errors import ConfigError, refuse_unread_additions
from gpuyard.launch.start import program
from sim.arrays import IntArray
from sim.report.replay import Replay

NARROWEST = 100  # columns where standard output is no terminal


@program("replay")
def main(cfg: DictConfig) -> None:
    """Read, replay, print; the whole log is checked, whatever is printed of it."""
    from hydra.core.hydra_config import HydraConfig

    from sim.report.replay import Replay
    from sim.report.run_tables import read_recorded

    refuse_unread_additions(list(HydraConfig.get().overrides.task), set())
    config, _ = resolve(cfg)
    _check(config)
    folder = Path(str(config["path"]))
    replay = Replay(read_recorded(folder), max_tenants=_max_tenants(folder))
    stops = _chosen(replay, config)
    if config["interactive"] and sys.stdin.isatty():
        walk(replay, stops, lambda event: _show(replay, event, config["heatmap"]))
    else:
        for event in stops.tolist():
            replay.go_to(event + 1)
            _show(replay, event, config["heatmap"])
    replay.finish()
    jobs = len(replay.recorded.job_id)
    print(f"{len(replay)} events of {jobs} jobs: consistent, every GPU was given back")


def _chosen(replay: Any, config: Mapping[str, Any]) -> IntArray:
    """(n,) numbers of the events to print.

    Raises:
        ConfigError: no job has the id that is asked for.
    """
    import numpy as np

    log = replay.recorded.log
    wanted = np.ones(len(log.kind), dtype=np.bool_)
    if config["from_s"] is not None:
        wanted &= log.time_s >= config["from_s"]
    if config["to_s"] is not None:
        wanted &= log.time_s <= config["to_s"]
    if config["job"] is not None:
        rows = np.flatnonzero(replay.recorded.job_id == str(config["job"]))
        if not len(rows):
            names = ", ".join(map(str, replay.recorded.job_id[:3]))
            raise ConfigError(f"job is {config['job']!r}; no job has that id, only like {names}")
        wanted &= np.isin(log.job, rows)
    chosen: IntArray = np.flatnonzero(wanted)[:: config["every"]]
    return chosen


def _show(replay: Any, event: int, with_map: bool) -> None:
    from sim.report.replay import event_line, heat_map

    print(event_line(replay, event))
    if with_map:
        size = shutil.get_terminal_size((NARROWEST, 50))
        print(heat_map(replay, width=size.columns, height=max(size.lines - 5, 10)))
        print()


def _max_tenants(folder: Path) -> int:
    """How many jobs a GPU of that run could hold, from its config.yaml."""
    from omegaconf import OmegaConf

    path = folder / "config.yaml"
    if not path.is_file():
        raise ConfigError(f"{path} is not there; path must name the folder of a simulated run")
    value = OmegaConf.select(OmegaConf.load(path), "max_tenants")
    if not isinstance(value, int):
        raise ConfigError(f"{path}: max_tenants is {value!r}; path must name a simulated run")
    return value


def _check(config: Mapping[str, Any]) -> None:
    """Refuse values of the wrong kind.

    Raises:
        ConfigError: naming key, value and rule.
    """
    check_count("every", config["every"])
    check_seconds(config, "from_s", "to_s")
    check_flags(config, "heatmap", "interactive")


NEXT, PREVIOUS, QUIT = ("n", " ", "\n", "\r"), ("p",), ("q", "\x04", "")
HELP = "n next, p previous, q quit"


def walk(replay: Replay, stops: IntArray, show: Callable[[int], None]) -> None:
    """Show the event at each stop; keys move between stops until the end or `q`."""
    at = 0
    with single_keys() as handle:
        while at < len(stops):
            event = int(stops[at])
            replay.go_to(event + 1)
            show(event)
            print(f"{at + 1}/{len(stops)}: {HELP}", flush=True)
            key = _key(handle)
            if key in QUIT:
                return
            at = max(at - 1, 0) if key in PREVIOUS else at + 1


@contextmanager
def single_keys() -> Iterator[int]:
    """The terminal on standard input, giving keys without waiting for a line."""
    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)
    try:
        tty.setcbreak(handle, termios.TCSADRAIN)  # keys typed ahead stay
        yield handle
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)


def _key(handle: int) -> str:
    """The next key that means something; "" at the end of input."""
    key = os.read(handle, 1).decode(errors="replace")
    while key not in (*NEXT, *PREVIOUS, *QUIT):
        key = os.read(handle, 1).decode(errors="replace")
    return key
