"""Reads what Slurm's accounting tells of jobs: the output of `sacct --parsable2`.

Fields are as its manual pages have them (17.11 to 24.11).
"""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray, objects
from sim.errors import TraceError, amount
from sim.jobs import CANCELLED, COMPLETED, FAILED, NEVER_S, WHOLE_GPU_MILLI
from sim.text_files import NO_TIME, moment
from sim.traces.column_reader import CLOCK_CHANGE_S, LARGEST_AMOUNT, ColumnReader, TableReader
from sim.traces.text_table import Columns, Dialect, TextTable, checked_delimiter, read_text_table
from sim.traces.trace import Trace

NO_LIMIT = ("", "UNLIMITED", "Partition_Limit")
JOB_ID = re.compile(r"\d+(?:_(?:\d+|(?P<tasks>\[.*\])))?(?:\+\d+)?(?P<step>\..+)?", re.ASCII)
AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([KMGTPE]?)", re.ASCII)  # in MiB without a unit
GPU, GPU_OF_TYPE = "gres/gpu", "gres/gpu:"
PARTS_OF_GPUS = ("gres/shard", "gres/mps")
# A slice of a GPU, as clusters name it: "a100_3g.20gb", "1g.10gb+me", "A30-MIG-1g.6gb".
MIG = re.compile(r"(?:^|[_.-])(?:mig[_.-])?([1-7])g\.\d+gb(?:[+.].+)?$", re.ASCII | re.I)
READ = ("cpu", "mem", GPU, *PARTS_OF_GPUS)
MOST = 2.0**31  # GPUs; more are refused
MIB = {"": 1.0, "K": 2.0**-10, "M": 1.0, "G": 2.0**10, "T": 2.0**20, "P": 2.0**30, "E": 2.0**40}
ENDED = {
    "COMPLETED": COMPLETED, "CANCELLED": CANCELLED, "FAILED": FAILED, "TIMEOUT": FAILED,
    "NODE_FAIL": FAILED, "OUT_OF_MEMORY": FAILED, "BOOT_FAIL": FAILED, "DEADLINE": FAILED,
    "PREEMPTED": FAILED, "LAUNCH_FAILED": FAILED, "RECONFIG_FAIL": FAILED,
}  # fmt: skip
RUNNING = ("RUNNING", "SUSPENDED", "STOPPED", "COMPLETING", "CONFIGURING", "SIGNALING",
           "STAGE_OUT", "RESIZING", "POWER_UP_NODE", "UPDATE_DB")  # fmt: skip
WAITING = ("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")
ELSEWHERE = "REVOKED"  # a twin of this job ran in another cluster of the federation
# What it is worth if it is the last that is known of the job; one that runs has not failed.
STATES = {**ENDED, **dict.fromkeys((*RUNNING, *WAITING, ELSEWHERE), COMPLETED)}


@dataclass(frozen=True)
class Tres:
    """Trackable resources of a job, over all its nodes."""

    gpus: int = 0
    types: tuple[str, ...] = ()  # of its GPUs, where the list names some; without slices
    milli: int | None = WHOLE_GPU_MILLI  # thousandths of a GPU that each of `gpus` is; None: unlike
    cpus: float = 0.0
    memory_mib: float = 0.0
    only_parts: bool = False  # of GPUs: shards or MPS shares, and no GPU


@cache
def parse_tres(text: str) -> Tres | None:
    """A list such as `billing=8,cpu=16,gres/gpu:a100=2,gres/gpu=2,mem=64G,node=1`; None: no list.

    `gres/gpu` counts all GPUs, and what stands behind a type is a part of it: a cluster that tracks
    both prints both. One that tracks types only prints no sum.
    """
    found: dict[str, float] = {}
    for entry in text.split(",") if text else ():
        name, sign, given = entry.partition("=")
        if not sign:
            return None
        if name in READ or name.startswith(GPU_OF_TYPE):
            value = _mib(given) if name == "mem" else _whole(given)
            if value is None:
                return None
            found[name] = value
    of_type = {name.removeprefix(GPU_OF_TYPE): value for name, value in found.items()
               if name.startswith(GPU_OF_TYPE) and value > 0}  # fmt: skip
    gpus = found.get(GPU, sum(of_type.values()))
    shares = {_milli(name) for name in of_type} or {WHOLE_GPU_MILLI}
    if sum(of_type.values()) < gpus:
        shares.add(WHOLE_GPU_MILLI)  # of no type
    return Tres(
        gpus=int(min(gpus, MOST)),
        types=tuple(dict.fromkeys(filter(None, (MIG.sub("", name) for name in of_type)))),
        milli=shares.pop() if len(shares) == 1 else None,
        cpus=found.get("cpu", 0.0),
        memory_mib=found.get("mem", 0.0),
        only_parts=gpus == 0 and any(found.get(name) for name in PARTS_OF_GPUS),
    )


def _milli(name: str) -> int:
    """Thousandths of a GPU of that type: sevenths for MIG slices, quarters of an A30, or all."""
    part = MIG.search(name)
    of = 4 if "a30" in name.lower() else 7
    return WHOLE_GPU_MILLI if part is None else WHOLE_GPU_MILLI * min(int(part[1]), of) // of


def _whole(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() else None


def _mib(text: str) -> float | None:
    match = AMOUNT.fullmatch(text)
    return None if match is None else float(match[1]) * MIB[match[2]]


TIMES = ("Submit", "Eligible", "Start", "End")
BEGAN = "Began"  # a column of ours: when the first run of a job started


def sieved(table: TextTable) -> TextTable:
    """The rows that are jobs.

    Texts that mean "none" are made empty and states cut to their word. A job that ran several times
    (requeued; of one JobID and User) is its last run, with submission and `Began` of the first.
    Rows that cannot be read stay: whoever reads the columns names them.
    """
    table = _plain_words(table.without(_no_jobs(table)))
    table = table.without(_earlier_runs(table))
    return table.without(_never_seen(table))


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
                unlike = got is not None and got.milli is None
                reasons[row] = "use MIG slices and GPUs of several sizes" if unlike else ""
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
    # Without what follows: `CANCELLED by 1000`, `CANCELLED+`.
    columns["State"] = [
        text.partition(" ")[0].removesuffix("+").upper() for text in columns["State"]
    ]
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


log = logging.getLogger(__name__)

TELL_GPUS = (("AllocTRES",), ("ReqTRES",))
TELL_RUN_TIMES = (("ElapsedRaw",), ("Elapsed",), ("Start", "End"))
Moments = Mapping[str, FloatArray]  # column -> (N,) seconds since 1970; NaN where there is none


class Sacct(TableReader):
    """One row a job, columns in any order; docs/workloads.md says what becomes of each.

    Steps, earlier runs of requeued jobs, array tasks that never began, waiting jobs and jobs
    without GPUs are left out, each counted. A MIG slice is a part of a GPU. A job that still ran
    when the file was made lasts as long as it had run. One that never ran was given up at its end.
    """

    assumed = "MIG slices as parts of a GPU, 3g as 3/7"
    required = ("JobID", "State", "Submit")
    optional = ("JobName", "User", "Partition", "QOS", "Eligible", "Start", "End", "Elapsed",
                "ElapsedRaw", "Timelimit", "TimelimitRaw", "ReqTRES", "AllocTRES")  # fmt: skip

    def __init__(self, *, delimiter: str, qos_priority: Mapping[str, int]) -> None:
        """Keep the options; TraceError: the delimiter is none.

        `qos_priority`: QOS -> priority, larger is more important; empty: QOS is not read.
        """
        self._dialect = Dialect(delimiter=checked_delimiter(delimiter), quoted=False)
        self._priority = dict(qos_priority)

    def _rows(self, path: str, wanted: Columns, strict: bool) -> ColumnReader:
        table = read_text_table(
            path,
            lambda header: _present(wanted, header, path),
            strict=strict,
            dialect=self._dialect,
        )
        return ColumnReader(sieved(table), strict)

    def _trace(self, reader: ColumnReader, name: str) -> Trace:
        job_id = reader.names("JobID")
        odd = [JOB_ID.fullmatch(text) is None for text in reader.raw("JobID")]
        rule = "is no job of Slurm, such as 123, 123_4 or 123+0"
        reader.flag("JobID", np.array(odd, dtype=np.bool_), rule)
        outcome = reader.choices("State", STATES)
        at = {key: reader.moments(key) for key in (*TIMES, BEGAN) if reader.has(key)}
        submit_s = _submission(reader, at)
        duration_s = _run_time(reader, at)
        unborn = (duration_s == 0) & (outcome != COMPLETED)
        # Slurm gave cancelled jobs without a start their end as their start once.
        never = unborn & ((outcome == CANCELLED) | np.isnan(at.get("Start", duration_s)))
        withdraw_s = _given_up_after_s(reader, at, submit_s, never)
        got = _resources(reader)
        reader.gangs_from("AllocTRES", "ReqTRES")
        gpus = np.maximum(np.array([one.gpus for one in got], dtype=np.int64), 1)
        milli = np.array([one.milli or WHOLE_GPU_MILLI for one in got], dtype=np.int64)
        types = ["|".join((parse_tres(text) or Tres()).types) for text in reader.raw("ReqTRES")]
        return Trace(
            name=name,
            job_id=job_id,
            submit_s=reader.from_earliest(submit_s, submit_s > 0),  # 0: unreadable
            num_gpus=gpus,
            duration_s=duration_s,
            user=reader.texts("User"),
            vc=objects([text.partition(",")[0] for text in reader.raw("Partition")]),
            group=reader.pairs("User", "JobName") if reader.has("JobName") else None,
            priority=self._priorities(reader),
            cpu_milli=_each([1000.0 * one.cpus for one in got], gpus),
            memory_mib=_each([one.memory_mib for one in got], gpus),
            gpu_milli=milli if (milli < WHOLE_GPU_MILLI).any() else None,
            gpu_types=objects(types) if any(types) else None,
            outcome=np.where(never, CANCELLED, outcome),
            withdraw_s=withdraw_s,
            limit_s=_limits(reader),
            waited_s=np.where(never, np.nan, np.maximum(at[BEGAN] - submit_s, 0.0))
            if reader.has("Start")
            else None,
        )

    def _priorities(self, reader: ColumnReader) -> IntArray | None:
        """(N,) by QOS; None where no QOS was given one."""
        if not (self._priority and reader.has("QOS")):
            return None
        lacks = [bool(text) and text not in self._priority for text in reader.raw("QOS")]
        reader.flag("QOS", np.array(lacks, dtype=np.bool_), "has no priority, but others have; "
                   "add +workload.reader.qos_priority.NAME=NUMBER")  # fmt: skip
        return np.array([self._priority.get(text, 0) for text in reader.raw("QOS")], dtype=np.int64)


def _present(wanted: Columns, header: Sequence[str], path: str) -> Columns:
    """Columns that the file has; TraceError: it lacks one that the user named, or needed ones."""
    given = {key: name for key, name in wanted.items()
             if key in Sacct.required or name != key or name in header}  # fmt: skip
    if len(header) == 1:  # cut at another sign, as whoever looks for JobID will say
        return given
    for choices, what in ((TELL_GPUS, "GPUs"), (TELL_RUN_TIMES, "run times")):
        if not any(given.keys() >= set(keys) for keys in choices):
            names = " or ".join(" and ".join(keys) for keys in choices)
            raise TraceError(
                f"{path}, line 1: no column {names}, which tell the {what}; the file has: "
                f"{', '.join(header)}; add one to the --format of sacct (docs/workloads.md)"
            )
    twins = {"Elapsed": "ElapsedRaw", "TimelimitRaw": "Timelimit"}
    twins |= {twin: key for key, twin in twins.items()}
    absent = [key for key in wanted if key not in given and twins.get(key) not in given]
    if absent:
        log.info("%s: has no column %s", path, ", ".join(absent))
    return given


def _submission(reader: ColumnReader, at: Moments) -> FloatArray:
    """(N,) seconds since 1970 at which each job was submitted and could run."""
    reader.flag("Submit", np.isnan(at["Submit"]), "is empty; every job has a time of submission")
    submit_s = np.fmax(at["Submit"], at.get("Eligible", at["Submit"]))
    reader.flag(BEGAN, at[BEGAN] < at["Submit"] - CLOCK_CHANGE_S, "is before the job's Submit")
    return np.nan_to_num(submit_s)


def _run_time(reader: ColumnReader, at: Moments) -> FloatArray:
    """(N,) seconds that the last run of each job took; 0 where it never began."""
    running = np.array([text in RUNNING for text in reader.raw("State")], dtype=np.bool_)
    if running.any():
        log.info("%s: %s still ran; each lasts as long as it had run until then",
                 reader.path, amount(int(running.sum()), "job"))  # fmt: skip
    if reader.has("ElapsedRaw"):
        return reader.times("ElapsedRaw")
    if reader.has("Elapsed"):
        return reader.spans("Elapsed", "clock")
    nothing = np.full(len(reader), np.nan)
    start_s, end_s = at.get("Start", nothing), at["End"]
    if running.any():
        end_s = np.where(running, np.nanmax(np.stack(list(at.values()))), end_s)
    reader.flag("End", end_s < start_s - CLOCK_CHANGE_S, "is before the job's Start")
    reader.flag("End", np.isnan(end_s) & ~np.isnan(start_s), "is unknown, but the job has ended")
    return np.nan_to_num(np.maximum(end_s - start_s, 0.0))


def _given_up_after_s(
    reader: ColumnReader, at: Moments, submit_s: FloatArray, never: BoolArray
) -> FloatArray:
    """(N,) seconds after which each job that `never` ran was given up.

    Those that could not run yet are left out: Slurm held them, no queue did.
    """
    after_s = at["End"] - submit_s if "End" in at else np.full(len(reader), np.nan)
    held = never & (after_s <= 0)
    if "Eligible" in at:
        held |= never & np.isnan(at["Eligible"])
    reader.leave_out(never & np.isnan(after_s), "never began and have no end")
    reader.leave_out(held & ~np.isnan(after_s), "were given up before they could begin (Eligible)")
    return np.where(never & (after_s > 0), after_s, NEVER_S)


def _resources(reader: ColumnReader) -> list[Tres]:
    """(N,) what each job got, and where it got no GPU what it asked for."""
    found = [Tres()] * len(reader)
    for keys in TELL_GPUS[::-1]:
        key = keys[0]
        read = [parse_tres(text) for text in reader.raw(key)]
        unreadable = np.array([one is None for one in read], dtype=np.bool_)
        rule = "is no list such as cpu=8,mem=64G,gres/gpu=2; was the field cut off?"
        reader.flag(key, unreadable, rule)
        many = np.array([one is not None and one.gpus >= MOST for one in read], dtype=np.bool_)
        reader.flag(key, many, "is no plausible number of GPUs; check the column")
        found = [one if one is not None and one.gpus else old
                 for one, old in zip(read, found, strict=True)]  # fmt: skip
    return found


def _each(amounts: Sequence[float], gpus: IntArray) -> IntArray:
    """(N,) amounts of jobs spread over their GPUs."""
    spread = np.floor(np.array(amounts, dtype=np.float64) / gpus)
    return np.minimum(spread, LARGEST_AMOUNT).astype(np.int64)


def _limits(reader: ColumnReader) -> FloatArray | None:
    """(N,) seconds; infinite without a limit. None: the file has no column of them."""
    for key, form in (("Timelimit", "clock"), ("TimelimitRaw", "minutes")):
        if reader.has(key):
            return reader.spans(key, form, blank_s=NEVER_S)
    return None
