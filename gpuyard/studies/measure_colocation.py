"""Measure co-location on this machine: `python scripts/measure_colocation.py`."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig

from gpuyard.launch.build import SEED, Rules, check_plain, check_texts
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.start import program, start
from gpuyard.launch.terminal import RunCount, table_console
from interference.data_sets import ROWS_FILE, SOLOS_FILE, write_csv
from interference.measuring.table import (
    Group,
    groups_to_measure,
    model_and_batch,
    part_name,
    read_part,
    tables_of,
    write_part,
)
from interference.measuring.together import (
    Device,
    LoopTask,
    MeasureError,
    Timing,
    Together,
    find_device,
    memory_held_mib,
    run_together,
)
from interference.rows import CoRows
from sim.report.table_text import RichTable

log = logging.getLogger(__name__)

PARTS = "parts"
IDLE = 0.9  # share of its core that a loop alone gets on an idle machine, at least
HELD_MIB = 1024.0  # on a GPU that somebody else uses


@dataclass(frozen=True)
class Campaign:
    """All that decides what is measured."""

    groups: Mapping[Group, tuple[LoopTask, ...]]  # in the order in which they are measured
    device: Device
    timing: Timing
    repeats: int  # rounds over all groups, so that a machine that drifts shows


def measure_all(campaign: Campaign, folder: Path) -> Iterator[tuple[Group, int, Together]]:
    """Each group of each round, as it is measured; stored in `folder`/parts before it is given.

    A group is passed over if one of its profiles does not even fit alone.

    Raises:
        MeasureError: a loop that died, or a stored file that is none.
    """
    uuid = campaign.device.uuid
    before_mib = 0.0 if uuid is None else memory_held_mib(uuid)
    if before_mib > HELD_MIB:
        log.warning("others hold %.0f MiB of the GPU: their work slows every loop", before_mib)
    for round_ in range(campaign.repeats):
        too_large: set[str] = set()
        for group in campaign.groups:
            if too_large & set(group.members):
                log.warning("%s: not run, one does not fit alone", " + ".join(group.members))
                continue
            found = _measured_or_read(campaign, group, round_, folder / PARTS, before_mib)
            if len(group.members) == 1 and not found.feasible:
                log.warning("does not fit alone, left out: %s", found.words)
                too_large |= set(group.members)
            yield group, round_, found


def _measured_or_read(
    campaign: Campaign, group: Group, round_: int, parts: Path, before_mib: float
) -> Together:
    tasks, device, timing = campaign.groups[group], campaign.device, campaign.timing
    part = parts / part_name(tasks, timing, device, round_)
    found = read_part(part)
    if found is not None:
        return found
    found = run_together(tasks, timing, uuid=device.uuid, before_mib=before_mib)
    write_part(part, found)
    # One loop alone on its cores leaves them idle only while it waits for others.
    if device.form == "cpu" and len(found.busy) == 1 and found.busy[0] < IDLE:
        words = "%s alone got only %.0f %% of a core: others use this machine, speeds are rough"
        log.warning(words, group.members[0], 100.0 * found.busy[0])
    return found


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
    device = find_device(config["device"], config["cpu"]["cores"])
    campaign = _campaign(config, device)
    launch.begin((ROWS_FILE, SOLOS_FILE))
    print(f"{device.gpu_type}, shared by {SHARED_BY[device.how]}")
    measured: dict[Group, dict[int, Together]] = {}
    total = campaign.repeats * len(campaign.groups)
    with RunCount("measuring", total, unit="groups") as count:
        for group, round_, found in measure_all(campaign, launch.folder):
            measured.setdefault(group, {})[round_] = found
            rows, solos, odd = tables_of(measured, device)
            write_csv(launch.folder, rows, solos)
            count.tell(" + ".join(group.members))
    for group in odd:
        log.warning("%s: left out, faster than twice alone; measure on an idle machine",
                    " + ".join(group.members))  # fmt: skip
    table_console().print(_table(rows))
    print(f"results in {launch.folder}")


def _campaign(config: dict[str, Any], device: Device) -> Campaign:
    chosen = config[device.form]
    check_texts(f"{device.form}.profiles", chosen["profiles"], "of MODEL/BATCH, like [mlp/32]",
                empty=False)  # fmt: skip
    if chosen["pairs"] != "all" and not isinstance(chosen["pairs"], list):
        raise ConfigError(f"{device.form}.pairs is {chosen['pairs']!r}; use all or a list of pairs")
    for key in ("mixes", *(["pairs"] if chosen["pairs"] != "all" else [])):
        if not isinstance(chosen[key], list):
            raise ConfigError(f"{device.form}.{key} is {chosen[key]!r}; it must be a list")
        for at, each in enumerate(chosen[key]):
            check_texts(f"{device.form}.{key}[{at}]", each, "of MODEL/BATCH, like [mlp/32, cnn/8]")
    groups = groups_to_measure(chosen["profiles"], chosen["pairs"], chosen["mixes"])
    keys = ("warmup_s", "measure_s", "least_steps", "patience_s")
    return Campaign(
        groups={group: _tasks(config, device, group) for group in groups},
        device=device,
        timing={key: config[key] for key in keys},
        repeats=config["repeats"],
    )


def _tasks(config: dict[str, Any], device: Device, group: Group) -> tuple[LoopTask, ...]:
    """One a member; equal ones draw different data."""
    tasks, makers = [], config["makers"]
    for seed, profile in enumerate(group.members, config["seed"]):
        model, batch = model_and_batch(profile)
        if model not in makers:
            raise MeasureError(
                f"profiles: no makers.{model}; there are {', '.join(makers)}. One of your own: "
                f"+makers.{model}=module.function"
            )
        tasks.append(LoopTask(profile, makers[model], batch, device.form, device.cores, seed))
    return tuple(tasks)


def _table(rows: CoRows) -> RichTable:
    """Groups of two and more; loops alone are at 1 by definition."""
    lines = tuple(
        (victim, " + ".join(others), "does not fit" if np.isnan(speed) else f"{speed:.3f}")
        for victim, others, speed in zip(rows.victim, rows.aggressors, rows.norm_speed, strict=True)
        if others
    )
    headers = ("victim", "beside", "normalised speed")
    return RichTable(headers, "Speed together over alone", lines, texts=2)
