"""Broken files in every format: an error with file, line and column, or a counted skip."""

import csv
import gzip
import io
import json
import logging
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.errors import TraceError
from sim.traces.trace import Trace
from tests.traces.trace_samples import SAMPLES, loaded, preset

NO_HEADER = {"alibaba_pai", "alibaba_dag_2018"}
NAN_IS_EMPTY = {"alibaba_pai", "helios_log", "swf"}  # in some columns: as data frames write it
COMMENTS = 2  # lines of the SWF sample before its first job
TABLES = sorted(set(SAMPLES) - {"philly_json"})
# Columns of numbers, by position: format -> (row of the sample, column, its name, may be empty).
NUMBERS = {
    "csv": [(0, 1, "submit_s", False), (0, 2, "num_gpus", False), (0, 3, "duration_s", False),
            (0, 8, "priority", True), (0, 9, "deadline_s", True), (0, 10, "cpu_milli", True),
            (0, 11, "memory_mib", True), (0, 12, "gpu_milli", True), (0, 14, "least_gpus", True),
            (2, 15, "most_gpus", True), (2, 17, "withdraw_s", True), (0, 18, "attempts", True),
            (0, 21, "limit_s", True), (0, 22, "waited_s", True)],
    "philly": [(0, 1, "submit_s", False), (1, 2, "num_gpus", False), (1, 3, "duration_s", False)],
    "helios_venus": [(0, 2, "num_gpus", False), (0, 3, "duration_s", False)],
    "helios_log": [(3, 4, "gpu_num", False), (0, 5, "cpu_num", True), (3, 11, "duration", True),
                   (2, 12, "queue", True)],
    "alibaba_pai": [(0, 2, "inst_num", True), (0, 4, "start_time", True), (0, 5, "end_time", True),
                    (0, 6, "plan_cpu", True), (0, 7, "plan_mem", True), (0, 8, "plan_gpu", True)],
    "alibaba_pai_tasks": [(1, 2, "submit_s", False), (1, 3, "duration_s", False),
                          (0, 4, "num_gpus", False)],
    "alibaba_openb": [(0, 1, "cpu_milli", True), (0, 2, "memory_mib", True),
                      (0, 3, "num_gpu", False), (0, 4, "gpu_milli", True),
                      (0, 8, "creation_time", False), (1, 9, "deletion_time", False)],
    "alibaba_lingjun": [(0, 10, "priority", True)],
    "alibaba_lingjun_jobs": [(0, 1, "submit_s", False), (0, 2, "num_gpus", False),
                             (0, 3, "duration_s", False)],
    "alibaba_dag_2018": [(0, 1, "inst_num", True), (1, 5, "start_time", True),
                         (1, 6, "end_time", True)],
    "alibaba_dag_tasks": [(0, 0, "arrival_s", False), (1, 3, "duration_s", False),
                          (1, 6, "n_instances", True)],
    "sia": [(0, 1, "time", False), (2, 3, "num_replicas", False)],
    "sia_newtrace": [(0, 2, "time", False), (2, 4, "num_replicas", False)],
    "sia_saturn": [(0, 2, "time", False)],
    "sia_philly": [(1, 2, "time", False)],
    "sacct": [(0, 9, "ElapsedRaw", False)],
    # Fields between blanks cannot be empty: the line is then too short.
    "swf": [(0, 1, "submit", True), (1, 3, "run_time", True), (0, 4, "processors", True),
            (1, 7, "requested_processors", True), (0, 8, "requested_time", True),
            (0, 9, "requested_memory", True), (0, 2, "wait", True)],
    "tiresias": [(0, 1, "num_gpu", False), (0, 2, "submit_time", False), (0, 5, "duration", False)],
}  # fmt: skip
FIELDS = [(name, *spot) for name, spots in NUMBERS.items() for spot in spots]
SIGNED = {("csv", "priority")}


def refused(name: str, folder: Path, content: bytes, *, strict: bool = True) -> str:
    """The words of the error; they name the file."""
    with pytest.raises(TraceError) as error:
        loaded(name, folder, content, strict=strict)
    assert "main.txt" in str(error.value)
    return str(error.value)


def table(name: str) -> tuple[list[list[str]], int]:
    """The rows of a sample, header included, and how many rows the header takes."""
    sample = SAMPLES[name]
    rows = list(csv.reader(io.StringIO(sample.text), delimiter=sample.delimiter))
    if name == "swf":
        return rows, COMMENTS
    return rows, 0 if name in NO_HEADER else 1


def as_text(rows: list[list[str]], name: str) -> bytes:
    text = io.StringIO()
    delimiter = SAMPLES[name].delimiter
    csv.writer(text, lineterminator="\n", delimiter=delimiter).writerows(rows)
    return text.getvalue().encode()


def with_field(name: str, row: int, column: int, value: str) -> tuple[bytes, int]:
    """The sample with one field changed, and the line it stands on."""
    rows, header = table(name)
    rows[row + header][column] = value
    return as_text(rows, name), row + header + 1


def check_valid(trace: Trace) -> None:
    """What every trace that comes out of a reader must be."""
    assert len(trace) >= 1
    assert np.all(np.diff(trace.submit_s) >= 0)
    assert np.all(np.isfinite(trace.submit_s) & np.isfinite(trace.duration_s))
    assert np.all((trace.duration_s >= 0) & (trace.num_gpus >= 1))
    assert len(set(trace.job_id)) == len(trace)
    if trace.gpu_milli is not None:
        assert np.all((trace.gpu_milli >= 1) & (trace.gpu_milli <= 1000))
    if trace.withdraw_s is not None:
        assert np.all(trace.withdraw_s >= 0)
    if trace.attempts is not None:
        for row in range(len(trace)):
            points = trace.attempts.fail_at_s[slice(*trace.attempts.first[row : row + 2])]
            assert np.all(np.diff(points) > 0)
            assert np.all((points > 0) & (points < trace.duration_s[row]))
    if trace.precedence is not None:
        assert np.all((trace.precedence.parents >= 0) & (trace.precedence.parents < len(trace)))


@pytest.mark.parametrize("spot", FIELDS, ids=lambda spot: f"{spot[0]}-{spot[3]}")
@pytest.mark.parametrize("value", ["-7", "1e30", "inf", "-inf", "x", "0x10", "", "nan"])
def test_a_number_that_is_none_is_named_by_line_and_column(
    spot, value: str, tmp_path: Path, caplog
) -> None:
    name, row, column, title, may_be_empty = spot
    content, line = with_field(name, row, column, value)
    if (name, title) in SIGNED and value == "-7":
        return
    if (value == "" and may_be_empty) or (value == "nan" and name in NAN_IS_EMPTY):
        try:
            check_valid(loaded(name, tmp_path, content)[0])
        except TraceError as error:
            assert f"line {line}" in str(error)
        return
    said = refused(name, tmp_path, content)
    assert f"line {line}, column '{title}': {value!r}" in said
    rows, header = table(name)
    with caplog.at_level(logging.WARNING):
        try:
            trace, notes = loaded(name, tmp_path, content, strict=False)
        except TraceError as error:
            assert "is usable" in str(error)  # it was the only job
            return
    check_valid(trace)
    assert notes.skipped == 1
    assert notes.rows == len(rows) - header
    assert re.search(r"1 rows skipped, the first: .*; by rule: 1 x ", caplog.text)


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("empty", r"the file is empty|the file ends here"),
        ("blank", r"the file is empty|the file ends here"),
        ("latin-1", r"line \d+: byte 0xe9 is not UTF-8 text"),
        ("utf-16", r"line 1: byte 0xff is not UTF-8 text"),
        ("utf-16 without a mark", r"line 1.*(NUL byte|stands here|no JSON)"),
        ("cut gzip", r"is not a whole gzip file"),
        ("bad gzip", r"is not a whole gzip file"),
    ],
)
def test_a_broken_file_is_an_error_either_way(
    name: str, strict: bool, kind: str, words: str, tmp_path: Path
) -> None:
    text = SAMPLES[name].text
    packed = bytearray(gzip.compress(text.encode() * 3, mtime=0))
    packed[20] ^= 0xFF
    content = {
        "empty": b"",
        "blank": b"\n\n",
        "latin-1": text.encode().replace(b"a", b"\xe9", 1),
        "utf-16": text.encode("utf-16"),
        "utf-16 without a mark": text.encode("utf-16-le"),
        "cut gzip": gzip.compress(text.encode())[:-9],
        "bad gzip": bytes(packed),
    }[kind]
    assert re.search(words, refused(name, tmp_path, content, strict=strict))


@pytest.mark.parametrize("name", SAMPLES)
def test_gzip_reads_like_plain_text(name: str, tmp_path: Path) -> None:
    plain, _ = loaded(name, tmp_path, SAMPLES[name].text.encode())
    packed, _ = loaded(name, tmp_path, gzip.compress(SAMPLES[name].text.encode()))
    assert packed.submit_s.tolist() == plain.submit_s.tolist()
    assert list(packed.job_id) == list(plain.job_id)


@pytest.mark.parametrize("name", TABLES)
def test_a_row_that_is_too_long_is_named_by_line(name: str, tmp_path: Path) -> None:
    rows, _ = table(name)
    rows[-1] = [*rows[-1], "1"]
    assert f"line {len(rows)}: the row is too long" in refused(name, tmp_path, as_text(rows, name))


@pytest.mark.parametrize("name", sorted(set(TABLES) - {"sacct"}))  # there it is a run of the job
def test_a_job_named_twice_is_refused_or_skipped(name: str, tmp_path: Path) -> None:
    rows, header = table(name)
    rows.append(rows[header])
    said = refused(name, tmp_path, as_text(rows, name))
    assert f"line {len(rows)}, column" in said
    assert f"is the job of an earlier row again; give it a name unlike line {header + 1}'s" in said
    good, _ = loaded(name, tmp_path, SAMPLES[name].text.encode())
    trace, notes = loaded(name, tmp_path, as_text(rows, name), strict=False)
    assert list(trace.job_id) == list(good.job_id)
    assert notes.skipped == 1


@pytest.mark.parametrize("name", sorted(NO_HEADER))
def test_a_header_row_where_none_belongs_is_named(name: str, tmp_path: Path) -> None:
    workload = preset(name, "path=unused")
    header = ",".join(workload._reader.header) + "\n"
    content = (header + SAMPLES[name].text).encode()
    assert (
        "line 1: is a header row, in a format that has none; set workload.reader.header=null"
        in (refused(name, tmp_path, content))
    )


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("alibaba_lingjun/worker.csv", '""8""', '""x""', "line 2, column 'RES'"),
        ("alibaba_lingjun/worker.csv", '""8""', '""-8""', "line 2, column 'RES'"),
        ("alibaba_lingjun/worker.csv", '""8""', "1e999", "line 2, column 'RES'"),
        ("alibaba_lingjun/worker.csv", '""8""', '""nan""', "line 2, column 'RES'"),
        ("alibaba_lingjun/worker.csv", '""8""', "[" * 100_000, "line 2, column 'RES'"),
        ("alibaba_lingjun/worker.csv", "job_name", "job", "line 1: no column 'job_name'"),
        ("alibaba_lingjun/worker.csv", "1,dlc1,a,", "1,dlc1,", "line 2: the row is cut off"),
        ("alibaba_pai/jobs.csv", ",900.0", ",-900", "line 1, column 'start_time': '-900' is"),
        ("alibaba_pai/jobs.csv", ",900.0", ",soon", "line 1, column 'start_time': 'soon' is not"),
        ("alibaba_pai/jobs.csv", ",900.0", ",nan", "line 1, column 'start_time': 'nan' is"),
        ("alibaba_pai/jobs.csv", "j2,", "j1,", "line 2, column 'job_name': 'j1' is the job"),
        ("alibaba_pai/tags.csv", ",g1", "", "line 1: the row is cut off"),
        ("alibaba_pai/tags.csv", "alice", "\0", "line 1: a NUL byte"),
    ],
)
def test_a_broken_companion_is_named(
    name: str, old: str, new: str, words: str, tmp_path: Path, monkeypatch
) -> None:
    name, _, beside = name.partition("/")
    sample = SAMPLES[name]
    assert old in sample.beside[beside]
    broken = {**sample.beside, beside: sample.beside[beside].replace(old, new, 1)}
    monkeypatch.setitem(SAMPLES, name, replace(sample, beside=broken))
    with pytest.raises(TraceError) as error:
        loaded(name, tmp_path, sample.text.encode())
    assert f"{beside}, {words}" in str(error.value)


@cache
def seeds() -> list[tuple[str, bytes]]:
    """Each sample, plain and packed."""
    plain = [(name, sample.text.encode()) for name, sample in SAMPLES.items()]
    return plain + [(name, gzip.compress(text, mtime=0)) for name, text in plain[::4]]


edits = st.lists(
    st.tuples(
        st.floats(0, 0.999),
        st.sampled_from(["set", "cut", "put"]),
        st.sampled_from([b"\x00", b'"', b"\n", b"\r", b",", b"-", b".", b"e9", b"\xff", b"\xe9",
                         b"nan", b"1e999", b"[", b"]", b"{", b"}", b"\\", b";", b"|", b"_", b" "]),
    ),
    min_size=1, max_size=5,
)  # fmt: skip


@given(pick=st.integers(0, 10**6), changes=edits, strict=st.booleans())
@settings(
    max_examples=450, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_changed_bytes_give_a_valid_trace_or_a_named_error(
    pick: int, changes, strict: bool, tmp_path: Path
) -> None:
    name, content = seeds()[pick % len(seeds())]
    noisy = bytearray(content)
    for where, action, what in changes:
        spot = int(where * len(noisy))
        if action == "set":
            noisy[spot : spot + len(what)] = what
        elif action == "cut":
            del noisy[spot : spot + 3 * len(what)]
        else:
            noisy[spot:spot] = what
    try:
        trace, notes = loaded(name, tmp_path, bytes(noisy), strict=strict)
    except TraceError as error:
        assert "main.txt" in str(error)
        placed = re.search(r"line \d+", str(error))
        whole = re.search(r"gzip|is usable|empty|no job|no row|header row", str(error))
        assert placed or whole, str(error)
        return
    check_valid(trace)
    assert notes.rows == len(trace) + notes.skipped + sum(notes.left_out.values())
    assert not (strict and notes.skipped)


@given(data=st.binary(max_size=120), pick=st.integers(0, 10**6), strict=st.booleans())
@settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_arbitrary_bytes_are_refused(data: bytes, pick: int, strict: bool, tmp_path: Path) -> None:
    name = sorted(SAMPLES)[pick % len(SAMPLES)]
    with pytest.raises(TraceError):
        loaded(name, tmp_path, data, strict=strict)


@given(cut=st.integers(0, len(SAMPLES["philly_json"].text) - 1))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_log_cut_anywhere_is_refused(cut: int, tmp_path: Path) -> None:
    for strict in (True, False):
        said = refused("philly_json", tmp_path, SAMPLES["philly_json"].text[:cut].encode(),
                       strict=strict)  # fmt: skip
        assert re.search(r"line \d+", said)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[" * 200_000, "line 1: job object 0 cannot be read (RecursionError"),
        (b'[{"jobid": ' + b"9" * 6000 + b"}]", "line 1: job object 0 cannot be read (ValueError"),
        (b"{}", "line 1: '{' stands here; the file must hold a list of jobs"),
        (b"[]", "none of its 0 rows is usable"),
        (b"[1]", "line 1, job object 0, key '(the whole object)': 1 is no job"),
        (b"[\n\n{} {}]", "line 3, job object 0, key 'status': None is no text"),
        (b'["a\x00b"]', "line 1: a NUL byte"),
        (b'["a\x01b"]', "line 1, job object 0: is no JSON"),
        (b'[{"status": NaN}]', "key 'status': nan is no text"),
    ],
)
def test_json_that_is_no_log(content: bytes, words: str, tmp_path: Path) -> None:
    assert words in refused("philly_json", tmp_path, content)


def test_text_after_the_log_is_refused(tmp_path: Path) -> None:
    text = SAMPLES["philly_json"].text
    assert "text after the end of the list" in refused(
        "philly_json", tmp_path, (text + "\n[]").encode()
    )
    joined = re.sub(r"\},\n \{\n  \"status\"", '} {"status"', text, count=1)
    said = refused("philly_json", tmp_path, joined.encode())
    assert "a comma must follow job object 0" in said


def test_bad_jobs_of_a_log_are_skipped_and_counted_by_rule(tmp_path: Path, caplog) -> None:
    jobs = json.loads(SAMPLES["philly_json"].text)
    bad = [{**jobs[0], "status": "Lost"}, {**jobs[0], "submitted_time": "x"}, jobs[0], 7]
    content = json.dumps([*jobs, *bad]).encode()
    with caplog.at_level(logging.WARNING):
        trace, notes = loaded("philly_json", tmp_path, content, strict=False)
    assert (len(trace), notes.rows, notes.skipped) == (5, 11, 4)
    assert "4 jobs skipped, the first: " in caplog.text
    assert "1 x status is unknown" in caplog.text
    assert "1 x jobid is the job of an earlier object again" in caplog.text


def test_a_text_without_an_end_is_refused(tmp_path: Path) -> None:
    content = b'[{"jobid": "' + b"x" * 100_000
    assert "is no JSON (Unterminated string" in refused("philly_json", tmp_path, content)
