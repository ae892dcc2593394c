"""Reads a job trace from a CSV file, one row a job, columns named by a mapping; and writes one."""

import csv
import io
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise

import numpy as np

from sim.arrays import FloatArray, IntArray, TextArray, plain_number
from sim.errors import TraceError
from sim.jobs import (
    CANCELLED,
    COMPLETED,
    FAILED,
    NEVER_S,
    WHOLE_GPU_MILLI,
    Attempts,
    Precedence,
    codes_of,
    gang_of,
)
from sim.text_files import CLOCK, moment
from sim.traces.column_reader import (
    CLOCK_FORMAT,
    DURATION_FORMATS,
    LONGEST_S,
    ColumnReader,
    TableReader,
)
from sim.traces.setting import check_choice
from sim.traces.text_table import (
    Columns,
    Dialect,
    TextTable,
    check_either,
    checked_delimiter,
    mapping_word,
    read_text_table,
)
from sim.traces.trace import Trace, on_a_cycle, starts

SEPARATOR = ";"


def attempts_of(reader: ColumnReader, duration_s: FloatArray) -> Attempts:
    """Failures of each job: seconds of work, ascending, above 0 and below its duration."""
    lists = [_numbers(text) for text in reader.raw("attempts")]
    wrong = [
        points is None or not all(a < b < np.inf for a, b in pairwise([0.0, *points, end_s]))
        for points, end_s in zip(lists, duration_s, strict=True)
        if points != []
    ]
    bad = np.zeros(len(reader), dtype=np.bool_)
    bad[[row for row, points in enumerate(lists) if points != []]] = wrong
    rule = "is no list of seconds of work, ascending, above 0 and below duration_s; write 60;90.5"
    reader.flag("attempts", bad, rule)
    good = [[] if bad[row] else points or [] for row, points in enumerate(lists)]
    flat = [point for points in good for point in points]
    return Attempts(starts([len(points) for points in good]), np.array(flat, dtype=np.float64))


def _numbers(text: str) -> list[float] | None:
    found = [plain_number(part.strip()) for part in text.split(SEPARATOR)] if text else []
    points = [each for each in found if each is not None]
    return points if len(points) == len(found) else None


def precedence_of(reader: ColumnReader, job_id: TextArray) -> Precedence:
    """Parents by their job_id, and the workflow that each job is part of.

    Without a workflow column, jobs joined by parents are one workflow each.
    """
    row_of = {name: row for row, name in reversed(list(enumerate(job_id)))}
    lists: list[list[int]] = []
    unknown = np.zeros(len(reader), dtype=np.bool_)
    for row, text in enumerate(reader.raw("parents")):
        names = [part.strip() for part in text.split(SEPARATOR)] if text else []
        rows = [row_of.get(name, -1) for name in names]
        unknown[row] = -1 in rows
        lists.append(list(dict.fromkeys(parent for parent in rows if parent >= 0)))
    reader.flag("parents", unknown, "names a job_id that the file lacks; separate names by ;")
    first = starts([len(rows) for rows in lists])
    parents = np.array([parent for rows in lists for parent in rows], dtype=np.int64)
    stuck = on_a_cycle(first, parents)
    reader.flag("parents", stuck, "leads to jobs that wait for themselves; cut that circle")
    own = codes_of(reader.texts("workflow"))
    links = Precedence(first, parents, own)
    return links if reader.has("workflow") else _joined(links)


def _joined(links: Precedence) -> Precedence:
    """Jobs joined by parents, however far, numbered as workflows; -1 for single jobs."""
    from scipy.sparse import coo_array  # heavy: only files with parents need it
    from scipy.sparse.csgraph import connected_components

    jobs, joins = len(links.workflow), np.ones(len(links.parents))
    graph = coo_array((joins, (links.children, links.parents)), shape=(jobs, jobs))
    _, part = connected_components(graph, directed=False)
    alone = np.bincount(part)[part] == 1
    first = np.unique(part, return_index=True)[1]  # its number: that of its first job
    return Precedence(links.first, links.parents, np.where(alone, -1, first[part]).astype(np.int64))


SPANS = ("duration_s", "limit_s", "deadline_s", "withdraw_s", "waited_s")
DATE = "is a date, not seconds; "
CLOCK_HINT = (
    "is a time on a clock, not a number; set workload.reader.duration_format=clock, which reads "
    "MM:SS, HH:MM:SS and D-HH:MM:SS"
)
NUMBER_HINT = "is a number, not a time on a clock; set workload.reader.duration_format=seconds"
EMPTY = "is empty; a job needs its run time: leave out jobs that have not ended"
PART = (
    "is a fraction of a GPU; a worker on a part of a GPU has num_gpus 1, and the part in "
    "thousandths in a column of its own: workload.columns.gpu_milli=NAME"
)
UNIT = "is over 3,000 years; map milliseconds as submit_time, with reader.time_format=milliseconds"
FORM = "is not ISO 8601; give its form, such as workload.reader.time_format='%d.%m.%Y %H:%M'"
NO_DAY = "is no day of the calendar, or no time of a day; correct it"
ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?", re.ASCII)
DIGITS_OF_A_DATE = 4


def tell_other_forms(
    reader: ColumnReader,
    *,
    seconds: str | Sequence[str] | None,
    time_format: str | None,
    duration_format: str,
) -> None:
    """Flag fields that another key of the workload would read, and name that key.

    `seconds` is the file's column that is mapped as submit_s.
    To be called before the columns are read: of several rules that a row breaks the first is told.
    """
    word = mapping_word("submit_time", seconds if isinstance(seconds, str) else "NAME")
    _tell(reader, "submit_s", _is_date, f"{DATE}map the column as {word}")
    for key in SPANS:
        is_run = key in ("duration_s", "limit_s")
        fix = "a run time is the end minus the start" if is_run else "count from the submission on"
        _tell(reader, key, _is_date, DATE + fix)
        if duration_format == CLOCK_FORMAT:
            _tell(reader, key, _is_number, NUMBER_HINT)
        else:
            _tell(reader, key, _is_clock, CLOCK_HINT)
    _tell(reader, "duration_s", lambda text: text == "", EMPTY)
    if not reader.has("num_workers"):
        _tell(reader, "num_gpus", _is_part, PART)
    if time_format is None:
        _tell(reader, "submit_time", _is_no_day, NO_DAY)
        _tell(reader, "submit_time", _is_other_date, FORM)
        for key in SUBMIT:
            _tell(reader, key, lambda text: _is_number(text) and float(text) > LONGEST_S, UNIT)


def _tell(reader: ColumnReader, key: str, fits: Callable[[str], bool], rule: str) -> None:
    if not reader.has(key):
        return
    texts = reader.raw(key)
    odd = {text for text in set(texts) if fits(text)}
    if odd:
        reader.flag(key, np.array([text in odd for text in texts], dtype=np.bool_), rule)


def _is_number(text: str) -> bool:
    return plain_number(text) is not None


def _is_part(text: str) -> bool:
    return _is_number(text) and 0.0 < float(text) < 1.0


def _is_clock(text: str) -> bool:
    return CLOCK.fullmatch(text) is not None


def _is_date(text: str) -> bool:
    return not _is_number(text) and not _is_clock(text) and moment(text) is not None


def _is_no_day(text: str) -> bool:
    return ISO.fullmatch(text) is not None and moment(text) is None


def _is_other_date(text: str) -> bool:
    """No ISO date and no number, but enough digits to be a time."""
    return (
        moment(text) is None
        and not _is_number(text)
        and sum(map(str.isdigit, text)) >= DIGITS_OF_A_DATE
    )


log = logging.getLogger(__name__)

SUBMIT = ("submit_s", "submit_time")
TEXTS = ("user", "vc", "group", "model", "gpu_types")
NUMBERS = ("priority", "deadline_s", "cpu_milli", "memory_mib", "gpu_milli", "least_gpus",
           "most_gpus", "withdraw_s", "limit_s", "waited_s")  # fmt: skip
LISTS = ("attempts", "parents", "workflow")
TRAITS = (*TEXTS, *NUMBERS, "outcome", *LISTS)
OPTIONAL = (*SUBMIT, "num_workers", *TRAITS)
SPELT_ALIKE = 0.75  # share of equal letters from which a column may be meant for another
OUTCOMES = {"completed": COMPLETED, "failed": FAILED, "cancelled": CANCELLED}


@dataclass(frozen=True, kw_only=True)
class CsvReader(TableReader):
    """The documented CSV file (docs/workloads.md): UTF-8, plain or gzip, with a header row.

    Columns job_id, num_gpus, duration_s and one of submit_s (seconds) or submit_time (counted from
    the earliest row) are required, all others optional; a column of the file that has one of our
    names and is not mapped is warned of.
    """

    required = ("job_id", "num_gpus", "duration_s")
    optional = OPTIONAL
    delimiter: str  # one sign, or a word of `text_table.DELIMITERS`
    time_format: str | None  # of submit_time: `strptime`'s, a unit; None: ISO 8601
    duration_format: str  # of SPANS: one of DURATION_FORMATS

    def __post_init__(self) -> None:
        """Raise a TraceError, naming key, value and what is known, for another word."""
        checked_delimiter(self.delimiter)
        check_choice("reader.duration_format", self.duration_format, DURATION_FORMATS)

    def _rows(self, path: str, wanted: Columns, strict: bool) -> ColumnReader:
        dialect = Dialect(delimiter=checked_delimiter(self.delimiter))
        table = read_text_table(
            path, lambda header: _one_submission(wanted, header), strict=strict, dialect=dialect
        )
        _tell_unread(table, wanted)
        reader = ColumnReader(table, strict)
        if self.time_format is not None and reader.has("submit_s"):
            raise TraceError(
                f"workload.reader.time_format is {self.time_format!r}, but {path} has submissions "
                f"in seconds; set it to null, or map workload.columns.submit_time=NAME"
            )
        seconds = wanted.get("submit_s")
        tell_other_forms(
            reader,
            seconds=seconds,
            time_format=self.time_format,
            duration_format=self.duration_format,
        )
        return reader

    def _trace(self, reader: ColumnReader, name: str) -> Trace:
        job_id = reader.names("job_id")
        submit_s = (
            reader.times("submit_s")
            if reader.has("submit_s")
            else reader.timestamps("submit_time", self.time_format)
        )
        num_gpus, milli = _gang(reader)
        form = self.duration_format
        duration_s = reader.spans("duration_s", form)
        least, most = _elastic(reader, num_gpus.astype(np.float64))
        given, linked = reader.given, reader.has("parents") or reader.has("workflow")
        return Trace(
            name=name,
            job_id=job_id,
            submit_s=submit_s,
            num_gpus=num_gpus,
            duration_s=duration_s,
            user=reader.texts("user"),
            vc=reader.texts("vc"),
            group=given("group", reader.texts),
            model=given("model", reader.texts),
            priority=given("priority", reader.counts, blank=0, least=-(10**9)),
            deadline_s=given("deadline_s", reader.spans, form=form, blank_s=NEVER_S),
            cpu_milli=given("cpu_milli", reader.counts, blank=0),
            memory_mib=given("memory_mib", reader.counts, blank=0),
            gpu_milli=milli,
            gpu_types=given("gpu_types", reader.texts),
            least_gpus=None if least is None else least.astype(np.int64),
            most_gpus=None if most is None else most.astype(np.int64),
            outcome=given("outcome", reader.choices, meaning=OUTCOMES, blank=COMPLETED),
            withdraw_s=given("withdraw_s", reader.spans, form=form, blank_s=NEVER_S),
            limit_s=given("limit_s", reader.spans, form=form, blank_s=NEVER_S),
            waited_s=given("waited_s", reader.spans, form=form, blank_s=np.nan),
            attempts=attempts_of(reader, duration_s) if reader.has("attempts") else None,
            precedence=precedence_of(reader, job_id) if linked else None,
        )  # fmt: skip


def _gang(reader: ColumnReader) -> tuple[IntArray, IntArray | None]:
    """(N,) gangs, and thousandths of a GPU of each worker; None: the file does not tell."""
    milli = reader.given("gpu_milli", reader.counts, blank=0, least=1, most=WHOLE_GPU_MILLI)
    if reader.has("num_workers"):
        gang, parts = _workers(reader)
        return gang, parts if milli is None else np.where(milli > 0, milli, parts)
    whole = None if milli is None else np.where(milli > 0, milli, WHOLE_GPU_MILLI)
    return reader.gangs("num_gpus"), whole


def _workers(reader: ColumnReader) -> tuple[IntArray, IntArray]:
    """(N,) gangs of workers that ask for `num_gpus` each, and thousandths of a GPU of each."""
    each = reader.amounts("num_gpus", blank=0.0)
    reader.flag("num_gpus", each == 0, "is no part of a GPU; leave out jobs that use no GPU")
    workers = reader.counts("num_workers", blank=1, least=1)
    reader.gangs_from("num_workers", "num_gpus")
    return gang_of(workers.astype(np.float64), each)


def _one_submission(wanted: Columns, header: Sequence[str]) -> Columns:
    """The columns with one of submission: seconds under their own name, unless there are none."""
    given = dict(wanted)
    if "submit_time" in given and given.get("submit_s") == given["submit_time"]:
        del given["submit_s"]  # who names a column as timestamps need not unname it as seconds
    if given.get("submit_s") == "submit_s" and "submit_s" not in header:
        if "submit_time" in given:
            del given["submit_s"]
        elif "submit_time" in header:
            del given["submit_s"]
            given["submit_time"] = "submit_time"
    check_either(given, "submit_s", "submit_time", "numbers, seconds; or timestamps")
    return given


def _tell_unread(table: TextTable, wanted: Columns) -> None:
    """Fairness by user, deadlines or DAGs would mean little if their columns were not read."""
    for name in table.unread:
        spare = [trait for trait in TRAITS if trait not in wanted]
        for trait in get_close_matches(name.lower(), spare, n=1, cutoff=SPELT_ALIKE):
            fix = f"workload.columns.{trait}={name}"
            log.warning("%s: column '%s' is not read; to read it say %s", table.path, name, fix)


def _elastic(reader: ColumnReader, gang: FloatArray) -> tuple[FloatArray | None, FloatArray | None]:
    """(N,) fewest and most GPUs of elastic jobs; an empty field is the gang itself."""
    if not (reader.has("least_gpus") or reader.has("most_gpus")):
        return None, None
    counts = (reader.counts(key, blank=0, least=1) for key in ("least_gpus", "most_gpus"))
    least, most = (np.where(count == 0, gang, count.astype(np.float64)) for count in counts)
    reader.flag("least_gpus", least > gang, "is above the job's num_gpus; it must be at most that")
    reader.flag("most_gpus", most < gang, "is below the job's num_gpus; it must be at least that")
    return least, most


COLUMNS = ("job_id", "submit_s", "num_gpus", "duration_s", "user", "vc")
MORE = tuple(name for name in (*TEXTS, *NUMBERS) if name not in COLUMNS)


def trace_csv(trace: Trace) -> str:
    """Header and one row a job; numbers are written so that they read back the same.

    Optional columns are written where the trace has them, under the reader's own names.
    """
    columns = dict(_columns(trace))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def _columns(trace: Trace) -> Iterator[tuple[str, Iterable[str]]]:
    for name in (*COLUMNS, *MORE):
        column = getattr(trace, name)
        if column is not None:
            yield name, map(_cell, column.tolist())
    if trace.outcome is not None:
        words = {code: word for word, code in OUTCOMES.items()}
        yield "outcome", [words[code] for code in trace.outcome.tolist()]
    if trace.attempts is not None:
        points = list(map(_cell, trace.attempts.fail_at_s.tolist()))
        yield "attempts", _lists(trace.attempts.first, points)
    if trace.precedence is not None:
        names = [str(trace.job_id[row]) for row in trace.precedence.parents]
        yield "parents", _lists(trace.precedence.first, names)
        numbers = trace.precedence.workflow.tolist()
        yield "workflow", ["" if number < 0 else f"w{number}" for number in numbers]


def _lists(first: IntArray, entries: list[str]) -> list[str]:
    return [SEPARATOR.join(entries[begin:end]) for begin, end in pairwise(first)]


def _cell(value: str | float | int) -> str:
    if isinstance(value, float):
        if not np.isfinite(value):
            return ""  # the reader's word for never, and for not known
        return repr(int(value) if value.is_integer() else value)
    return str(value)
