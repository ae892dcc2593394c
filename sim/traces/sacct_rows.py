"""Which rows of an `sacct` file are jobs: one a job, whatever runs and steps it had."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np

from sim.traces.row_rules import moment
from sim.traces.slurm_fields import (
    ELSEWHERE,
    ENDED,
    JOB_ID,
    NO_LIMIT,
    NO_TIME,
    WAITING,
    parse_tres,
    state_of,
)
from sim.traces.text_table import TextTable

TIMES = ("Submit", "Eligible", "Start", "End")
BEGAN = "Began"  # a column of ours: when the first run of a job started


def sieved(table: TextTable) -> tuple[TextTable, dict[str, int]]:
    """The rows that are jobs, and how many others there are, by reason.

    Texts that mean "none" are made empty and states cut to their word. A job that ran several times
    (requeued; of one JobID and User) is its last run, with submission and `Began` of the first.
    Rows that cannot be read stay: whoever reads the columns names them.
    """
    left_out: Counter[str] = Counter()
    table = _kept(table, _no_jobs(table), left_out)
    table = _plain_words(table)
    table = _kept(table, _earlier_runs(table), left_out)
    return _kept(table, _never_seen(table), left_out), dict(left_out)


def _kept(table: TextTable, reasons: list[str], left_out: Counter[str]) -> TextTable:
    """The rows without a reason to leave them out; counts the others."""
    left_out.update(reason for reason in reasons if reason)
    return table.only(np.array([not reason for reason in reasons], dtype=np.bool_))


def _no_jobs(table: TextTable) -> list[str]:
    """(N,) why a row is no job, or one without GPUs; "" where it may be one."""
    matches = [JOB_ID.fullmatch(text) for text in table.columns["JobID"]]
    reasons = ["are steps of jobs" if match and match["step"] else "" for match in matches]
    gpus = _gpu_reasons(table)
    for row, match in enumerate(matches):
        if table.columns["JobID"][row] == table.names["JobID"]:
            reasons[row] = "are header rows"  # of files put one behind another
        elif not reasons[row]:
            tasks = match is not None and match["tasks"]
            many = "are array tasks that never began, many in one row" if tasks else ""
            reasons[row] = gpus[row] or many
    return reasons


def _gpu_reasons(table: TextTable) -> list[str]:
    """(N,) "use no GPU" or the like; "" where a job has some, or its resources are no list."""
    reasons = ["use no GPU"] * len(table.lines)
    for key in ("ReqTRES", "AllocTRES"):
        for row, text in enumerate(table.columns.get(key, [])):
            got = parse_tres(text)
            if got is None or got.gpus:
                reasons[row] = ""
            elif got.only_parts and reasons[row]:
                reasons[row] = "use parts of GPUs (gres/shard, gres/mps), whose size sacct lacks"
    return reasons


def _plain_words(table: TextTable) -> TextTable:
    """Empty fields for the words that mean no time and no limit; bare states; `Began`."""
    columns, names = dict(table.columns), dict(table.names)
    none_of = dict.fromkeys(TIMES, NO_TIME) | dict.fromkeys(("Timelimit", "TimelimitRaw"), NO_LIMIT)
    for key, none in none_of.items():
        if key in columns:
            columns[key] = ["" if text in none else text for text in columns[key]]
    columns["State"] = [state_of(text) for text in columns["State"]]
    columns[BEGAN] = list(columns.get("Start", [""] * len(table.lines)))
    names[BEGAN] = names.get("Start", "Start")
    return replace(table, columns=columns, names=names)


def _earlier_runs(table: TextTable) -> list[str]:
    """(N,) why a row is not the last of its job; gives the last one the first one's beginning."""
    columns = table.columns
    runs: dict[tuple[str, str], list[int]] = {}
    users = columns.get("User", [""] * len(table.lines))
    for row, key in enumerate(zip(columns["JobID"], users, strict=True)):
        runs.setdefault(key, []).append(row)
    reasons = [""] * len(table.lines)
    submit, state = columns["Submit"], columns["State"]
    for rows in runs.values():
        if len(rows) == 1 or not all(moment(submit[row]) for row in rows):
            continue
        # Of one run, in a file made of several, the row that knows its end comes last.
        rows.sort(key=lambda row: (submit[row], state[row] in ENDED, columns[BEGAN][row]))
        last = rows[-1]
        first = next((row for row, later in pairwise(rows) if submit[row] != submit[later]), last)
        for row, later in pairwise(rows):
            same = submit[row] == submit[later]
            reasons[row] = (
                "are other rows of the same run" if same else "are earlier runs of requeued jobs"
            )
        for name in {"Submit", "Eligible", BEGAN} & columns.keys():
            columns[name][last] = columns[name][first]
    return reasons


def _never_seen(table: TextTable) -> list[str]:
    """(N,) why nothing is known of how a job would run; "" where something is."""
    elsewhere = {ELSEWHERE: "ran in another cluster"}
    reason = dict.fromkeys(WAITING, "still waited") | elsewhere
    return [reason.get(text, "") for text in table.columns["State"]]
