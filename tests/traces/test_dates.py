"""Windows of a trace by its own clock, and times in a wrong unit."""

import logging
from pathlib import Path

import pytest

from sim.errors import TraceError
from sim.traces.estimators import NoEstimator
from sim.traces.setting import Setting
from tests.traces.trace_samples import SAMPLES, catalogue, preset

SETTING = Setting(
    gpus=64, partitions=1, skew=0.0, catalogue=catalogue("a"), estimator=NoEstimator()
)
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
    return list(preset(name, f"path={path}", *words).trace(part=None, setting=SETTING).job_id)


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
    with pytest.raises(Exception, match=told) as error:
        kept(tmp_path, name, text, word)
    assert isinstance(error.value.__cause__ or error.value, TraceError)


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
    text = "job_id,submit_s,num_gpus,duration_s\n" + "".join(rows)
    with caplog.at_level(logging.WARNING):
        kept(tmp_path, "philly", text, "columns.vc=null", *words)
    said = " ".join(caplog.messages)
    assert bool(said) == bool(told)
    assert all(word in said for word in told)
