"""The tables beside Alibaba PAI's task table: jobs, and what their inputs say (group tags)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sim.traces.row_rules import BLANKS
from sim.traces.sheet import Sheet
from sim.traces.text_table import read_text_table

JOB_COLUMNS = {name: name for name in ("job_name", "inst_id", "user", "start_time")}
TAG_COLUMNS = {name: name for name in ("inst_id", "gpu_type_spec", "group", "workload")}


@dataclass(frozen=True)
class PaiTag:
    """What `pai_group_tag_table` says of a job; "" where it does not."""

    gpu_type: str = ""
    group: str = ""
    workload: str = ""


@dataclass(frozen=True)
class PaiJob:
    """What is known of a task's job; "" and NaN where nothing is."""

    user: str = ""
    submit_s: float = np.nan
    gpu_type: str = ""
    group: str = ""
    workload: str = ""
    tagged: bool = False  # whether there was a table of tags


UNKNOWN_JOB, NO_TAG = PaiJob(), PaiTag()


def read_tags(path: str, header: Sequence[str] | None, strict: bool) -> dict[str, PaiTag]:
    """Tags by inst_id; the first row of each counts (one inst_id has one row an instance).

    Raises:
        TraceError: naming file, line, column, value and fix.
    """
    sheet = Sheet(read_text_table(path, TAG_COLUMNS, strict=strict, header=header))
    keys = ("inst_id", "gpu_type_spec", "group", "workload")
    tags: dict[str, PaiTag] = {}
    for inst_id, *words in zip(*(sheet.raw(key) for key in keys), strict=True):
        if inst_id not in tags:
            tags[inst_id] = PaiTag(*("" if word.lower() in BLANKS else word for word in words))
    return tags


def read_jobs(
    path: str, header: Sequence[str] | None, tags: Mapping[str, PaiTag], strict: bool
) -> dict[str, PaiJob]:
    """Jobs by name, with their tags.

    Raises:
        TraceError: naming file, line, column, value and fix.
    """
    sheet = Sheet(read_text_table(path, JOB_COLUMNS, strict=strict, header=header))
    sheet.names("job_name")
    submit_s = sheet.times("start_time", blank_s=np.nan)
    good = sheet.good(strict)
    jobs: dict[str, PaiJob] = {}
    keys = ("job_name", "inst_id", "user")
    for row, (name, inst_id, user) in enumerate(
        zip(*(sheet.raw(key) for key in keys), strict=True)
    ):
        if good[row]:
            tag = tags.get(inst_id, NO_TAG)
            jobs[name] = PaiJob(
                user, float(submit_s[row]), tag.gpu_type, tag.group, tag.workload, bool(tags)
            )
    return jobs
