"""From arguments in Python to a configuration as a program composes it, and to schedulers."""

import inspect
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import yaml
from hydra import initialize_config_dir
from omegaconf import OmegaConf, open_dict

from gpuyard.evaluation.assumed import warn_of_unread
from gpuyard.evaluation.experiment import composition_of, in_partitions
from gpuyard.evaluation.lineup import OF_ENTRIES, refuse_for_all
from gpuyard.launch.build import build, resolve
from gpuyard.launch.errors import CONF, ConfigError, nearest, refuse_unread_additions
from gpuyard.launch.own import choices_of, composed_of, refuse_unread_of_experiment, searching
from gpuyard.launch.terminal import reworded
from sim.arrays import FloatArray
from sim.engine.composed import QueueScheduler
from sim.engine.given import check_scheduler
from sim.errors import SignalError, override
from sim.protocols import Placer, Scheduler, Sharing
from sim.topology.topology import Topology
from sim.view import JobColumns, Signal

if TYPE_CHECKING:
    import pandas as pd

Trace: TypeAlias = "str | Path | pd.DataFrame"
Cluster: TypeAlias = str | Path | Topology
YAML = {".yaml", ".yml"}
FRAME = "jobs.csv"  # what a frame is written to; its first row stands in line 2
SACCT_KEY = "JobID"  # what begins a header that `sacct --parsable2` wrote
GIVEN = ("job_id", "submit_s", "num_gpus", "duration_s")  # columns that workload=csv expects

SAID = {  # keys that arguments say -> what to use
    "seed": "the argument seed", "agents": "the argument agents",
    "agents.count": "the argument agents", "topology": "the argument cluster",
    "workload": "the argument trace", "workload.path": "the argument trace",
}  # fmt: skip


@contextmanager
def composed(
    program: str, *, trace: Trace, cluster: Cluster, overrides: Sequence[str], seed: int
) -> Iterator[dict[str, Any]]:
    """The resolved configuration of a program; inside, Hydra composes further ones.

    Args:
        program: a file of `conf/`, like simulate.
        trace: name of a workload of `conf/workload`; file of jobs (CSV, SWF or what
            `sacct --parsable2` wrote); or a frame with the columns of `workload=csv`.
        cluster: name of a topology of `conf/topology`; yaml file like those, or that describes one
            (docs/clusters.md); or a topology.
        overrides: further words, as on the command line.
        seed: of generated jobs, predictions and schedulers.

    Raises:
        ConfigError: naming the argument, its value and what there is.
    """
    with tempfile.TemporaryDirectory(prefix="gpuyard-") as place:
        where, whole = _cluster(cluster)
        unread = [word for word in overrides if word.lstrip("+~").startswith("topology.")]
        if unread and whole is not None:
            raise ConfigError(f"overrides has {unread[0]!r}, but cluster is described as a whole")
        words = [*_trace_words(trace, Path(place)), f"seed={seed}", *where]
        with initialize_config_dir(str(CONF), version_base=None), searching(overrides):
            found = composed_of(program, [*words, *overrides], with_hydra=True)
            with open_dict(found):
                choices = found.pop("hydra").runtime.choices
            groups = [each.name for each in CONF.iterdir()]
            refuse_unread_additions(list(overrides), groups, found, program)
            if any(word.startswith("experiment=") for word in overrides):
                refuse_unread_of_experiment(program, found, choices)
            config = resolve(found)
            if whole is not None:
                config["topology"] = whole
            with reworded(partial(_of_frame, place)):
                yield config


def _of_frame(place: str, text: str) -> str:
    """The same, but lines of the file that a frame was written to are rows of the frame."""
    said = text.replace(str(Path(place) / FRAME), "trace")
    if said == text:
        return text
    return re.sub(r"\bline (\d+)", lambda at: f"row {int(at[1]) - 2}", said)


def known(group: str, name: str, argument: str) -> str:
    """`name`, if it is a choice of a group, or of a folder of the user's own.

    Raises:
        ConfigError: it is none; with the nearest.
    """
    names = choices_of(group)
    if name in names:
        return name
    hint = nearest(name, [each for each in names if not each.startswith("_")])
    fix = f"did you mean {hint!r}?" if hint else f"it is none of the files of conf/{group}"
    raise ConfigError(f"{argument} is {name!r}; {fix}")


def listed(overrides: Sequence[str], refused: Mapping[str, str] | None = None) -> list[str]:
    """The overrides of a caller; `refused`: keys that would not be read, and what to use.

    Raises:
        ConfigError: they are one text, no texts, or one of them would not be read.
    """
    if isinstance(overrides, str) or not all(isinstance(word, str) for word in overrides):
        fix = f"[{overrides!r}]" if isinstance(overrides, str) else '["workload.num_jobs=30"]'
        raise ConfigError(f"overrides is {overrides!r}; it must be a list of texts, like {fix}")
    for word in overrides:
        key = word.lstrip("+~").partition("=")[0]
        if use := (refused or {}).get(key) or (refused or {}).get(f"{key.partition('.')[0]}."):
            raise ConfigError(f"overrides has {word!r}, which is not read here; use {use}")
    return list(overrides)


def _trace_words(trace: Trace, place: Path) -> list[str]:
    if isinstance(trace, str) and not (Path(trace).is_file() or Path(trace).suffix or "/" in trace):
        return [f"workload={known('workload', trace, 'trace')}"]
    if isinstance(trace, str | Path):
        return _file_words(Path(trace))
    if not hasattr(trace, "columns"):
        what = type(trace).__name__
        raise ConfigError(f"trace is a {what}; it must be a pandas frame, a file, or a name")
    path = place / FRAME
    columns = {*trace.columns, *(["submit_s"] if "submit_time" in trace.columns else [])}
    missing = [name for name in GIVEN if name not in columns]
    if missing:
        raise ConfigError(
            f"trace has no column {missing[0]!r}; rename yours: it needs {', '.join(GIVEN)}"
        )
    trace.to_csv(path, index=False)
    extra = [name for name in map(str, trace.columns) if name not in GIVEN]
    allowed = yaml.safe_load((CONF / "workload" / "csv.yaml").read_text("utf-8"))["columns"]
    further = [f"workload.columns.{name}={name}" for name in extra if name in allowed]
    return ["workload=csv", override("workload.path", path), *further]


def _file_words(path: Path) -> list[str]:
    """The reader for a file: by its name or its first line."""
    if not path.is_file():
        raise ConfigError(f"trace is {str(path)!r}, and there is no such file in {Path.cwd()}")
    plain = path.suffix != ".gz"
    with path.open("rb") as file:
        first = file.readline().decode("utf-8", errors="replace") if plain else ""
    if ".swf" in path.suffixes:
        return ["workload=swf", override("workload.path", path.resolve())]
    reader = "sacct" if "|" in first and SACCT_KEY in first else "csv"
    return [f"workload={reader}", override("workload.path", path.resolve())]


def _cluster(cluster: Cluster) -> tuple[list[str], Topology | dict[str, Any] | None]:
    """The words that name or describe it; else the whole section `topology`, or what is built."""
    if isinstance(cluster, Topology):
        return [], cluster
    if isinstance(cluster, str) and Path(cluster).suffix not in YAML:
        return [f"topology={known('topology', cluster, 'cluster')}"], None
    if not isinstance(cluster, str | Path):
        raise ConfigError(f"cluster is {cluster!r}; it must be a name, a yaml file, or a Topology")
    if Path(cluster).suffix not in YAML or not Path(cluster).is_file():
        raise ConfigError(f"cluster is {str(cluster)!r}; it must be a yaml file that is there")
    section = yaml.safe_load(Path(cluster).read_text(encoding="utf-8"))
    if isinstance(section, dict) and "_target_" in section:
        return [], section
    return ["topology=described", override("topology.path", Path(cluster).resolve())], None


Keys: TypeAlias = Callable[[JobColumns], FloatArray]
Asked: TypeAlias = "str | Scheduler | type[Scheduler] | Keys"
SPREAD = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
PARTS = ("placer", "sharing")  # of a composition, which a class may ask for
EVERYTHING_REAL = Signal.PREDICTION | Signal.PROFILE | Signal.INTERFERENCE | Signal.SPEED


class ByKeys(QueueScheduler):
    """A queue in the order of a function: the least key starts first, ties by submission."""

    order_needs = EVERYTHING_REAL

    def __init__(self, function: Keys, *, placer: Placer, sharing: Sharing) -> None:
        """Who finds no place lets the ones behind it try."""
        super().__init__(placer=placer, sharing=sharing, skip_blocked=True)
        self.order_name = getattr(function, "__name__", type(function).__name__)
        named = getattr(function, "__qualname__", self.order_name)
        self.called = f"{function.__module__}.{named}"  # in errors
        self._function = function

    def keys(self, jobs: JobColumns) -> FloatArray:
        """(J,) what the function says of each job."""
        try:
            return self._function(jobs)
        except SignalError as error:
            what, asked, _ = str(error).partition(", which this scheduler did not ask for")
            if not asked:
                raise
            raise SignalError(
                f"{self.called}: {what}, which a function cannot ask for; read jobs.estimate_s or "
                "jobs.predicted_remaining_s (the truth with estimator=oracle), or write a class of "
                "orders with order_needs = Signal.DURATION"
            ) from None


OF_NAMES = tuple(name for name in OF_ENTRIES if name != "belief")  # one world for all
RULES = re.compile(r"(placer|sharing|forwarding)[.=]")
WORD = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")  # blanks in quotes are part of it


def words_of(asked: str) -> list[str]:
    """Overrides for a text like `sjf` or `sjf placer=best_fit sharing=selective`.

    Raises:
        ConfigError: there is no such scheduler, or a word is not of its composition.
    """
    name, *further = WORD.findall(asked) or [""]
    _refuse_bare(name, further)
    refuse_for_all(f"scheduler={asked!r}", further, OF_NAMES, all_words=True)
    # The key of the command line, which a composition alone does not have.
    further = [f"++{word}" if word.startswith("checkpoint=") else word for word in further]
    return [f"scheduler={known('scheduler', name, 'scheduler')}", *further]


def _refuse_bare(name: str, further: Sequence[str]) -> None:
    """Refuse a key of the scheduler's own that does not say so."""
    firsts = {word: re.split(r"[.=]", word.lstrip("+"))[0] for word in further}
    bare = {word: key for word, key in firsts.items() if key not in OF_NAMES}
    if not bare or name not in choices_of("scheduler"):
        return
    found = composed_of("composition", [f"scheduler={name}", "++checkpoint=null"])
    own = cast(dict[str, Any], OmegaConf.to_container(found["scheduler"], resolve=False))
    for word, key in bare.items():
        if key in own:
            raise ConfigError(
                f"scheduler has {word!r}, which is {name}'s own; write scheduler.{word.lstrip('+')}"
            )


def scheduler_of(
    asked: Asked, config: Mapping[str, Any], partitions: int, overrides: Sequence[str] = ()
) -> Scheduler:
    """The scheduler that is named or handed in; call it where Hydra is composing.

    Args:
        asked: a name of `conf/scheduler`, with overrides of its composition behind it; a scheduler
            (`gpuyard.load_policy` gives one); a class of schedulers; or a function from the
            table of jobs to one key a job, the least to start first.
        config: of the experiment; its belief is what the scheduler is told.
        partitions: of the cluster; several queues get the forwarding rule of the composition.
        overrides: of the experiment; those of RULES hold where `asked` says nothing else.

    Raises:
        ConfigError: it is none of these, or owns one queue where there are several.
    """
    words = words_of(asked) if isinstance(asked, str) else []
    if words:
        path = config.get("checkpoint")
        words.insert(1, "++checkpoint=null" if path is None else override("++checkpoint", path))
    said = {word.partition("=")[0] for word in words}
    rules = [word for word in overrides if RULES.match(word) and word.partition("=")[0] not in said]
    words = [*rules, *words]
    found = composed_of("composition", words)
    if isinstance(asked, str):
        warn_of_unread(found, words)
    composition = {**resolve(found), "belief": config["belief"]}
    if isinstance(asked, str):
        return composition_of(composition, partitions)
    return in_partitions(_made(asked, composition), composition, partitions)


def _made(asked: object, composition: Mapping[str, Any]) -> Scheduler:
    if isinstance(asked, type):
        takes = inspect.signature(asked).parameters
        parts = {name: build(composition, name) for name in PARTS if name in takes}
        if "skip_blocked" in takes:
            parts["skip_blocked"] = True
        asks = [n for n, each in takes.items() if each.default is each.empty]
        spread = {n for n, each in takes.items() if each.kind in SPREAD}
        if lacking := [name for name in asks if name not in {*parts, *spread}]:
            name = asked.__name__
            raise ConfigError(
                f"scheduler {name} needs {lacking[0]}; hand in what {name}(...) gives"
            )
        asked = asked(**parts)
    elif not hasattr(asked, "decide"):
        if callable(asked):
            return ByKeys(asked, **{name: build(composition, name) for name in PARTS})
        raise ConfigError(
            f"scheduler is {asked!r}; it must be a name, a scheduler, a class of schedulers or a "
            f"function from jobs to keys"
        )
    check_scheduler(asked)
    return cast(Scheduler, asked)
