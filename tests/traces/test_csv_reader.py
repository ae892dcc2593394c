"""The reader: what it accepts, what it says of what it does not, and the same in every format."""

import logging
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.errors import TraceError
from sim.traces.csv_reader import CsvReader
from sim.traces.prepare import cap
from sim.traces.trace import Trace
from tests.traces.test_fuzz_readers import NO_HEADER, as_text, refused, spot, table, with_field
from tests.traces.trace_samples import SAMPLES, caps, loaded

PLAIN_FORMS = CsvReader(delimiter="comma", time_format=None, duration_format="seconds")
PLAIN = {"job_id": "id", "submit_s": "t", "num_gpus": "gpus", "duration_s": "run"}
HEADER = "id,t,gpus,run\n"


def read(path: Path, text: str | bytes, strict: bool = True, columns=PLAIN):
    """Write `text` to `path` and read it back as a trace."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return PLAIN_FORMS.read(path=str(path), columns=columns, name="small", strict=strict)


def message(path: Path, text: str | bytes, **more) -> str:
    """The error's words; every message names the file."""
    with pytest.raises(TraceError) as error:
        read(path, text, **more)
    assert str(path) in str(error.value)
    return str(error.value)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "jobs.csv"


def test_reads_columns_by_name_whatever_their_order(file: Path) -> None:
    trace, notes = read(file, "run,x,gpus,t,id\n10,?,2,0,a\n0,?,1,5.5,b\n")
    assert list(trace.job_id) == ["a", "b"]
    assert trace.submit_s.tolist() == [0.0, 5.5]
    assert trace.num_gpus.tolist() == [2, 1]
    assert trace.num_gpus.dtype == np.int64
    assert trace.duration_s.tolist() == [10.0, 0.0]  # a job of zero seconds is legal
    assert list(trace.user) == ["", ""]
    assert (notes.rows, notes.skipped, notes.unsorted) == (2, 0, 0)

    columns = {**PLAIN, "user": "who", "vc": None}
    trace, _ = read(file, "id,t,gpus,run,who\na,0,1,1, ann \n", columns=columns)
    assert (list(trace.user), list(trace.vc)) == (["ann"], [""])


def test_accepts_windows_line_ends_byte_order_mark_blank_lines_and_quotes(file: Path) -> None:
    trace, notes = read(file, b'\xef\xbb\xbfid,t,gpus,run\r\n"a,1",0,1,2\r\n\r\nb,1,1,2')
    assert list(trace.job_id) == ["a,1", "b"] and notes.rows == 2
    trace, notes = read(file, HEADER + "\na,0,1,1\n   \n \t\nb,1,1,1\n  ")
    assert list(trace.job_id) == ["a", "b"] and notes.rows == 2


DATES = {"job_id": "id", "submit_time": "t", "num_gpus": "gpus", "duration_s": "run"}


def test_timestamps_count_from_the_earliest_row_and_zones_are_exact(file: Path) -> None:
    rows = "b,2020-03-19 00:00:01,1,1\na,2020-03-18 04:01:39.500,1,1\nc,2020-03-19T00:00:02,1,1\n"
    trace, notes = read(file, HEADER + rows, columns=DATES)
    assert list(trace.job_id) == ["a", "b", "c"]
    assert trace.submit_s.tolist() == [0.0, 71901.5, 71902.5]
    assert notes.unsorted == 1
    rows = "a,2020-01-01T01:00:00+01:00,1,1\nb,2020-01-01T00:00:10Z,1,1\n"
    trace, _ = read(file, HEADER + rows, columns=DATES)
    assert trace.submit_s.tolist() == [0.0, 10.0]


@pytest.mark.parametrize(
    ("row", "column", "value", "words"),
    [
        ("b,,1,1", "t", "", "is empty"),
        ("b,1,1_6,1", "gpus", "1_6", "not a number"),  # Python's float takes both
        ("b,1,1,٣", "run", "٣", "not a number"),
        ("b,nan,1,1", "t", "nan", "not a finite number"),
        ("b,-1,1,1", "t", "-1", "is negative"),
        ("b,1600000000000,1,1", "t", "1600000000000", "milliseconds"),
        ("b,1,1,1h", "run", "1h", "not a number"),
        ("b,1,0,1", "gpus", "0", "below 1"),
        ("b,1,1.5,1", "gpus", "1.5", "fraction"),
        ("b,1,0.5,1", "gpus", "0.5", "fraction"),
        ("b,1,1e12,1", "gpus", "1e12", "no plausible number of GPUs"),
        ("a,1,1,1", "id", "a", "earlier row again; give it a name unlike line 2's"),
        (",1,1,1", "id", "", "needs a name"),
    ],
)
def test_a_bad_value_is_named_with_line_column_value_and_fix(
    file: Path, row: str, column: str, value: str, words: str
) -> None:
    text = HEADER + "a,0,1,1\n\n" + row + "\nz,9,1,1\n"
    said = message(file, text)
    assert f"line 4, column '{column}': {value!r}" in said
    assert words in said
    assert "workload.strict=false" in said


def test_the_first_bad_row_is_reported_by_the_line_where_it_starts(file: Path) -> None:
    assert "line 4," in message(file, HEADER + '"a\nb",0,1,1\nc,x,1,1\n')
    assert "line 3, column 'run'" in message(file, HEADER + "a,0,1,1\nb,1,1,-1\nc,x,0,1\n")


@pytest.mark.parametrize(("row", "words"), [("b,1", "cut off: 2"), ("b,1,1,1,1", "too long: 5")])
def test_a_row_of_another_length_is_an_error(file: Path, row: str, words: str) -> None:
    said = message(file, HEADER + "a,0,1,1\n" + row + "\n")
    assert f"line 3: the row is {words} fields, the header has 4" in said
    assert ("complete it" in said) == ("cut off" in said)
    assert ("put a field that holds ',' in quotes" in said) == ("too long" in said)


def test_timestamps_that_are_none_or_mix_zones(file: Path) -> None:
    first = HEADER + "a,2020-01-01 00:00:00,1,1\n"
    said = message(file, first + "b,1577836800,1,1\n", columns=DATES)
    assert "line 3, column 't': '1577836800' is not a timestamp" in said
    assert "workload.columns.submit_s" in said
    assert "time zone" in message(file, first + "b,2020-01-01T00:00:00Z,1,1\n", columns=DATES)


def test_a_missing_column_is_named_with_the_nearest_and_one_named_twice_too(file: Path) -> None:
    said = message(file, "id,t,gpu,run\na,0,1,1\n")
    assert "line 1: no column 'gpus' for num_gpus; did you mean 'gpu'?" in said
    assert "the file has: id, t, gpu, run" in said
    assert "workload.columns.num_gpus=" in said
    assert "'t' (for submit_s) appears 2 times" in message(file, "id,t,t,gpus,run\na,0,0,1,1\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"id,t,gpus,run\n", "only a header row"),
        (b"id,t,gpus,run\n\xe9a,0,1,1\n", "line 2: byte 0xe9 is not UTF-8"),
        (b'id,t,gpus,run\n"a,0,1,1\nb,0,1,1\n', "line 2: the row cannot be split"),
    ],
)
def test_a_broken_file_is_named(file: Path, text: bytes, words: str) -> None:
    for strict in (True, False):
        assert words in message(file, text, strict=strict)


def test_plain_text_with_a_gz_ending_an_absent_file_and_a_folder(tmp_path: Path) -> None:
    assert "drop the .gz ending" in message(tmp_path / "jobs.csv.gz", HEADER + "a,0,1,1\n")
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(TraceError, match=r"cannot be read .*set workload\.path"):
            PLAIN_FORMS.read(path=str(path), columns=PLAIN, name="small", strict=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"duration": "run"}, "columns.duration is not a key; did you mean 'duration_s'?"),
        ({"duration_s": None}, "columns.duration_s is missing"),
        ({"submit_time": "run"}, "either submit_s"),
        ({"submit_s": None}, "either submit_s"),
    ],
)
def test_a_wrong_mapping(file: Path, change: dict[str, str | None], words: str) -> None:
    with pytest.raises(TraceError, match=re.escape(words)):
        read(file, HEADER + "a,0,1,1\n", columns={**PLAIN, **change})


def test_an_unread_column_that_has_one_of_our_names_is_warned_of(file: Path, caplog) -> None:
    text = "id,t,gpus,run,user,vc,colour,Modle\na,0,1,1,ann,x,red,vgg\n"
    with caplog.at_level(logging.WARNING):
        read(file, text, columns={**PLAIN, "vc": "user", "deadline_s": None})
    assert "column 'vc'" not in caplog.text  # vc is read, from another column
    assert "column 'user'" not in caplog.text  # it is read, as vc
    assert caplog.text.count("is not read") == 1
    assert "column 'Modle' is not read; to read it say workload.columns.model=Modle" in caplog.text
    with caplog.at_level(logging.WARNING):
        trace, _ = read(file, text, columns={**PLAIN, "user": None})
    assert f"{file}: column 'user' is not read; to read it say workload.columns.user=user" in (
        caplog.text
    )
    assert "column 'vc' is not read" in caplog.text
    assert "colour" not in caplog.text
    assert list(trace.user) == [""]


def test_lenient_reading_skips_counts_and_logs(file: Path, caplog) -> None:
    rows = "a,0,1,1\nb,x,1,1\nc,1\nd,2,0,1\ne,3,1,1\na,4,1,1\n"
    with caplog.at_level(logging.WARNING):
        trace, notes = read(file, HEADER + rows, strict=False)
    assert list(trace.job_id) == ["a", "e"]
    assert trace.submit_s.tolist() == [0.0, 3.0]
    assert (notes.rows, notes.skipped) == (6, 4)
    assert "1 row skipped" in caplog.text
    assert "3 rows skipped" in caplog.text


def test_a_rule_that_several_rows_break_is_counted_without_the_line_of_one(file, caplog) -> None:
    rows = "a,0,1,1\nb,0,1,1\nb,1,1,1\na,2,1,1\nb,3,1,1\n"
    read(file, HEADER + rows, strict=False)
    assert "earlier row again; give it a name unlike line 3's" in caplog.text
    assert caplog.text.strip().endswith("by rule: 3 x job_id is the job of an earlier row again")


@pytest.mark.parametrize("rows", ["a,x,1,1\nb,1,0,1\n", "a\nb,1\n"])
def test_lenient_reading_of_nothing_usable(file: Path, rows: str) -> None:
    assert re.search("usable|no row has", message(file, HEADER + rows, strict=False))


@given(submits=st.lists(st.integers(0, 20), min_size=1, max_size=40))
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_sorting_is_stable_and_loses_nothing(tmp_path: Path, submits: list[int]) -> None:
    rows = "".join(f"{row},{submit},1,{row}\n" for row, submit in enumerate(submits))
    trace, notes = read(tmp_path / "jobs.csv", HEADER + rows)
    expected = sorted(range(len(submits)), key=lambda row: (submits[row], row))
    assert [int(name) for name in trace.job_id] == expected
    assert trace.duration_s.tolist() == [float(row) for row in expected]
    assert (notes.unsorted == 0) == (submits == sorted(submits))


GPUS = 15  # of the cluster
FIX = "workload.strict=false"
# Columns of a state ("-": none), of a time and of a gang; `@2`: in row 2 of the sample.
SPOTS = {
    "csv": "outcome submit_s@1 num_gpus@3",
    "philly": "- submit_s num_gpus@1",
    "helios_venus": "- duration_s num_gpus",
    "helios_log": "state duration@3 gpu_num@3",
    "alibaba_pai": "status start_time plan_gpu@2",
    "alibaba_pai_tasks": "- submit_s@1 num_gpus",
    "alibaba_openb": "pod_phase creation_time num_gpu@1",
    "alibaba_pai_100k": "- submit_time num_inst@1",
    "alibaba_spot": "- submit_time worker_num@1",
    "alibaba_lingjun_jobs": "- submit_s num_gpus",
    "alibaba_dag_2018": "status start_time@1 inst_num@2",
    "alibaba_dag_tasks": "- arrival_s n_instances",
    "sia": "application@1 time num_replicas@1",
    "sia_newtrace": "application@2 time@2 num_replicas@2",  # a row of the draw that is read
    "sia_saturn": "application@2 time@2 num_replicas@2",
    "sia_philly": "application@1 time@1 num_replicas@1",
    "tiresias": "- duration num_gpu",
    "sacct": "State ElapsedRaw AllocTRES",
    "swf": "status submit processors",
}
MANY = {"alibaba_pai": "40000", "alibaba_dag_2018": "5000", "alibaba_dag_tasks": "4000",
        "sacct": "cpu=4,gres/gpu=400"}  # fmt: skip
TABLES = sorted(SPOTS)
OWN_WAY = {"philly_json", "alibaba_lingjun", "acme"}  # JSON, gangs elsewhere, dates alone


def field(name: str, kind: int) -> tuple[int, int, str]:
    """Row of the sample, column and its title; kinds: 0 state, 1 time, 2 gang."""
    return spot(name, SPOTS[name].split()[kind])[1:4]


def capped(trace: Trace, drop: bool) -> tuple[Trace, int]:
    return cap(trace, caps(drop_too_large=drop), GPUS)


def too_large(trace: Trace) -> str:
    """The message of a gang above the cluster."""
    with pytest.raises(TraceError) as error:
        capped(trace, drop=False)
    return str(error.value)


def test_every_format_is_here() -> None:
    assert {*SPOTS, *OWN_WAY} == set(SAMPLES)


@pytest.mark.parametrize("name", sorted(set(TABLES) - NO_HEADER - {"swf"}))
def test_a_missing_column(name: str, tmp_path: Path) -> None:
    rows, _ = table(name)
    _, column, title = field(name, 1)
    lost = [row[:column] + row[column + 1 :] for row in rows]
    if name == "sacct":  # run times may come from Start and End: all three are gone
        lost = [[field for at, field in enumerate(row) if at not in (7, 8, 9)] for row in rows]
    said = refused(name, tmp_path, as_text(lost, name))
    told = "no column " if name == "sacct" else f"no column '{title}' for "
    assert f"main.txt, line 1: {told}" in said and "the file has: " in said
    assert re.search(r"set workload\.columns\.\w+=NAME|add one to the --format", said)


@pytest.mark.parametrize("name", TABLES)
def test_a_half_line(name: str, tmp_path: Path, caplog) -> None:
    rows, header = table(name)
    text = as_text(rows, name).rstrip(b"\n")
    last = text.rindex(b"\n") + 1 if b"\n" in text else 0
    half = text[: last + max(1, (len(text) - last) // 3)]
    said = refused(name, tmp_path, half)
    assert f"main.txt, line {len(rows)}: the row is cut off" in said and FIX in said
    if len(rows) - header > 1:
        with caplog.at_level(logging.WARNING):
            loaded(name, tmp_path, half, strict=False)
        assert "1 row skipped, the first: " in caplog.text


@pytest.mark.parametrize("name", [name for name in TABLES if SPOTS[name][0] != "-"])
def test_an_unknown_state(name: str, tmp_path: Path) -> None:
    row, column, title = field(name, 0)
    content, line = with_field(name, row, column, "EXPLODED")
    said = refused(name, tmp_path, content)
    assert f"main.txt, line {line}, column '{title}': 'EXPLODED' " in said
    assert "known are " in said and FIX in said


@pytest.mark.parametrize("name", TABLES)
def test_a_gang_above_the_cluster(name: str, tmp_path: Path) -> None:
    row, column, title = field(name, 2)
    content, line = with_field(name, row, column, MANY.get(name, "400"))
    trace, _ = loaded(name, tmp_path, content)
    said = too_large(trace)
    assert re.search(
        rf"main\.txt, line {line}, column '\w+'.*, job \S+: a gang of [\d,]+ GPUs", said
    )
    assert f"'{title}'" in said and "a cluster of 15 GPUs" in said
    for fix in ("workload.max_gang=15", "workload.drop_too_large=true", "a larger topology"):
        assert fix in said
    if len(trace) > int((trace.num_gpus > GPUS).sum()):
        kept, dropped = capped(trace, drop=True)
        assert dropped == len(trace) - len(kept) == int((trace.num_gpus > GPUS).sum()) > 0


def test_gangs_above_the_cluster_in_json_and_in_a_table_of_their_own(tmp_path: Path) -> None:
    text = SAMPLES["philly_json"].text
    line = next(at for at, row in enumerate(text.split("\n"), 1) if row.strip() == "{")
    told = f"main.txt, line {line}, key 'gpus' of its attempts, job application_3: a gang of"
    assert told in too_large(loaded("philly_json", tmp_path, text.encode())[0])
    sample = SAMPLES["alibaba_lingjun"]
    (tmp_path / "pods.csv").write_text(sample.beside["worker.csv"].replace("RES", "asked"))
    mapped = ("columns.worker_resources=asked", f"reader.worker_table={tmp_path}/pods.csv")
    for words, where in (((), r"'RES' of \S+worker"), (mapped, r"'asked' of \S+pods")):
        trace, _ = loaded("alibaba_lingjun", tmp_path, sample.text.encode(), *words)
        told = rf"main\.txt, line 2, by column {where}\.csv, job dlc1: a gang of 16 GPUs"
        assert re.search(told, too_large(trace))
