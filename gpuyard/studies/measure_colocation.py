"""Measure co-location on this machine: `python scripts/measure_colocation.py`."""

from collections.abc import Iterable, Iterator
from typing import Any

from omegaconf import DictConfig
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from gpuyard.launch.errors import ConfigError
from gpuyard.launch.plain_rules import SEED, Rules, check_plain
from gpuyard.launch.start import program, start
from gpuyard.launch.terminal import error_console, table_console
from interference.measuring.campaign import Campaign, measure_all
from interference.measuring.device import Device, find_device
from interference.measuring.table import (
    ROWS_FILE,
    SOLOS_FILE,
    Result,
    Row,
    plan,
    rows_of,
    solos_of,
    write_rows,
    write_solos,
)
from interference.measuring.together import Timing

RULES: Rules = SEED | {
    "warmup_s": (False, 0),
    "measure_s": (False, 0),
    "least_steps": (True, 1),
    "patience_s": (False, 0),
    "repeats": (True, 1),
    "cpu.cores": (True, 1),
}
SHARED_BY = {
    "time_slicing": "the GPU's own time slicing (no MPS daemon answers)",
    "mps": "NVIDIA's Multi-Process Service",
    "cpu_cores": "turns on the cores that all loops are pinned to",
    "unpinned": "nothing: this system pins no process to a core, the speeds say little",
}


@program("measure_colocation")
def main(cfg: DictConfig) -> None:
    """Measure group by group, write after each, print."""
    launch = start(cfg)
    config = launch.config
    check_plain(config, RULES)
    for name in (ROWS_FILE, SOLOS_FILE):
        (launch.folder / name).unlink(missing_ok=True)
    device = find_device(config["device"], config["cpu"]["cores"])
    campaign = _campaign(config, device)
    print(f"{device.gpu_type}, shared by {SHARED_BY[device.how]}")
    results: list[Result] = []
    for result in _told(measure_all(campaign, launch.folder), campaign):
        results.append(result)
        write_rows(launch.folder / ROWS_FILE, rows_of(results, device))
        write_solos(launch.folder / SOLOS_FILE, solos_of(results, device))
    table_console().print(_table(rows_of(results, device)))
    print(f"results in {launch.folder}")


def _campaign(config: dict[str, Any], device: Device) -> Campaign:
    chosen = config[device.form]
    for key in ("profiles", "mixes"):
        if not isinstance(chosen[key], list):
            raise ConfigError(f"{device.form}.{key} is {chosen[key]!r}; it must be a list")
    if chosen["pairs"] != "all" and not isinstance(chosen["pairs"], list):
        raise ConfigError(f"{device.form}.pairs is {chosen['pairs']!r}; use all or a list of pairs")
    if not chosen["profiles"]:
        raise ConfigError(f"{device.form}.profiles is empty; name one at least, like mlp/32")
    return Campaign(
        groups=plan(chosen["profiles"], chosen["pairs"], chosen["mixes"]),
        makers=config["makers"],
        device=device,
        timing=Timing(
            **{key: config[key] for key in ("warmup_s", "measure_s", "least_steps", "patience_s")}
        ),
        repeats=config["repeats"],
        seed=config["seed"],
    )


def _told(results: Iterable[Result], campaign: Campaign) -> Iterator[Result]:
    """The results as they come, with a bar on stderr."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("groups, {task.fields[last]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=error_console(), transient=True) as bar:
        total = campaign.repeats * len(campaign.groups)
        task = bar.add_task("measuring", total=total, last="starting")
        for result in results:
            bar.update(task, advance=1, last=" + ".join(result.members))
            yield result


def _table(rows: list[Row]) -> Table:
    """Groups of two and more; loops alone are at 1 by definition."""
    table = Table("victim", "beside", "normalised speed", title="Speed together over alone")
    for row in rows:
        if row.aggressors:
            speed = f"{row.norm_speed:.3f}" if row.feasible else "does not fit"
            table.add_row(row.victim, " + ".join(row.aggressors), speed)
    return table
