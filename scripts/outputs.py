"""What a simulated run leaves behind beside its results, where the configuration asks for it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launch_errors import ConfigError, nearest

from sim.report.atomic import write_atomically
from sim.report.decision_table import decision_columns
from sim.report.event_table import EVENTS_FILE, SERVERS_FILE, event_columns, server_columns
from sim.report.parquet import parquet_bytes
from sim.report.perfetto import TRACE_FILE, write_perfetto
from sim.run import Run

DECISIONS_FILE = "decisions.parquet"
FIGURES = {
    "gantt": "gantt.png",
    "heatmap": "heatmap.png",
    "utilisation": "utilisation_queue.png",
}
OUTPUTS = (DECISIONS_FILE, EVENTS_FILE, SERVERS_FILE, TRACE_FILE, *FIGURES.values())
TIMELINE_BINS = 500


def check_outputs(config: Mapping[str, Any]) -> None:
    """Refuse wishes that nothing fulfils, before anything is simulated.

    Raises:
        ConfigError: naming key, value and what is there to choose from.
    """
    figures, at_s = config["figures"], config["figure_at_s"]
    if not isinstance(figures, list):
        raise ConfigError(f"figures is {figures!r}; it must be a list, like figures=[gantt]")
    for name in figures:
        if name not in FIGURES:
            hint = nearest(str(name), FIGURES) or f"one of {', '.join(FIGURES)}"
            raise ConfigError(f"figures has {name!r}; did you mean {hint}?")
    if at_s is not None and (isinstance(at_s, bool) or not isinstance(at_s, int | float)):
        raise ConfigError(f"figure_at_s is {at_s!r}; it must be a number of seconds or null")
    for key in ("compiled", "log_decisions", "perfetto"):
        if not isinstance(config[key], bool):
            raise ConfigError(f"{key} is {config[key]!r}; it must be true or false")
    if config["checkpoint"] is not None and "checkpoint" not in config["scheduler"]:
        raise ConfigError(
            f"checkpoint is {config['checkpoint']!r}, which no scheduler but marl reads; "
            "add scheduler=marl"
        )


def drop_outputs(folder: Path) -> None:
    """Remove what an earlier run in the same folder left."""
    for name in OUTPUTS:
        (folder / name).unlink(missing_ok=True)


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
        from sim.report.figure_gantt import gantt

        gantt(run, path=path)
    elif name == "heatmap":
        from sim.report.figure_heatmap import heatmap

        heatmap(run, path=path, at_s=at_s)
    else:
        from sim.metrics.timeline import timeline_of
        from sim.report.figure_utilisation import utilisation_queue

        utilisation_queue({run.scheduler: timeline_of(run, bins=TIMELINE_BINS)}, path=path)
