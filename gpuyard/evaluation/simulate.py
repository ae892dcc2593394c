"""Programs about one run: `scripts/simulate.py` replays a trace, `replay.py` steps through its log.

`python scripts/simulate.py workload=csv workload.path=FILE scheduler=sjf`, then
`python scripts/replay.py path=runs/simulate/FOLDER every=10`.
"""

import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf

from gpuyard.evaluation.assumed import assumed_line, assumptions, warn_of_idle_words, warn_of_unread
from gpuyard.evaluation.experiment import (
    Experiment,
    composition_of,
    experiment_of,
    labels_of,
    may_preempt,
    warn_without_users,
)
from gpuyard.evaluation.explain import explain, row_of
from gpuyard.evaluation.explanation import EXPLAIN_FILES, Explanation
from gpuyard.evaluation.jobs import warm_up
from gpuyard.evaluation.lineup import refuse_size_of_window
from gpuyard.launch.build import check_checkpoint, check_count, check_kinds, check_seconds, resolve
from gpuyard.launch.errors import ConfigError, instead, refuse_unread_additions
from gpuyard.launch.start import Launch, as_typed, program, start
from gpuyard.launch.terminal import run_with_progress
from gpuyard.pages.comparison_page import curve_of_checkpoint
from gpuyard.pages.page import Figure, Table, write_page
from gpuyard.pages.run_page import run_page
from gpuyard.pages.sections import table_of_rows
from sim.arrays import IntArray
from sim.errors import amount
from sim.files import Labels, write_atomically
from sim.jobs import JobTable
from sim.protocols import Scheduler
from sim.report.figures import utilisation_queue
from sim.report.perfetto import TRACE_FILE, write_perfetto
from sim.report.replay import Replay, event_line, heat_map
from sim.report.run_folder import TIMELINE_BINS, Record, write_run
from sim.report.run_tables import (
    EVENTS_FILE,
    SERVERS_FILE,
    decision_columns,
    event_columns,
    parquet_bytes,
    read_recorded,
    server_columns,
)
from sim.report.summary import headline, summarise
from sim.report.timeline import gpu_lists, span_s, timeline_of
from sim.run import Run
from sim.simulator import compiled_but

log = logging.getLogger(__name__)


@program("simulate")
def main(cfg: DictConfig) -> None:
    """Compose, simulate, write."""
    launch = start(cfg)
    config = launch.config
    check_outputs(config)
    experiment = experiment_of(config)
    scheduler = composition_of(config, experiment.world.partitions)
    wondered = as_typed(config, "explain", launch.record.overrides)
    warn_of_unread(cfg, launch.record.overrides)
    warn_of_idle_words(config, launch.record.overrides)
    if config["part"] is None:
        refuse_size_of_window(config["workload"], launch.record.overrides)
    jobs = _jobs(experiment, config["part"], config["window"], wondered)
    labels = _labels(experiment, scheduler, config)
    preempts = may_preempt(scheduler)
    assumed = assumptions(config, experiment, labels.information, preempts=preempts)
    line = assumed_line(experiment, assumed)
    log.info("%s", line)
    warn_without_users(scheduler, jobs)
    launch.begin(OUTPUTS)
    compiled = config["compiled"]
    run = _played(experiment, scheduler, jobs, compiled)
    world, seed = experiment.world, experiment.seed
    found = None if wondered is None else explain(
        run, world, scheduler, str(wondered), seed=seed, compiled=compiled
    )  # fmt: skip
    record = replace(launch.record, labels=labels, assumed=assumed)
    metrics = _write(launch, run, record, found)
    title = f"{labels.scheduler} on {labels.workload}, {labels.topology}"
    print("\n".join([title, *(f"  {words}" for words in (line, *experiment.gpu_notes))]))
    _print_headline(metrics, launch.folder)
    if found is not None:
        print(f"\n{found.text()}")


def _labels(experiment: Experiment, scheduler: Scheduler, config: Mapping[str, Any]) -> Labels:
    part, window = config["part"], config["window"]
    labels = labels_of(experiment, scheduler, window=window, role=config["role"])
    if part is None:
        return labels
    return replace(labels, stretch=experiment.stretch(part, window), part=part)


def _played(experiment: Experiment, scheduler: Scheduler, jobs: JobTable, wanted: bool) -> Run:
    """The run, in compiled code where that is wanted and can be."""
    simulator = experiment.simulator(jobs)
    why = simulator.python_decides(scheduler)
    compiled = wanted and not why
    how = compiled_but(simulator.asks(scheduler)) if compiled else ""
    log.info("decides: %s", how or f"python ({why or 'compiled=false'})")
    warm_up(experiment.world, scheduler, compiled=compiled)
    return run_with_progress(simulator, scheduler, experiment.seed, compiled=compiled)


MANY_CHANGES = 1_000_000  # each GPU that a job takes or gives back; from here on it takes seconds


def _write(
    launch: Launch, run: Run, record: Record, found: Explanation | None
) -> Mapping[str, float | int]:
    """Every file; the metrics."""
    changes = len(gpu_lists(run.log.gpus).ids)
    if changes >= MANY_CHANGES:
        log.info("played in %.0f s; measuring %s changes of GPUs", run.loop_wall_s, f"{changes:,}")
    metrics = summarise(run)
    write_outputs(launch.folder, run, launch.config)
    write_run(launch.folder, run, metrics, record)
    more: list[Table | Figure] = []
    if found is not None:
        found.write(launch.folder)
        title, rows = f"Why job {found.job_id} waited", found.record()["rows"]
        note = "A row is an event, or consecutive decisions with one reason; explain.csv has all."
        more = [table_of_rows(title, rows, note=note)]
    if launch.config["page"]:
        more += curve_of_checkpoint(launch.config["scheduler"].get("checkpoint"))
        write_page(launch.folder, run_page(run, metrics, record, more=more))
    return metrics


def _jobs(
    experiment: Experiment, part: str | None, window: int, asked: str | int | None
) -> JobTable:
    """The whole workload, or one window of a part; the job that is `asked` about is in it."""
    if part is None and window != 0:
        raise ConfigError(
            f"window is {window} but part is null; add part=test (or train, validation)"
        )
    jobs = experiment.window(part, window)
    if asked is not None:
        row_of(jobs.job_id, str(asked))
    return jobs


def _print_headline(metrics: Mapping[str, float | int], folder: Path) -> None:
    for key, words in headline(metrics).items():
        print(f"  {key:20} {words}")
    print(f"results in {folder}")


DECISIONS_FILE = "decisions.parquet"
FIGURES = {"gantt": "gantt.png", "heatmap": "heatmap.png", "utilisation": "utilisation_queue.png"}
OUTPUTS = (
    DECISIONS_FILE, EVENTS_FILE, SERVERS_FILE, TRACE_FILE, *FIGURES.values(),
    *EXPLAIN_FILES,
)  # fmt: skip


def check_outputs(config: Mapping[str, Any]) -> None:
    """Raise ConfigError for wishes that nothing fulfils, before anything is simulated."""
    figures = config["figures"]
    if not isinstance(figures, list):
        raise ConfigError(f"figures is {figures!r}; it must be a list, like figures=[gantt]")
    for name in figures:
        if name not in [*FIGURES]:
            raise ConfigError(f"figures has {name!r}; {instead(name, FIGURES)}")
    check_seconds(config, "figure_at_s")
    if config["figure_at_s"] is not None and "heatmap" not in figures:
        raise ConfigError(
            f"figure_at_s is {config['figure_at_s']}, but no heat map is drawn; add "
            "figures=[heatmap]"
        )
    job = config["explain"]
    if job is not None and (isinstance(job, bool) or not isinstance(job, str | int | float)):
        raise ConfigError(f"explain is {job!r}; it must be the id of a job, or null")
    check_kinds(config, bool, "compiled", "log_decisions", "perfetto", "page")
    check_checkpoint(config)


def write_outputs(folder: Path, run: Run, config: Mapping[str, Any]) -> None:
    """Write logs, trace and figures, each whole or not at all."""
    if config["log_decisions"]:
        write_atomically(folder / DECISIONS_FILE, parquet_bytes(decision_columns(run)))
        write_atomically(folder / EVENTS_FILE, parquet_bytes(event_columns(run)))
        write_atomically(folder / SERVERS_FILE, parquet_bytes(server_columns(run)))
    if config["perfetto"]:
        write_perfetto(run, folder / TRACE_FILE)
    for name in config["figures"]:
        _draw(name, run, folder / FIGURES[name], config["figure_at_s"])


def _draw(name: str, run: Run, path: Path, at_s: float | None) -> None:
    if name == "gantt":
        from sim.report.figure_gpus import gantt

        gantt(run, path=path)
    elif name == "heatmap":
        from sim.report.figure_gpus import heatmap

        first_s, last_s = span_s(run)
        if at_s is not None and not first_s <= at_s <= last_s:
            log.warning("figure_at_s is %s, outside the run, %s to %s s", at_s, first_s, last_s)
        heatmap(run, path=path, at_s=at_s)
    else:
        utilisation_queue({run.scheduler: timeline_of(run, bins=TIMELINE_BINS)}, path=path)


NARROWEST = 100  # columns where standard output is no terminal


@program("replay")
def replay_log(cfg: DictConfig) -> None:
    """Read, replay, print; the whole log is checked, whatever is printed of it."""
    from hydra.core.hydra_config import HydraConfig

    words = list(HydraConfig.get().overrides.task)
    refuse_unread_additions(words, [], cfg, "replay")
    config = resolve(cfg)
    config["job"] = as_typed(config, "job", words)
    _check_stops(config)
    folder = Path(str(config["path"]))
    replay = Replay(read_recorded(folder), max_tenants=_max_tenants(folder))
    stops = _chosen(replay, config)
    if not len(stops):
        print("no event is of that job and time")
    if config["interactive"] and sys.stdin.isatty():
        walk(replay, stops, lambda event: _show(replay, event, config["heatmap"]))
    else:
        for event in stops.tolist():
            replay.go_to(event + 1)
            _show(replay, event, config["heatmap"])
    replay.finish()
    jobs = len(replay.recorded.job_id)
    print(
        f"{amount(len(replay), 'event')} of {amount(jobs, 'job')}: consistent, every GPU was "
        "given back"
    )


def _chosen(replay: Replay, config: Mapping[str, Any]) -> IntArray:
    """(n,) numbers of the events to print; ConfigError: no job has the id that is asked for."""
    events = replay.recorded.log
    wanted = np.ones(len(events.kind), dtype=np.bool_)
    if config["from_s"] is not None:
        wanted &= events.time_s >= config["from_s"]
    if config["to_s"] is not None:
        wanted &= events.time_s <= config["to_s"]
    if config["job"] is not None:
        rows = np.flatnonzero(replay.recorded.job_id == str(config["job"]))
        if not len(rows):
            names = ", ".join(map(str, replay.recorded.job_id[:3]))
            raise ConfigError(f"job is {config['job']!r}; no job has that id, only like {names}")
        wanted &= np.isin(events.job, rows)
    chosen: IntArray = np.flatnonzero(wanted)[:: config["every"]]
    return chosen


def _show(replay: Replay, event: int, with_map: bool) -> None:
    print(event_line(replay, event))
    if with_map:
        size = shutil.get_terminal_size((NARROWEST, 50))
        print(heat_map(replay, width=size.columns, height=max(size.lines - 5, 10)))
        print()


def _max_tenants(folder: Path) -> int:
    """How many jobs a GPU of that run could hold, from its config.yaml."""
    path = folder / "config.yaml"
    if not path.is_file():
        raise ConfigError(f"{path} is not there; path must name the folder of a simulated run")
    value = OmegaConf.select(OmegaConf.load(path), "max_tenants")
    if not isinstance(value, int):
        raise ConfigError(f"{path}: max_tenants is {value!r}; path must name a simulated run")
    return value


def _check_stops(config: Mapping[str, Any]) -> None:
    """Raise ConfigError for values of the wrong kind."""
    check_count("every", config["every"])
    check_seconds(config, "from_s", "to_s")
    from_s, to_s = config["from_s"], config["to_s"]
    if None not in (from_s, to_s) and to_s < from_s:
        raise ConfigError(f"to_s is {to_s}, before from_s, {from_s}")
    check_kinds(config, bool, "heatmap", "interactive")


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
    import termios  # not on Windows
    import tty

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
