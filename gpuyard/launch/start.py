"""What every program shares: its Hydra entry, the start of a run, clear messages for errors.

A program is a function, which `gpuyard/command.py` runs:

    @program("simulate")
    def main(cfg: DictConfig) -> None:
        launch = start(cfg)
        topology = launch.build("topology")

Ctrl-C arrives, too, where libraries lose a KeyboardInterrupt or make another error of it
(`heed_ctrl_c`): one inside a callback from compiled code is dropped with a line on standard error,
a bare `except` drops it in silence, and OmegaConf fails with an AttributeError in its clean-up.
"""

import fcntl
import functools
import logging
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, replace
from errno import ENOSPC
from pathlib import Path
from typing import Any, NoReturn

import hydra as hydra_library
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from gpuyard.launch.build import build, resolve, yaml_text
from gpuyard.launch.errors import (
    COMMAND,
    CONF,
    ConfigError,
    called,
    came_of_ctrl_c,
    explain,
    heed_ctrl_c,
    heeding_ctrl_c,
    memory_ended,
    refuse_no_choice,
    refuse_reproduction,
    refuse_unread_additions,
)
from gpuyard.launch.own import (
    SEARCH_KEY,
    folder_started_in,
    own_groups,
    refuse_unread_of_experiment,
    with_sections,
)
from gpuyard.launch.sweeps import TaskFunction, in_sweep, once_a_point
from gpuyard.launch.targets import fault_of_own
from gpuyard.launch.terminal import open_streams, telling_what_compiles
from sim.errors import GpuYardError, override
from sim.files import forget
from sim.report.run_folder import RECORD, Record, collect_record, write_record

RESUMED = {  # program -> what it must have left to be resumed
    "train": "",
    "train_topdrl": "checkpoint",
    "learn": "checkpoint.npz",
}
AUTO = ("train",)  # resume=auto begins anew where nothing was left; the others name the folder
GOES_ON = ("reproduce", "train_worl", "measure_colocation")  # the same command in the same folder
SWEEP = {"-m", "--multirun"}


def going_on(record: Record | None, folder: Path | None, argv: Sequence[str]) -> str | None:
    """How to go on with the run that was under way, in a sentence; None: nothing to say."""
    if SWEEP.intersection(argv):
        words = list(argv)
        if folder is not None:  # before the first point has begun nobody knows it but who typed it
            words = [word for word in words if not word.startswith("hydra.sweep.dir=")]
            words.append(override("hydra.sweep.dir", folder.parent))
        command = shlex.join(_as_typed(words))
        return f"to go on without the points that are finished: {command}"
    if record is None or folder is None:
        return None
    left = RESUMED.get(record.program)
    if left is None and record.program not in GOES_ON:
        return f"{record.program} keeps nothing half-done: start it again"
    if left and not (folder / left).exists():
        return "there is no checkpoint yet: start it again"
    words = [word for word in record.overrides if not word.startswith(("resume=", "fresh="))]
    own = [override("hydra.run.dir", folder)]
    if left is not None:
        own.append(override("resume", "auto" if record.program in AUTO else folder))
    return "to go on: " + shlex.join([*called(record.program), *words, *own])


log = logging.getLogger(__name__)

OF_LEARNING = (  # packages of the extra `learn`
    "gymnasium", "pettingzoo", "ray", "tensorboardX", "torch", "torch_geometric",
)  # fmt: skip
OF_SERVING = ("fastapi", "starlette", "uvicorn")  # of the extra `serve`
FAILED, INTERRUPTED = 1, 130
STOPPED = "interrupted; what was written so far stays in the run's folder"
NAMING = ("experiment", "lineup", "scheduler", "workload")  # groups that name a run's folder
TRACEBACK_WANTED = ("DEBUG", "HYDRA_FULL_ERROR")

_started: list["Launch"] = []  # of this process, for what is told after Ctrl-C


def _as_typed(argv: Sequence[str]) -> list[str]:
    """The command line, its first word split where it is the installed command and a program."""
    head, *words = argv
    return [*head.split(), *words] if head.startswith(COMMAND) else ["python", head, *words]


def _after_words(argv: Sequence[str]) -> int:
    """Where another override may stand: argparse wants all of them together."""
    places = [at for at, word in enumerate(argv) if at and "=" in word and not word.startswith("-")]
    return max(places, default=len(argv) - 1) + 1


@dataclass(frozen=True)
class Launch:
    """One started run: where it writes, what it was told, and what it ran on."""

    folder: Path  # absolute, exists; one per run and per point of a sweep
    config: dict[str, Any]  # the resolved configuration in plain containers
    record: Record  # without labels: those belong to the run of one scheduler
    lock: int | None = None  # file descriptor that keeps other runs out of the folder

    def begin(self, names: Iterable[str] = (), *, assumed: tuple[str, ...] = ()) -> Record:
        """Write `config.yaml` and `record.json`, drop an earlier run's results, `names` among them.

        To be called once all that is asked is known to be possible: till then they stay.
        """
        record = replace(self.record, assumed=assumed)
        forget(self.folder, names)
        write_record(self.folder, record)
        return record

    def build(self, key: str, **objects: Any) -> Any:
        """Make the object that section `key` describes (see `launch_build.build`)."""
        return build(self.config, key, **objects)


def as_typed(config: Mapping[str, Any], key: str, overrides: Sequence[str]) -> Any:
    """The value of `key` as `overrides` have it: Hydra makes a number of the id 49999_4."""
    typed = [word for word in overrides if word.startswith(f"{key}=")]
    if not typed or config[key] is None:
        return config[key]
    return typed[-1].partition("=")[2].strip("'\"")


def program(config_name: str, conf: Path = CONF) -> Callable[[TaskFunction], Callable[[], None]]:
    """Make a task a Hydra program over `<conf>/<config_name>.yaml`, which names the job, too.

    Raises (when called):
        ConfigError: a group is given null or a number instead of a choice.
    """

    def decorate(task: TaskFunction) -> Callable[[], None]:
        def point(cfg: DictConfig) -> Any:
            try:
                return _play(task, cfg)
            except Exception as error:  # Hydra tells of a sweep's first, joblib without a traceback
                _before_hydra(error)
                if in_sweep():
                    raise
                failed.append(error)  # Hydra would print all overrides before it
                return None

        failed: list[Exception] = []

        point.__module__ = f"{task.__module__}.{config_name}"  # Hydra's name of the job ends so
        entry = hydra_library.main(
            version_base=None, config_path=str(conf), config_name=config_name
        )
        run: Callable[[], Any] = entry(point)

        @functools.wraps(task)
        def checked() -> None:
            sys.argv[1:] = sorted(sys.argv[1:], key=lambda word: word not in SWEEP)  # `-m` first
            here = folder_started_in()
            if not any(word.startswith(SEARCH_KEY) for word in sys.argv):
                at = _after_words(sys.argv)
                sys.argv[at:at] = own_groups(here)
            refuse_no_choice(
                [word for word in sys.argv[1:] if "=" in word and not word.startswith("-")],
                lambda group: sorted(path.stem for path in (conf / group).glob("*.yaml")),
            )
            if not _run_alone(config_name, conf, point):
                run()
            if failed:
                raise failed.pop()

        return checked

    return decorate


def _refuse_folder(hydra: Any) -> None:
    """Refuse a folder that Hydra does not write to: sweeps and single runs have a key each."""
    sweeps = hydra.mode == RunMode.MULTIRUN
    other, key = ("run", "sweep") if sweeps else ("sweep", "run")
    for word in hydra.overrides.hydra:
        if word.startswith(f"hydra.{other}.dir="):
            what = "a sweep" if sweeps else "a run without -m"
            raise ConfigError(f"{word} is not read by {what}; use hydra.{key}.dir")


def _run_alone(config_name: str, conf: Path, task: TaskFunction) -> bool:
    """Do what `hydra.main` does where the words are overrides alone; False: it has to do it.

    It would compose everything twice, first to see whether a file has `hydra.mode=MULTIRUN`, which
    is a quarter of a second: here that is found on the way.
    """
    words = sys.argv[1:]
    if any(word.startswith(("-", "hydra.mode=")) for word in words):
        return False
    with initialize_config_dir(str(conf), job_name=config_name, version_base=None):
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        try:
            hydra.run(config_name=config_name, task_function=task, overrides=words)
        except AssertionError:  # what `task` raises does not come here
            return False
    return True


def start(cfg: DictConfig, *, reproduces: bool = False) -> Launch:
    """Check and resolve the configuration; what `Launch.begin` writes is made here.

    `reproduces`: the program reads the section `reproduce`.

    Raises:
        ConfigError: if a required value is missing, an added key is read by nobody, or the
            experiment is one of another program.
    """
    hydra = HydraConfig.get()
    _refuse_folder(hydra)
    overrides = list(hydra.overrides.task)
    refuse_unread_additions(overrides, list(hydra.runtime.choices), cfg, str(hydra.job.config_name))
    experiment = hydra.runtime.choices.get("experiment")
    if experiment is not None and "reproduce" in cfg and not reproduces:
        refuse_reproduction(experiment)
    refuse_unread_of_experiment(str(hydra.job.config_name), cfg, hydra.runtime.choices)
    config = with_sections(str(hydra.job.config_name), resolve(cfg))
    folder = Path(hydra.runtime.output_dir)
    record = collect_record(
        labels=None, program=str(hydra.job.name), command=sys.argv, overrides=overrides,
        seed=config.get("seed"), config_yaml=yaml_text(cfg),
    )  # fmt: skip
    heed_ctrl_c()  # of the point before, in a sweep
    launch = Launch(folder=folder, config=config, record=record, lock=_lock(folder))
    log.info("writing to %s", folder)
    _started.append(launch)
    return launch


def _lock(folder: Path) -> int:
    """A descriptor of the folder, locked until it is closed or the process ends, however it does.

    For this machine: NFS does not tell other ones.

    Raises:
        ConfigError: another run has it, like one that was queued twice.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        key = "sweep" if in_sweep() else "run"
        raise ConfigError(
            f"{folder}: another run writes there now; wait for its end, or give this one a folder "
            f"of its own (hydra.{key}.dir=DIR)"
        ) from None
    except OSError:  # a file system without locks
        log.debug("%s cannot be locked", folder)
    return descriptor


def _play(task: TaskFunction, cfg: DictConfig) -> Any:
    """A program's task at one point; of the module, for joblib copies functions inside others."""
    before = len(_started)
    try:
        result = once_a_point(task, cfg)
        for launch in _started[before:]:
            name = HydraConfig.get().job.name
            assert (launch.folder / RECORD).is_file(), f"{name} began no folder"
        return result
    finally:
        for launch in _started[before:]:
            if launch.lock is not None:
                os.close(launch.lock)


def run_main(main: Callable[[], None]) -> None:
    """Run the `main` of a program, then leave the process as a program should.

    An error that the user can mend, a file that cannot be read or written and what an order or
    placer of his own raises included, prints one message on stderr and exits with status 1; Ctrl-C
    exits with 130, whatever became of it on its way. With DEBUG=1 or HYDRA_FULL_ERROR=1 the
    traceback is shown. Any other error is a fault of the program and keeps its traceback.
    """
    debug = any(os.environ.get(name, "0") not in {"", "0"} for name in TRACEBACK_WANTED)
    OmegaConf.register_new_resolver("of_run", _of_run, replace=True)
    open_streams()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors reach us as they are, not printed by Hydra
    try:
        with heeding_ctrl_c(), telling_what_compiles():
            try:
                main()
            except SystemExit:  # Hydra's, after its help
                sys.stdout.flush()
                raise
            sys.stdout.flush()  # a pipe that nobody reads shows here, not while Python ends
    except KeyboardInterrupt:
        _leave_interrupted("")
    except BrokenPipeError:  # who reads what is printed has seen enough, like `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except Exception as error:
        message, stopped = _message(error), came_of_ctrl_c(error)
        if debug or (message is None and not stopped):
            raise
        if stopped:
            _leave_interrupted(f" (on the way out: {message or repr(error)})")
        print(f"error: {message}", file=sys.stderr)
        print("(DEBUG=1 shows the traceback)", file=sys.stderr)
        sys.exit(FAILED)


def _of_run(*, _root_: Any) -> str:
    """`${of_run:}` of `conf/hydra/default.yaml`, like `_sjf_venus_like`: what was chosen."""
    choices = OmegaConf.select(_root_, "hydra.runtime.choices") or {}
    chosen = (choices.get(group) for group in NAMING)
    return "".join(f"_{name}" for name in chosen if name not in {None, "null"})


def _before_hydra(error: Exception) -> None:
    """Tell of a sweep's point that failed, in its own log too; end a run that nobody reads."""
    if in_sweep() and not came_of_ctrl_c(error):
        message, folder = _message(error), HydraConfig.get().runtime.output_dir
        log.error("%s failed: %s", folder, message or repr(error), exc_info=message is None)
    elif isinstance(error, BrokenPipeError):
        sys.exit(FAILED)  # Hydra would print the overrides


def _leave_interrupted(why: str) -> NoReturn:
    """Say what stays and how to go on."""
    print("\n".join(filter(None, [STOPPED + why, _how_on()])), file=sys.stderr)
    sys.exit(INTERRUPTED)


def _how_on() -> str | None:
    record, folder = next(((each.record, each.folder) for each in _started[-1:]), (None, None))
    return going_on(record, folder, sys.argv)


def _message(error: Exception) -> str | None:
    """What a user is told of `error`; None: it is a fault of the program."""
    lacking = _lacking(error)
    if lacking is not None:
        return lacking
    if isinstance(error, GpuYardError | HydraException | OmegaConfBaseException | YAMLError):
        return explain(error)
    if isinstance(error, OSError) and (error.filename or error.errno == ENOSPC):  # not all name it
        last = f"{_started[-1].folder if _started else 'the folder of results'}, or "
        why = os.strerror(error.errno) if error.errno else error.strerror
        told = f"{error.filename or f'{last}what is printed to'}: {why}"
        return "\n".join(filter(None, [told, _how_on() if error.errno == ENOSPC else None]))
    if isinstance(error, BrokenExecutor | MemoryError):
        return "\n".join(filter(None, [memory_ended(error), _how_on()]))
    if isinstance(error, ValueError) and str(error).startswith("Only one of --run"):
        return f"{error}; leave one of them out"  # Hydra's own
    return fault_of_own(error)


def _lacking(error: BaseException | None) -> str | None:
    """What to install, where `error` came of a package that only an extra brings."""
    seen = set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        package = (getattr(error, "name", None) or "").partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and package in (*OF_LEARNING, *OF_SERVING):
            extra = "serve" if package in OF_SERVING else "learn"
            return f"this needs {package}, which is not installed: pip install 'gpuyard[{extra}]'"
        error = error.__cause__ or error.__context__
    return None
