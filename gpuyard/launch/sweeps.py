"""Sweeps started again skip their finished points; work is shared out to processes."""

import hashlib
import json
import logging
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import yaml
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from gpuyard.launch.build import yaml_text
from gpuyard.launch.errors import ConfigError
from sim.files import write_atomically

log = logging.getLogger(__name__)

FINISHED = "finished.json"  # the last file of a point, written after everything else
CONFIG = "config.yaml"
RESUME = "resume"
TaskFunction = Callable[[DictConfig], Any]


def once_a_point(task: TaskFunction, cfg: DictConfig) -> Any:
    """Run a program's task, unless it is a finished point of a sweep.

    The last file that a point writes says that it is finished, and of which configuration.

    Raises:
        ConfigError: its folder holds a finished point of another configuration.
    """
    hydra = HydraConfig.get()
    if hydra.mode != RunMode.MULTIRUN:
        return task(cfg)
    folder, program = Path(hydra.runtime.output_dir), str(hydra.job.name)
    digest = _digest(yaml_text(cfg))
    found = _finished(folder)
    if found == (program, digest):
        log.info("%s is finished and skipped (remove it to run it again)", folder)
        return None
    twins = [each for each in folder.parent.glob(f"{hydra.job.num}_*") if _finished(each)]
    if found is not None or twins:
        raise ConfigError(
            f"{folder if found else twins[0]} holds a finished point of another configuration; "
            "give this sweep a folder of its own (hydra.sweep.dir=DIR), and gpuyard compare both "
            "(sweep=[DIR,DIR])"
        )
    (folder / FINISHED).unlink(missing_ok=True)
    result = task(cfg)
    text = json.dumps({"program": program, "config_sha256": digest})
    write_atomically(folder / FINISHED, text.encode())
    return result


def in_sweep() -> bool:
    """Whether this process plays a point of a sweep."""
    return HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN


def _finished(folder: Path) -> tuple[str, str] | None:
    """(program, digest of its configuration) of the finished point in `folder`, if there is one.

    A mark that does not fit the configuration beside it is of an earlier run in that folder.
    """
    try:
        mark = json.loads((folder / FINISHED).read_text(encoding="utf-8"))
        digest = _digest((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, AttributeError, yaml.YAMLError):
        return None
    if not isinstance(mark, dict) or mark.get("config_sha256") != digest:
        return None
    return str(mark.get("program")), digest


def _digest(config_yaml: str) -> str:
    """Of everything but whether an interrupted run is resumed: that is no other point."""
    config = yaml.safe_load(config_yaml)
    counted = {key: value for key, value in config.items() if key != RESUME}
    return hashlib.sha256(json.dumps(counted, sort_keys=True, default=str).encode()).hexdigest()


T = TypeVar("T")
R = TypeVar("R")


def run_program(words: Sequence[str]) -> int:
    """Status of `gpuyard *words` in a process of its own, which may save if we are interrupted."""
    with subprocess.Popen([sys.executable, "-m", "gpuyard", *words]) as child:
        try:
            return child.wait()
        except KeyboardInterrupt:
            child.terminate()
            child.wait()
            raise


MOST_PROCESSES = 10_000


def processes_of(jobs: int, cores: int) -> int:
    """Number of processes for `jobs`, -1 for one a core; ConfigError: it is no number of them."""
    if type(jobs) is not int or not 0 != jobs <= MOST_PROCESSES:
        fix = f"use 1 to {MOST_PROCESSES}, or -1 for one process a core"
        raise ConfigError(f"jobs is {jobs!r}; {fix}")
    return jobs if jobs > 0 else max(cores + 1 + jobs, 1)


def in_processes(call: Callable[[T], R], items: Iterable[T], processes: int) -> Iterator[R]:
    """`call`, of a module, of each item, as they come, each with one thread; 1: in this process."""
    from joblib import Parallel, delayed, parallel_config

    if processes == 1:
        yield from map(call, items)
        return
    remote = delayed(partial(_in_worker, call))
    with parallel_config("loky", inner_max_num_threads=1):
        workers = Parallel(n_jobs=processes, return_as="generator_unordered", batch_size=1)
        yield from workers(map(remote, items))


def _in_worker(call: Callable[[T], R], item: T) -> R:
    """`call` of an item; after Ctrl-C the parent process ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return call(item)
