"""Forms of fields and of time: what is read, what is said of another form, windows by dates."""

import logging
import shlex
from pathlib import Path

import numpy as np
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from sim.errors import TraceError
from sim.traces.csv_reader import CsvReader
from tests.traces.trace_samples import HEADER, SAMPLES, loaded, preset, refusal, setting


def read(path: Path, text: str, *, more: dict[str, str] | None = None, **forms: str):
    path.write_text(text)
    columns = {name: name for name in HEADER.split(",")} | (more or {})
    plain = {"delimiter": "comma", "time_format": None, "duration_format": "seconds"}
    reader = CsvReader(**(plain | forms))  # type: ignore[arg-type]
    return reader.read(path=str(path), columns=columns, name="x", strict=True)[0]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "jobs.csv"


@pytest.mark.parametrize(
    ("name", "good", "bad", "unclear"),
    [("helios_log", "0,4,1,COMPLETED,2020", "0,many,1,Done,1.4.2020", "some,4,1,COMPLETED,2020"),
     ("acme", "0,4,50,Other,COMPLETED", "0,many,50,Other,Done", "some,4,50,Other,COMPLETED"),
     ("alibaba_pai", "2.0,Terminated,1000.0,1600.0,400.0,10.0,,", "2.5,Done,then,2,many,10.0,,",
      "2.0,Terminated,1000.0,1600.0,400.0,10.0,some,"),
     ("alibaba_openb", "4000,1024,0,0,,BE", "many,1024,0,0,,X", "4000,1024,some,0,,BE")],
)  # fmt: skip
def test_of_a_job_without_gpus_nothing_but_their_number_is_read(
    tmp_path: Path, name: str, good: str, bad: str, unclear: str
) -> None:
    text = SAMPLES[name].text
    trace, notes = loaded(name, tmp_path, text.encode())
    other, said = loaded(name, tmp_path, text.replace(good, bad).encode())
    assert list(other.job_id) == list(trace.job_id) and said == notes
    with refusal("gpu.*: 'some' is not a number"):
        loaded(name, tmp_path, text.replace(good, unclear).encode())


def test_of_a_job_whose_workers_have_no_gpu_nothing_is_read(tmp_path: Path) -> None:
    text = SAMPLES["alibaba_lingjun"].text
    notes = loaded("alibaba_lingjun", tmp_path, text.encode())[1]
    bad = text.replace("5,dlc5,Succeeded,2023/7/15 02:30", "5,dlc5,Done,15.7.2023")
    assert loaded("alibaba_lingjun", tmp_path, bad.encode())[1] == notes


@pytest.mark.parametrize("word", ["semicolon", ";"])
def test_another_delimiter(word: str, file: Path) -> None:
    trace = read(file, "job_id;submit_s;num_gpus;duration_s\n'a,b';5;2;9\n", delimiter=word)
    assert (list(trace.job_id), trace.duration_s.tolist()) == (["'a,b'"], [9])


def test_a_file_with_another_delimiter_names_the_key(file: Path) -> None:
    with pytest.raises(TraceError, match=r"separated by commas.*reader\.delimiter=pipe"):
        read(file, "job_id|submit_s|num_gpus|duration_s\na|5|2|9\n")


@pytest.mark.parametrize(
    ("form", "text", "seconds"),
    [("minutes", "90.5", 5430), ("hours", "2", 7200), ("milliseconds", "2500", 2.5),
     ("clock", "1-02:00:05", 93605), ("clock", "02:30", 150)],
)  # fmt: skip
def test_spans_of_time_have_a_form(form: str, text: str, seconds: float, file: Path) -> None:
    head = "job_id,submit_s,num_gpus,duration_s,cap,due,gone,waited"
    rows = f"a,0,1,{text},{text},{text},{text},{text}\nb,0,1,{text},,,,\n"
    more = {"limit_s": "cap", "deadline_s": "due", "withdraw_s": "gone", "waited_s": "waited"}
    trace = read(file, f"{head}\n{rows}", more=more, duration_format=form)
    assert trace.duration_s.tolist() == [seconds, seconds]
    for column in (trace.limit_s, trace.deadline_s, trace.withdraw_s):
        assert column.tolist() == [seconds, float("inf")]
    assert trace.waited_s[0] == seconds and np.isnan(trace.waited_s[1])


@pytest.mark.parametrize("text", ["1:62:03", "1:02:60", "90:75", "2-00:60:00"])
def test_sixty_minutes_or_seconds_are_one_of_the_larger_unit(text: str, file: Path) -> None:
    rows = "job_id,submit_s,num_gpus,duration_s\n"
    with pytest.raises(TraceError, match=f"'{text}' is no duration such as 01:30:00"):
        read(file, f"{rows}a,0,1,{text}\n", duration_format="clock")
    trace = read(file, f"{rows}a,0,1,90:00\nb,0,1,1:2:03\n", duration_format="clock")
    assert trace.duration_s.tolist() == [5400, 3723]


def test_a_form_of_time_and_submit_time_alone(file: Path) -> None:
    rows = "job_id,when,num_gpus,duration_s\na,18.03.2020 04:00,1,1\nb,18.03.2020 05:00,1,1\n"
    trace = read(file, rows, more={"submit_time": "when"}, time_format="%d.%m.%Y %H:%M")
    assert trace.submit_s.tolist() == [0, 3600]
    trace = read(file, "job_id,submit_time,num_gpus,duration_s\na,2020-03-18,1,1\n")
    assert trace.submit_s.tolist() == [0]


def test_a_form_that_does_not_fit_is_named(file: Path) -> None:
    rows = "job_id,when,num_gpus,duration_s\na,18.03.2020 04:00,1,1\n"
    with pytest.raises(TraceError, match=r"is not in the form '%d/%m/%Y'; correct .*time_format"):
        read(file, rows, more={"submit_time": "when"}, time_format="%d/%m/%Y")
    seconds = "job_id,submit_s,num_gpus,duration_s\na,0,1,1\n"
    with pytest.raises(TraceError, match=r"time_format is '%d', but .*jobs.csv has submissions in"):
        read(file, seconds, time_format="%d")


@pytest.mark.parametrize("text", ["2025-02-30 00:00:00", "2025-02-28T25:00", "2025-13-01"])
def test_a_day_that_does_not_exist_is_called_that(text: str, file: Path) -> None:
    rows = f"job_id,when,num_gpus,duration_s\na,{text},1,1\n"
    with pytest.raises(TraceError, match=f"'{text}' is no day of the calendar"):
        read(file, rows, more={"submit_time": "when"})


def test_submissions_in_milliseconds(file: Path) -> None:
    rows = "job_id,when,num_gpus,duration_s\na,1700000000000,1,1\nb,1700000060500,1,1\n"
    trace = read(file, rows, more={"submit_time": "when"}, time_format="milliseconds")
    assert np.diff(trace.submit_s).tolist() == [60.5]
    for key in ("submit_s", "submit_time"):
        with pytest.raises(TraceError, match=r"line 2.*'1700000000000'.*time_format=milliseconds"):
            read(file, rows, more={key: "when"})
    longest = read(file, "job_id,submit_s,num_gpus,duration_s\na,0,1,2e11\n",
                   duration_format="milliseconds")  # fmt: skip
    assert longest.duration_s.tolist() == [2e8]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("0,1,", "column 'duration_s': '' is empty; a job needs its run time"),
        (
            "0,1,01:30:00",
            "is a time on a clock, not a number; set workload.reader.duration_format=clock, which",
        ),
        ("0,1,2020-03-18 04:00", "is a date, not seconds; a run time is the end minus the start"),
        ("0,0.25,1", "'0.25' is a fraction of a GPU; a worker on a part of a GPU has num_gpus 1"),
    ],
)
def test_a_field_in_another_form_gets_the_key_that_reads_it(
    row: str, words: str, file: Path
) -> None:
    with pytest.raises(TraceError) as error:
        read(file, f"job_id,submit_s,num_gpus,duration_s\nz,0,1,1\na,{row}\n")
    assert "line 3, column" in str(error.value) and words in str(error.value)


def test_other_forms_of_time_and_numbers_among_clocks(file: Path) -> None:
    rows = "job_id,when,num_gpus,duration_s\na,18.03.2020 04:00,1,5\n"
    with pytest.raises(TraceError, match=r"is not ISO 8601; give its form.*time_format="):
        read(file, rows, more={"submit_time": "when"})
    with pytest.raises(TraceError, match=r"'5' is a number, not a time on a clock; set"):
        read(file, rows, more={"submit_time": "when"}, time_format="%d.%m.%Y %H:%M",
             duration_format="clock")  # fmt: skip


@pytest.mark.parametrize(
    ("forms", "words"),
    [
        ({"delimiter": "::"}, r"reader\.delimiter is '::'; give one sign, or one of comma"),
        ({"duration_format": "minute"}, r"reader\.duration_format is 'minute'; did you mean 'min"),
    ],
)
def test_an_unknown_form(forms: dict[str, str], words: str, file: Path) -> None:
    with pytest.raises(TraceError, match=words):
        read(file, f"{HEADER}\na,5,2,9\n", **forms)


@pytest.mark.parametrize("name", ["submit_s", "when"])
def test_what_the_message_on_dates_says_works(name: str, file: Path) -> None:
    rows = f"job_id,{name},num_gpus,duration_s\na,2020-03-18T04:00,1,1\nb,2020-03-18T05:00,1,1\n"
    fix = f"is a date, not seconds; map the column as workload.columns.submit_time={name}"
    with pytest.raises(TraceError, match=fix):
        read(file, rows, more={"submit_s": name})
    trace = read(file, rows, more={"submit_s": name, "submit_time": name})
    assert trace.submit_s.tolist() == [0, 3600]


@pytest.mark.parametrize("name", ["#GPUs", "GPUs, all", 'a"b', "it's", "a\\b", "GPU count", "gpus"])
def test_a_message_quotes_a_column_as_hydra_and_the_shell_read_it(name: str, file: Path) -> None:
    header = '"' + name.replace('"', '""') + '"'
    rows = f"job_id,submit_s,{header},duration_s\na,0,2,1\n"
    with pytest.raises(TraceError) as error:
        read(file, rows)
    told = str(error.value)
    if name == "gpus":
        assert told.endswith("set workload.columns.num_gpus=NAME")
        return
    words = shlex.split(told.partition("other signs than letters: ")[2])
    (override,) = OverridesParser.create().parse_overrides(words)
    assert override.key_or_group == "workload.columns.num_gpus"
    assert read(file, rows, more={"num_gpus": override.value()}).num_gpus.tolist() == [2]


DAYS = """job_id,submit_time,num_gpus,duration_s
a,2020-10-24 23:00:00{0},1,9
b,2020-10-25 01:30:00{0},1,9
c,2020-10-25 08:00:00{0},1,9
d,2020-10-26 00:00:00{0},1,9
"""


def kept(folder: Path, name: str, text: str, *options: str) -> list[str]:
    """Names of the jobs in the window, `start_s=...` and `end_s=...` of it."""
    path = folder / "main.txt"
    path.write_text(text)
    for other, beside in SAMPLES[name].beside.items():
        (folder / other).write_text(beside)
    words = [f"window.{each}" if each.partition("=")[0] in ("start_s", "end_s") else each
             for each in (*SAMPLES[name].options, *options)]  # fmt: skip
    words = [word.format(folder=folder) for word in words]
    return list(preset(name, f"path={path}", *words).trace(part=None, setting=setting()).job_id)


@pytest.mark.parametrize(
    ("words", "jobs"),
    [
        (("start_s=2020-10-25",), "bcd"),
        (("start_s=2020-10-25", "end_s=2020-10-26"), "bc"),  # a day's end is excluded
        (("start_s='2020-10-25 08:00'",), "cd"),
        (("end_s='2020-10-25T01:30:01'",), "ab"),
        (("start_s=2020-10-25", "end_s=32400"), "b"),  # seconds and a date
        (("start_s=2020-10-24", "end_s=2020-10-27"), "abcd"),
    ],
)
@pytest.mark.parametrize("zone", ["", "+02:00"])
def test_a_window_is_given_in_dates_of_the_file(zone, words, jobs: str, tmp_path: Path) -> None:
    assert kept(tmp_path, "helios_venus", DAYS.format(zone), *words) == list(jobs)


def test_a_date_with_a_zone_is_the_same_moment_elsewhere(tmp_path: Path) -> None:
    text, words = DAYS.format("+02:00"), ("start_s='2020-10-24T23:30+00:00'",)  # 01:30 there
    assert kept(tmp_path, "helios_venus", text, *words) == ["b", "c", "d"]


@pytest.mark.parametrize(
    ("name", "words", "jobs"),
    [
        ("sacct", ("start_s='2025-03-01 08:01'", "end_s='2025-03-01 08:50'"), ["102_4", "104"]),
        ("philly_json", ("end_s=2017-10-07",), ["application_1"]),
        ("helios_log", ("start_s='2020-04-01 00:01'",), ["12", "13"]),
        ("alibaba_lingjun", ("start_s='2023-07-15 02:20'",), ["dlc2", "dlc3"]),
    ],
)
def test_every_reader_of_dates_keeps_its_clock(name: str, words, jobs, tmp_path: Path) -> None:
    assert kept(tmp_path, name, SAMPLES[name].text, *words) == jobs


@pytest.mark.parametrize(
    ("name", "word", "told"),
    [
        ("helios_venus", "start_s=2019-10-25", "2019-10-25, outside .* from 2020-10-24 23:00:00"),
        ("helios_venus", "end_s=2020-10-28", "2020-10-28, outside .* to 2020-10-26 00:00:00"),
        ("helios_venus", "end_s='2020-10-26T08:00Z'", "have no zone; leave it away"),
        ("helios_venus", "end_s=yesterday", "is 'yesterday'; it must be null, seconds"),
        ("helios_venus", "end_s=-1", "is -1; it must be null, or 0 or more"),
        ("alibaba_openb", "end_s=2020-10-26", "tells no dates; give seconds"),
    ],
)
def test_a_date_that_cannot_be_is_refused(name: str, word, told: str, tmp_path: Path) -> None:
    text = DAYS.format("") if name == "helios_venus" else SAMPLES[name].text
    with refusal(told):
        kept(tmp_path, name, text, word)


@pytest.mark.parametrize(
    ("gap", "duration", "words", "told"),
    [
        (60_000, 600_000, (), []),  # ten thousand minutes, as milliseconds would look for a while
        (600, 600, (), []),
        (600, 3_600_000, (), ["half of the jobs run for more than 42 days", "duration_format of"]),
        (600, 3_600_000, ("reader.duration_format=milliseconds",), []),
        (600_000, 60, (), ["are submitted over 13882", "time_format such"]),
    ],
)
def test_milliseconds_taken_for_seconds_are_told(
    gap: int, duration: int, words, told, tmp_path: Path, caplog
) -> None:
    rows = (f"j{at},{at * gap},1,{duration}\n" for at in range(2_000))
    text = f"{HEADER}\n" + "".join(rows)
    with caplog.at_level(logging.WARNING):
        kept(tmp_path, "philly", text, "columns.vc=null", *words)
    said = " ".join(caplog.messages)
    assert bool(said) == bool(told)
    assert all(word in said for word in told)
