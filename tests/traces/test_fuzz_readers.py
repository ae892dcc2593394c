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
from omegaconf import OmegaConf

from sim.errors import TraceError
from sim.traces.job_logs import FIELDS as SWF_FIELDS
from sim.traces.trace import Trace
from tests.traces.trace_samples import CONF, SAMPLES, loaded, preset

NO_HEADER = {"alibaba_pai", "alibaba_dag_2018"}
NAN_IS_EMPTY = {"alibaba_pai", "helios_log", "swf"}  # in some columns: as data frames write it
COMMENTS = 2  # lines of the SWF sample before its first job
TABLES = sorted(set(SAMPLES) - {"philly_json"})
# Columns of numbers: `title`, or `title?` where it may be empty; `@2`: in row 2 of the sample.
NUMBERS = {
    "csv": "submit_s num_gpus duration_s priority? deadline_s? cpu_milli? memory_mib? gpu_milli? "
           "least_gpus? most_gpus?@2 withdraw_s?@2 attempts? limit_s? waited_s?",
    "philly": "submit_s num_gpus@1 duration_s@1",
    "helios_venus": "num_gpus duration_s",
    "helios_log": "gpu_num@3 cpu_num? duration?@3 queue?@2",
    "alibaba_pai": "inst_num? start_time? end_time? plan_cpu? plan_mem? plan_gpu?",
    "alibaba_pai_tasks": "submit_s@1 duration_s@1 num_gpus",
    "alibaba_openb": "cpu_milli? memory_mib? num_gpu gpu_milli? creation_time deletion_time@1",
    "alibaba_lingjun": "priority?",
    "alibaba_lingjun_jobs": "submit_s num_gpus duration_s",
    "alibaba_dag_2018": "inst_num? start_time?@1 end_time?@1",
    "alibaba_dag_tasks": "arrival_s duration_s@1 n_instances?@1",
    "sia": "time num_replicas@2",
    "sia_newtrace": "time num_replicas@2",
    "sia_saturn": "time",
    "sia_philly": "time@1",
    "sacct": "ElapsedRaw",
    # Fields between blanks cannot be empty: the line is then too short.
    "swf": "submit? run_time?@1 processors? requested_processors?@1 requested_time? "
           "requested_memory? wait?",
    "tiresias": "num_gpu submit_time duration",
}  # fmt: skip


def titles(name: str) -> list[str]:
    """Columns of a format's file, in order."""
    if name in NO_HEADER:
        return list(OmegaConf.load(CONF / "workload" / f"{name}.yaml").reader.header)
    sample = SAMPLES[name]
    return list(SWF_FIELDS) if name == "swf" else sample.text.split("\n")[0].split(sample.delimiter)


def spot(name: str, word: str) -> tuple[str, int, int, str, bool]:
    """Format, row of the sample, column, its title, and whether it may be empty."""
    title, _, row = word.partition("@")
    plain = title.removesuffix("?")
    return name, int(row or 0), titles(name).index(plain), plain, plain != title


FIELDS = [spot(name, word) for name, words in NUMBERS.items() for word in words.split()]
FOLDER = settings(  # one folder for all examples
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


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


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: f"{field[0]}-{field[3]}")
def test_a_number_that_is_none_is_named_by_line_and_column(field, tmp_path: Path, caplog) -> None:
    name, row, column, title, may_be_empty = field
    for value in ("-7", "1e30", "inf", "-inf", "x", "0x10", "", "nan"):
        content, line = with_field(name, row, column, value)
        if (value == "" and may_be_empty) or (value == "nan" and name in NAN_IS_EMPTY):
            try:
                check_valid(loaded(name, tmp_path, content)[0])
            except TraceError as error:
                assert f"line {line}" in str(error)
        elif (name, title, value) != ("csv", "priority", "-7"):
            said = refused(name, tmp_path, content)
            assert f"line {line}, column '{title}': {value!r}" in said
            assert "workload.strict=false" in said
            check_skipped(name, tmp_path, content, caplog)


def check_skipped(name: str, folder: Path, content: bytes, caplog) -> None:
    """Lenient reading leaves the one bad row out, counts it and says so."""
    rows, header = table(name)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        try:
            trace, notes = loaded(name, folder, content, strict=False)
        except TraceError as error:
            assert "is usable" in str(error)  # it was the only job
            return
    check_valid(trace)
    assert (notes.skipped, notes.rows) == (1, len(rows) - header)
    assert re.search(r"1 row skipped, the first: .*; by rule: 1 x ", caplog.text)


@pytest.mark.parametrize("name", SAMPLES)
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
def test_a_broken_file_is_an_error_either_way(name: str, kind, words, tmp_path: Path) -> None:
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
    for strict in (True, False):
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
        (
            "alibaba_lingjun/worker.csv",
            '""cpu"": ""90"", ""memory"": ""900Gi"", ""nvidia.com/gpu"": ""8""',
            '""nvidia.com/gpu"": 0.5',
            "line 2, column 'RES': '{\"nvidia.com/gpu\": 0.5}' is no "
            "object of resources, GPUs whole, such as {",
        ),
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
@settings(FOLDER, max_examples=450)
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
@settings(FOLDER, max_examples=250)
def test_arbitrary_bytes_are_refused(data: bytes, pick: int, strict: bool, tmp_path: Path) -> None:
    name = sorted(SAMPLES)[pick % len(SAMPLES)]
    with pytest.raises(TraceError):
        loaded(name, tmp_path, data, strict=strict)


@given(cut=st.integers(0, len(SAMPLES["philly_json"].text) - 1))
@settings(FOLDER, max_examples=60)
def test_a_log_cut_anywhere_is_refused(cut: int, tmp_path: Path) -> None:
    for strict in (True, False):
        said = refused("philly_json", tmp_path, SAMPLES["philly_json"].text[:cut].encode(),
                       strict=strict)  # fmt: skip
        assert re.search(r"line \d+", said)


LOG = SAMPLES["philly_json"].text.encode()


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
        (b'[{"jobid": "' + b"x" * 100_000, "is no JSON (Unterminated string"),
        (LOG + b"\n[]", "text after the end of the list"),
        (LOG.replace(b"},\n {", b"} {", 1), "a comma must follow job object 0"),
    ],
)
def test_json_that_is_no_log(content: bytes, words: str, tmp_path: Path) -> None:
    assert words in refused("philly_json", tmp_path, content)


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


@pytest.mark.parametrize("fault", [{"status": "Lost"}, {"submitted_time": "x"}, {"user": 3}])
def test_a_job_of_a_log_that_used_no_gpu_is_left_out_whatever_else_it_says(
    fault: dict[str, object], tmp_path: Path
) -> None:
    jobs = json.loads(SAMPLES["philly_json"].text)
    attempt = {"start_time": "2017-10-07 00:01:00", "end_time": "2017-10-07 00:02:00", "detail": []}
    blind = {**jobs[0], "jobid": "other", "attempts": [attempt], **fault}
    trace, notes = loaded("philly_json", tmp_path, json.dumps([*jobs, blind]).encode())
    assert (len(trace), notes.skipped, notes.left_out["use no GPU"]) == (5, 0, 2)
