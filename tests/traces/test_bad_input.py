"""What a user gets wrong, the same for every format: each answer has file, line, column and fix."""

import logging
import re
from pathlib import Path

import pytest

from sim.errors import TraceError
from sim.traces.prepare import cap
from sim.traces.trace import Trace
from tests.traces.test_fuzz_readers import NO_HEADER, as_text, refused, spot, table, with_field
from tests.traces.trace_samples import SAMPLES, loaded

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
    return cap(trace, max_gang=None, drop_too_large=drop, capacity=GPUS,
               min_duration_s=None, max_duration_s=None)  # fmt: skip


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
        assert "1 rows skipped, the first: " in caplog.text


@pytest.mark.parametrize("name", [name for name in TABLES if SPOTS[name][0] != "-"])
def test_an_unknown_state(name: str, tmp_path: Path) -> None:
    row, column, title = field(name, 0)
    content, line = with_field(name, row, column, "EXPLODED")
    said = refused(name, tmp_path, content)
    assert f"main.txt, line {line}, column '{title}': 'EXPLODED' " in said
    assert "known are " in said and FIX in said


@pytest.mark.parametrize("name", TABLES)
def test_a_negative_time(name: str, tmp_path: Path) -> None:
    row, column, title = field(name, 1)
    content, line = with_field(name, row, column, "-60")
    said = refused(name, tmp_path, content)
    assert f"main.txt, line {line}, column '{title}': '-60' is negative; " in said and FIX in said


@pytest.mark.parametrize("name", TABLES)
def test_a_gang_above_the_cluster(name: str, tmp_path: Path) -> None:
    row, column, title = field(name, 2)
    content, line = with_field(name, row, column, MANY.get(name, "400"))
    trace, _ = loaded(name, tmp_path, content)
    said = too_large(trace)
    assert re.search(rf"main\.txt, line {line}, column '\w+'.*, job \S+: a gang of \d+ GPUs", said)
    assert f"'{title}'" in said and "a cluster of 15 GPUs" in said
    for fix in ("workload.max_gang=15", "workload.drop_too_large=true", "a larger topology"):
        assert fix in said
    if len(trace) > int((trace.num_gpus > GPUS).sum()):
        kept, dropped = capped(trace, drop=True)
        assert dropped == len(trace) - len(kept) == int((trace.num_gpus > GPUS).sum()) > 0


def test_a_log_in_json(tmp_path: Path) -> None:
    text = SAMPLES["philly_json"].text
    for old, new, words in (
        ('"submitted_time"', '"submitted"', "key 'submitted_time': None is missing; give a time"),
        ('"Failed"', '"Lost"', "job object 1, key 'status': 'Lost' is unknown; known are Pass"),
        ('"2017-10-06 23:59:50"', '"-60"', "key 'submitted_time': '-60' is no time such as 2017-"),
    ):
        said = refused("philly_json", tmp_path, text.replace(old, new, 1).encode())
        assert re.search(r"main\.txt, line \d+, job object \d+, ", said)
        assert words in said and FIX in said
    assert re.search(r"line \d+", refused("philly_json", tmp_path, text[: len(text) // 2].encode()))
    trace, _ = loaded("philly_json", tmp_path, text.encode())
    said = too_large(trace)
    line = next(at for at, row in enumerate(text.split("\n"), 1) if row.strip() == "{")
    assert (
        f"main.txt, line {line}, key 'gpus' of its attempts, job application_3: a gang of" in said
    )


def test_gangs_in_a_table_of_their_own(tmp_path: Path) -> None:
    sample = SAMPLES["alibaba_lingjun"]
    for old, new, words in (
        ("gmt_job_running", "running", "line 1: no column 'gmt_job_running' for running"),
        ("Succeeded", "EXPLODED", "line 2, column 'status': 'EXPLODED' is unknown; known are "),
        ("2023/7/15 02:19", "-60", "line 2, column 'gmt_job_submitted': '-60' is not a timestamp"),
        ("1,dlc1,Succeeded", "1,dlc1", "line 2: the row is cut off"),
    ):
        content = sample.text.replace(old, new, 1).encode()
        assert words in refused("alibaba_lingjun", tmp_path, content)
    trace, _ = loaded("alibaba_lingjun", tmp_path, sample.text.encode())
    assert re.search(
        r"main\.txt, line 2, by column 'RES' of \S+worker\.csv, job dlc1: a gang of 16 GPUs",
        too_large(trace),
    )
