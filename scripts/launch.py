"""What every Hydra entry point shares: one clear message for an error, and the start of a run.

An entry point is

    @hydra.main(version_base=None, config_path="../conf", config_name="simulate")
    def main(cfg: DictConfig) -> None:
        launch = start(cfg)
        topology = launch.build("topology")
        ...

    if __name__ == "__main__":
        run_main(main)
"""

import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from compile_notice import telling_what_compiles
from compose_once import composing_once
from ctrl_c import came_of_ctrl_c, insisting_on_ctrl_c
from going_on import going_on
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from launch_build import build, resolve
from launch_errors import explain, refuse_reproduction, refuse_unread_additions
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from sweep_points import skipping_finished_points

from sim.errors import GpuYardError
from sim.report.record import Record, collect_record
from sim.report.run_folder import write_record

log = logging.getLogger(__name__)

FAILED = 1
INTERRUPTED = 130
STOPPED = "interrupted; what was written so far stays in the run's folder"
NAMING = ("experiment", "lineup", "scheduler", "workload")  # groups that name a run's folder
TRACEBACK_WANTED = ("DEBUG", "HYDRA_FULL_ERROR")


_started: list["Launch"] = []  # of this process, for what is told after Ctrl-C


@dataclass(frozen=True)
class Launch:
    """One started run: where it writes, what it was told, and what it ran on."""

    folder: Path  # absolute, exists; one per run and per point of a sweep
    config: dict[str, Any]  # the resolved configuration in plain containers
    record: Record  # without labels: those belong to the run of one scheduler

    def build(self, key: str, **objects: Any) -> Any:
        """Make the object that section `key` describes (see `launch_build.build`)."""
        return build(self.config, key, **objects)


def start(cfg: DictConfig, *, reproduces: bool = False) -> Launch:
    """Check and resolve the configuration, and write it beside versions and commit.

    Writes `config.yaml` and `record.json` to the run's folder; the log file is there too.
    `reproduces`: the program reads the section `reproduce`.

    Raises:
        ConfigError: if a required value is missing, an added key is read by nobody, or the
            experiment is one of another program.
    """
    hydra = HydraConfig.get()
    refuse_unread_additions(list(hydra.overrides.task), set(hydra.runtime.choices))
    experiment = hydra.runtime.choices.get("experiment")
    if experiment is not None and "reproduce" in cfg and not reproduces:
        refuse_reproduction(experiment)
    config, text = resolve(cfg)
    folder = Path(hydra.runtime.output_dir)
    record = collect_record(
        labels=None,
        program=str(hydra.job.name),
        command=sys.argv,
        overrides=list(hydra.overrides.task),
        seed=config.get("seed"),
        config_yaml=text,
    )
    write_record(folder, record)
    log.info("writing to %s", folder)
    launch = Launch(folder=folder, config=config, record=record)
    _started.append(launch)
    return launch


def run_main(main: Callable[[], None]) -> None:
    """Run a function that `hydra.main` decorated, then leave the process as a program should.

    An error that the user can mend, a file that cannot be read or written included, prints one
    message on stderr and exits with status 1; Ctrl-C exits with 130, whatever became of it on
    its way (`ctrl_c`). With DEBUG=1 or HYDRA_FULL_ERROR=1 the traceback is shown. Any other error
    is a fault of the program and keeps its traceback.
    """
    debug = any(os.environ.get(name, "0") not in {"", "0"} for name in TRACEBACK_WANTED)
    OmegaConf.register_new_resolver("of_run", _of_run, replace=True)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors reach us as they are, not printed by Hydra
    try:
        with (
            insisting_on_ctrl_c(),
            composing_once(),
            skipping_finished_points(),
            telling_what_compiles(),
        ):
            main()
    except KeyboardInterrupt:
        _leave_interrupted("")
    except Exception as error:
        told, stopped = _told(error), came_of_ctrl_c(error)
        if debug or (told is None and not stopped):
            raise
        if stopped:
            _leave_interrupted(f" (on the way out: {told or repr(error)})")
        print(f"error: {told}", file=sys.stderr)
        print("(DEBUG=1 shows the traceback)", file=sys.stderr)
        sys.exit(FAILED)


def _of_run(*, _root_: Any) -> str:
    """`${of_run:}` of `conf/hydra/default.yaml`, like `_sjf_venus_like`: what was chosen."""
    choices = OmegaConf.select(_root_, "hydra.runtime.choices") or {}
    chosen = (choices.get(group) for group in NAMING)
    return "".join(f"_{name}" for name in chosen if name not in {None, "null"})


def _leave_interrupted(why: str) -> NoReturn:
    """Say what stays and how to go on."""
    last = _started[-1] if _started else None
    words = going_on(last and last.record, last and last.folder, sys.argv)
    print("\n".join(filter(None, [STOPPED + why, words])), file=sys.stderr)
    sys.exit(INTERRUPTED)


def _told(error: Exception) -> str | None:
    """What a user is told of `error`; None: it is a fault of the program."""
    if isinstance(error, GpuYardError | HydraException | OmegaConfBaseException):
        return explain(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return None
