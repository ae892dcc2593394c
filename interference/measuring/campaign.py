"""Measures every group, round by round; what is measured already is read."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from interference.measuring.device import Device, MeasureError, memory_held_mib
from interference.measuring.messages import LoopTask
from interference.measuring.table import (
    Group,
    Result,
    batch_of,
    model_of,
    part_name,
    read_part,
    write_part,
)
from interference.measuring.together import Timing, run_together

log = logging.getLogger(__name__)

PARTS = "parts"
IDLE = 0.9  # share of its core that a loop alone gets on an idle machine, at least
HELD_MIB = 1024.0  # on a GPU that somebody else uses


@dataclass(frozen=True)
class Campaign:
    """All that decides what is measured."""

    groups: Sequence[Group]
    makers: Mapping[str, str]  # model -> dotted path of the function that makes it
    device: Device
    timing: Timing
    repeats: int  # rounds over all groups, so that a machine that drifts shows
    seed: int


def measure_all(campaign: Campaign, folder: Path) -> Iterator[Result]:
    """Each group of each round, as it is measured; stored in `folder`/parts before it is given.

    A group is passed over if one of its profiles does not even fit alone.

    Raises:
        MeasureError: a model without a maker, a loop that died, or a stored file that is none.
    """
    tasks = {group: _tasks(campaign, group) for group in campaign.groups}
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
            result = _measured_or_read(campaign, group, tasks[group], round_, folder, before_mib)
            if group.alone and not result.together.feasible:
                log.warning("does not fit alone, left out: %s", result.together.words)
                too_large |= set(group.members)
            yield result


def _measured_or_read(
    campaign: Campaign,
    group: Group,
    tasks: tuple[LoopTask, ...],
    round_: int,
    folder: Path,
    before_mib: float,
) -> Result:
    device, timing = campaign.device, campaign.timing
    name = part_name(tasks, timing, gpu_type=device.gpu_type, how=device.how, round_=round_)
    found = read_part(folder / PARTS / name, group.number)
    if found is not None:
        return found
    together = run_together(tasks, timing, uuid=device.uuid, before_mib=before_mib)
    result = Result(group.number, group.members, round_, together)
    write_part(folder / PARTS / name, result)
    _warn_if_busy(result, device)
    return result


def _warn_if_busy(result: Result, device: Device) -> None:
    """One loop alone on its cores leaves them idle only while it waits for others."""
    busy = result.together.busy
    if device.form == "cpu" and len(busy) == 1 and busy[0] < IDLE:
        words = "%s alone got only %.0f %% of a core: others use this machine, speeds are rough"
        log.warning(words, result.members[0], 100.0 * busy[0])


def _tasks(campaign: Campaign, group: Group) -> tuple[LoopTask, ...]:
    """One a member; equal ones draw different data."""
    return tuple(
        LoopTask(
            profile=profile,
            make=_maker(campaign.makers, model_of(profile)),
            batch=batch_of(profile),
            form=campaign.device.form,
            cores=campaign.device.cores,
            seed=campaign.seed + number,
        )
        for number, profile in enumerate(group.members)
    )


def _maker(makers: Mapping[str, str], model: str) -> str:
    if model not in makers:
        raise MeasureError(
            f"profiles: no makers.{model}; there are {', '.join(makers)}. One of your own: "
            f"+makers.{model}=module.function"
        )
    return makers[model]
