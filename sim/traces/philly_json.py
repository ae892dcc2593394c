"""Reads the job log of Microsoft's Philly traces: `cluster_job_log` (Jeon et al., ATC 2019)."""

import json
import logging
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from sim.arrays import FloatArray, objects
from sim.errors import TraceError, amount, check_numbers
from sim.jobs import CANCELLED, COMPLETED, FAILED, NEVER_S, Attempts
from sim.text_files import read_text, since_1970_s, wall_clock
from sim.traces.column_reader import CLOCK_CHANGE_S, Notes, nothing_usable, shown
from sim.traces.setting import check_count
from sim.traces.text_table import GivenColumns
from sim.traces.trace import Trace, starts, take

# By wall clocks this hour of 5 November 2017 came twice.
TURNED_BACK_S = since_1970_s(datetime(2017, 11, 5, 1))
STATES = {"Pass": COMPLETED, "Failed": FAILED, "Killed": CANCELLED}
BLANKS = (" ", "\t", "\r", "\n")
NO_TIME = (None, "", "None")
NO_GPU = "use no GPU"


@dataclass(frozen=True)
class Located:
    """One object of the list."""

    value: Any
    index: int  # from 0
    line: int  # 1-based line at which it starts


def located(path: str) -> Iterator[Located]:
    """The objects of a plain or gzip file that holds one JSON list, read one by one.

    Raises:
        TraceError: naming the line (and the object) at which the file is no list.
    """
    text, decode, line, at, index = read_text(path), json.JSONDecoder().raw_decode, 1, 0, 0

    def go_to(place: int) -> str:
        """The sign at or after `place` that is no blank; "" at the end of the file."""
        nonlocal line, at
        while text[place : place + 1] in BLANKS:
            place += 1
        line, at = line + text.count("\n", at, place), place
        return text[at : at + 1]

    def take(sign: str, rule: str) -> None:
        if (found := go_to(at)) != sign:
            got = f"{found!r} stands here" if found else "the file ends here"
            raise TraceError(f"{path}, line {line}: {got}; {rule}")
        go_to(at + 1)

    take("[", "the file must hold a list of jobs, [ ... ]")
    while go_to(at) != "]":
        if index > 0:
            take(",", f"a comma must follow job object {index - 1}")
        try:
            value, end = decode(text, at)
        except json.JSONDecodeError as error:
            line += text.count("\n", at, error.pos)
            raise TraceError(
                f"{path}, line {line}, job object {index}: is no JSON ({error.msg}); fetch the "
                f"file again, or cut it at a whole object"
            ) from error
        except (ValueError, RecursionError) as error:
            raise TraceError(
                f"{path}, line {line}: job object {index} cannot be read ({type(error).__name__}: "
                f"{str(error)[:80]}); it is nested too deeply or holds a number too long"
            ) from error
        yield Located(value, index, line)
        index += 1
        go_to(end)
    if go_to(at + 1):
        raise TraceError(
            f"{path}, line {line}: there is text after the end of the list; take it out"
        )


class BadJob(Exception):
    """A job that breaks a rule of the format."""

    def __init__(self, key: str, value: object, rule: str) -> None:
        """Keep what the message needs."""
        super().__init__(key)
        self.key, self.value, self.rule = key, value, rule


@dataclass(frozen=True)
class PhillyAttempt:
    """One time that a job ran."""

    start_s: float
    end_s: float | None  # None: it was running when the log was taken


@dataclass(frozen=True)
class PhillyJob:
    """A job of the log; times are wall-clock seconds since 1970."""

    job_id: str
    user: str
    vc: str
    outcome: int
    submit_s: float
    gpus: int  # of the attempt with the most; 0 where none says
    attempts: tuple[PhillyAttempt, ...]  # those that count, in order of start

    @property
    def latest_s(self) -> float:
        """The latest moment that the job tells of."""
        ends = [each.end_s or each.start_s for each in self.attempts]
        return max([self.submit_s, *ends])

    @property
    def waited_s(self) -> float:
        """From submission to the first start; NaN where it never ran."""
        if not self.attempts:
            return math.nan
        return max(0.0, _after(self.submit_s, self.attempts[0].start_s) - self.submit_s)

    def lengths_s(self, last_s: float) -> list[float]:
        """Length of each attempt; an open one lasts until `last_s`, the end of the log."""
        return [
            (last_s if each.end_s is None else each.end_s) - each.start_s for each in self.attempts
        ]


def parse_job(value: Any) -> PhillyJob:
    """Check and read one object; BadJob, naming key, value and rule."""
    if not isinstance(value, Mapping):
        raise BadJob("(the whole object)", value, "is no job; it must be an object {...}")
    status = _text(value, "status", required=True)
    if status not in STATES:
        raise BadJob("status", status, f"is unknown; known are {', '.join(STATES)}")
    submit_s = _moment(value, "submitted_time")
    if submit_s is None:
        raise BadJob("submitted_time", value.get("submitted_time"), "is missing; give a time")
    attempts = _list(value, "attempts")
    return PhillyJob(
        job_id=_text(value, "jobid", required=True),
        user=_text(value, "user", required=False),
        vc=_text(value, "vc", required=False),
        outcome=STATES[status],
        submit_s=submit_s,
        gpus=max((_gpus(each) for each in attempts), default=0),
        attempts=_counted(attempts),
    )


def _counted(attempts: list[Mapping[str, Any]]) -> tuple[PhillyAttempt, ...]:
    """The attempts with a start and an end, and the last one if only its end is missing."""
    found = []
    for place, each in enumerate(attempts):
        start_s, end_s = _moment(each, "start_time"), _moment(each, "end_time")
        open_last = end_s is None and place == len(attempts) - 1
        if start_s is None or (end_s is None and not open_last):
            continue
        if end_s is not None:
            end_s = _after(start_s, end_s)
            if end_s < start_s:
                raise BadJob("end_time", each["end_time"], "is before the attempt's start_time")
        found.append(PhillyAttempt(start_s, end_s))
    return tuple(sorted(found, key=lambda each: each.start_s))


def _after(earlier_s: float, at_s: float) -> float:
    """`at_s`, which comes after `earlier_s`: of the hour that came twice the second, if need be."""
    again = at_s < earlier_s and 0.0 <= at_s - TURNED_BACK_S < CLOCK_CHANGE_S
    return at_s + CLOCK_CHANGE_S if again else at_s


def _gpus(attempt: Mapping[str, Any]) -> int:
    names = 'names; write ["gpu0", ...]'
    return sum(len(_list(server, "gpus", str, names)) for server in _list(attempt, "detail"))


def _ran_without_gpus(value: Any) -> bool:
    """Whether there are attempts, and none of them names a GPU."""
    try:
        attempts = _list(value, "attempts") if isinstance(value, Mapping) else []
        return bool(attempts) and not any(map(_gpus, attempts))
    except BadJob:
        return False


def _list(
    value: Mapping[str, Any], key: str, of: type = Mapping, what: str = "objects; write [{...}]"
) -> list[Any]:
    found = value.get(key)
    found = [] if found is None else found
    if not isinstance(found, list) or not all(isinstance(each, of) for each in found):
        raise BadJob(key, found, f"is no list of {what}")
    return found


def _text(value: Mapping[str, Any], key: str, *, required: bool) -> str:
    found = value.get(key)
    if found is None and not required:
        return ""
    if not isinstance(found, str) or (required and not found.strip()):
        raise BadJob(key, found, "is no text; every job needs one")
    if not found.isprintable():
        raise BadJob(key, found, "holds signs that cannot be printed; write plain text")
    return found.strip()


def _moment(value: Mapping[str, Any], key: str) -> float | None:
    """Seconds of a wall-clock time; None where the log has none."""
    found = value.get(key)
    if found in NO_TIME:
        return None
    try:
        moment = datetime.fromisoformat(found)
    except (TypeError, ValueError):
        moment = None
    if moment is None or moment.tzinfo is not None:
        raise BadJob(key, found, "is no time such as 2017-10-07 01:12:09 (without a zone)")
    return since_1970_s(moment)


log = logging.getLogger(__name__)


@dataclass
class _Read:
    """What was found up to here in the file."""

    jobs: list[PhillyJob]
    line_of: dict[str, int]
    bad: Counter[str]  # rule -> jobs
    left_out: Counter[str]
    first_bad: str = ""
    last_s: float = 0.0  # latest moment of the log
    objects: int = 0


class PhillyJson:
    """A JSON list of jobs, read one by one: a job's duration is the sum of its attempts.

    - Work done in an attempt is kept; where an attempt but the last ends, the job failed and
      started again (`Attempts`).
    - The gang is that of the attempt with the most GPUs. Jobs without GPUs are left out.
    - An attempt without a start or an end (a fault of the log) does not count; but an open last
      attempt was running when the log was taken, and lasts until the log's latest moment.
    - status: Pass, Failed, Killed are completed, failed, cancelled.
    - A killed job without attempts never ran: nothing tells its gang or when its user gave up, so
      the options do. Other jobs without attempts are left out.
    """

    def __init__(self, *, never_ran_gpus: int, never_ran_withdraw_s: float) -> None:
        """What is assumed of killed jobs that never ran."""
        check_count("reader.never_ran_gpus", never_ran_gpus)
        waits = {"never_ran_withdraw_s": never_ran_withdraw_s}
        check_numbers("workload.reader", "null, or 0 or more", TraceError, **waits)
        self._gpus, self._withdraw_s = never_ran_gpus, never_ran_withdraw_s

    def read(
        self, *, path: str, columns: GivenColumns, name: str, strict: bool
    ) -> tuple[Trace, Notes]:
        """The trace of a file; arguments and errors as `TraceReader` says."""
        if columns:
            raise TraceError(
                f"workload.columns names {', '.join(columns)}, but a JSON log has no columns; "
                f"leave it empty"
            )
        read = _Read([], {}, Counter(), Counter())
        for each in located(path):
            _add(read, each, path, strict)
        if read.bad:
            log.warning(
                "%s skipped, the first: %s; by rule: %s",
                amount(read.bad.total(), "job"), read.first_bad,
                ", ".join(f"{count} x {rule}" for rule, count in read.bad.items()),
            )  # fmt: skip
        jobs = self._ran_or_killed(read)
        for reason, count in read.left_out.items():
            log.info("%s: %s left out: %s", path, amount(count, "job"), reason)
        if not jobs:
            raise nothing_usable(path, read.objects, read.left_out, strict)
        trace, notes = self._trace(jobs, read, name)
        return replace(trace, file=path, gang_from="key 'gpus' of its attempts"), notes

    def _ran_or_killed(self, read: _Read) -> list[PhillyJob]:
        """The jobs that ran, and those that were killed before."""
        kept = []
        for job in read.jobs:
            if not job.attempts and job.outcome != CANCELLED:
                read.left_out["have no attempt with a start and an end"] += 1
            elif job.attempts and job.gpus == 0:
                read.left_out[NO_GPU] += 1
            else:
                kept.append(job)
        return kept

    def _trace(self, jobs: list[PhillyJob], read: _Read, name: str) -> tuple[Trace, Notes]:
        submit_s = np.array([job.submit_s for job in jobs])
        ran = np.array([bool(job.attempts) for job in jobs])
        lengths = [job.lengths_s(read.last_s) for job in jobs]
        failures = [_failures(each) for each in lengths]
        trace = Trace(
            name=name,
            job_id=objects([job.job_id for job in jobs]),
            submit_s=submit_s - submit_s.min(),
            zero=wall_clock(float(submit_s.min()), None),
            num_gpus=np.array([job.gpus or self._gpus for job in jobs], dtype=np.int64),
            duration_s=np.array([sum(each) for each in lengths], dtype=np.float64),
            user=objects([job.user for job in jobs]),
            vc=objects([job.vc for job in jobs]),
            outcome=np.array([job.outcome for job in jobs], dtype=np.int64),
            withdraw_s=np.where(ran, NEVER_S, self._withdraw_s),
            waited_s=np.array([job.waited_s for job in jobs], dtype=np.float64),
            line=np.array([read.line_of[job.job_id] for job in jobs], dtype=np.int64),
            attempts=Attempts(
                starts([len(each) for each in failures]), np.concatenate([*failures, np.empty(0)])
            ),
        )
        late = int(np.sum(submit_s < np.maximum.accumulate(submit_s)))
        notes = Notes(read.objects, read.bad.total(), late, dict(read.left_out))
        return take(trace, np.argsort(submit_s, kind="stable")), notes


def _failures(lengths_s: list[float]) -> FloatArray:
    """Work done when each attempt but the last ended: ascending, above 0, below the whole."""
    done_s = np.cumsum(np.array(lengths_s, dtype=np.float64))
    if len(done_s) == 0:
        return done_s
    return np.unique(done_s[(done_s > 0) & (done_s < done_s[-1])])


def _add(read: _Read, each: Located, path: str, strict: bool) -> None:
    """Note one object of the file."""
    read.objects += 1
    try:
        job = parse_job(each.value)
        if job.job_id in read.line_of:
            rule = "is the job of an earlier object again; names must be unique"
            raise BadJob("jobid", job.job_id, rule)
    except BadJob as bad:
        if _ran_without_gpus(each.value):  # left out, whatever else is wrong with it
            read.left_out[NO_GPU] += 1
            return
        fault = (
            f"{path}, line {each.line}, job object {each.index}, key '{bad.key}': "
            f"{shown(bad.value)} {bad.rule}"
        )
        if strict:
            raise TraceError(f"{fault} (or skip such jobs with workload.strict=false)") from bad
        read.first_bad = read.first_bad or fault
        read.bad[f"{bad.key} {bad.rule.partition(';')[0]}"] += 1
        return
    read.line_of[job.job_id] = each.line
    read.last_s = max(read.last_s, job.latest_s)
    read.jobs.append(job)
