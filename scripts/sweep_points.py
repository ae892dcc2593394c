"""Points of a sweep that are finished already are skipped when the same sweep is started again."""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from hydra._internal import hydra as internals
from hydra.core.hydra_config import HydraConfig
from launch_build import resolve
from launch_errors import ConfigError
from omegaconf import DictConfig

from sim.report.atomic import write_atomically

log = logging.getLogger(__name__)

FINISHED = "finished.json"  # the last file of a point, written after everything else
CONFIG = "config.yaml"
RESUME = "resume"
SCRIPTS = str(Path(__file__).resolve().parent)
TaskFunction = Callable[[DictConfig], Any]


@contextmanager
def skipping_finished_points() -> Iterator[None]:
    """Inside, the points of `hydra.main --multirun` are skipped where they are finished."""
    original = internals.Hydra.multirun

    def multirun(
        self: internals.Hydra, config_name: str | None, task_function: TaskFunction, *rest: Any,
        **more: Any,
    ) -> Any:  # fmt: skip
        with _importable():
            return original(self, config_name, Point(task_function), *rest, **more)

    internals.Hydra.multirun = multirun  # type: ignore[method-assign]
    try:
        yield
    finally:
        internals.Hydra.multirun = original  # type: ignore[method-assign]


@dataclass(frozen=True)
class Point:
    """A program's task for one point; launchers send it to other processes and machines."""

    task: TaskFunction

    def __call__(self, cfg: DictConfig) -> Any:
        """Run the point unless it is finished; the last thing written says that it is.

        Raises:
            ConfigError: its folder holds a finished point of another configuration.
        """
        hydra = HydraConfig.get()
        folder, program = Path(hydra.runtime.output_dir), str(hydra.job.name)
        digest = _digest(resolve(cfg)[1])
        found = _finished(folder)
        if found == (program, digest):
            log.info("%s is finished and skipped (remove it to run it again)", folder)
            return None
        if found is not None:
            raise ConfigError(
                f"{folder} holds a finished point of another configuration; give this sweep a "
                f"folder of its own (hydra.sweep.dir=DIR), and compare.py both (sweep=[DIR,DIR])"
            )
        (folder / FINISHED).unlink(missing_ok=True)
        result = self.task(cfg)
        text = json.dumps({"program": program, "config_sha256": digest})
        write_atomically(folder / FINISHED, text.encode())
        return result


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


@contextmanager
def _importable() -> Iterator[None]:
    """Processes that a launcher starts inside find the modules of the programs."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([SCRIPTS, *([before] if before else [])])
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
