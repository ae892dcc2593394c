"""Every original format, by hand-written files, and every shared trace read whole."""

from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sim.errors import TraceError
from sim.jobs import ANY_TYPE, CANCELLED, COMPLETED, FAILED
from sim.traces.csv_reader import trace_csv
from tests.traces.trace_samples import (
    CONF,
    DATA,
    PAI,
    SAMPLES,
    catalogue,
    loaded,
    preset,
    refusal,
    setting,
)

INF = float("inf")


def read(name: str, folder: Path, *options: str):
    """The sample of a format as a trace."""
    return loaded(name, folder, SAMPLES[name].text.encode(), *options)


def test_every_preset_of_a_file_has_a_sample() -> None:
    files = {path.stem for path in (CONF / "workload").glob("*.yaml")}
    reads = {name for name in files if "reader:" in (CONF / f"workload/{name}.yaml").read_text()
             or "- csv" in (CONF / f"workload/{name}.yaml").read_text()}  # fmt: skip
    assert reads == set(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_reads_in_order_and_to_its_number_of_jobs(name: str, tmp_path: Path) -> None:
    trace, notes = read(name, tmp_path)
    assert len(trace) == SAMPLES[name].jobs
    assert notes.rows == len(trace) + notes.skipped + sum(notes.left_out.values())
    assert np.all(np.diff(trace.submit_s) >= 0)
    assert notes.skipped == 0


def test_clocks_of_philly_are_turned_back_in_a_night_of_november(tmp_path: Path) -> None:
    """From 01:50 to 01:10 are 20 minutes; from 01:50 to 00:40 is none."""
    text = SAMPLES["philly_json"].text
    early, start = "2017-10-07 00:00:10", "2017-10-07 00:00:00"
    turned = text.replace(start, "2017-11-05 01:50:00").replace(early, "2017-11-05 01:10:00")
    assert loaded("philly_json", tmp_path, turned.encode())[0].duration_s[0] == 1200
    with pytest.raises(TraceError, match="is before the attempt's start_time"):
        loaded("philly_json", tmp_path, turned.replace("01:10:00", "00:40:00").encode())
    waits = turned.replace("2017-10-06 23:59:50", "2017-11-05 01:55:00")
    waits = waits.replace("01:50:00", "01:05:00")  # which can only be the second time
    assert loaded("philly_json", tmp_path, waits.encode())[0].waited_s[-1] == 600


def test_philly_jobs_last_the_sum_of_their_attempts(tmp_path: Path) -> None:
    trace, notes = read("philly_json", tmp_path)
    assert [name.removeprefix("application_") for name in trace.job_id] == ["1", "2", "3", "6", "7"]
    assert trace.submit_s.tolist() == [0, 610, 3610, 12610, 13510]
    assert trace.duration_s.tolist() == [10, 0, 3690, 600, 300]  # 6 runs until the log's last time
    assert trace.num_gpus.tolist() == [1, 1, 16, 2, 4]
    assert trace.outcome.tolist() == [FAILED, CANCELLED, COMPLETED, CANCELLED, COMPLETED]
    assert trace.withdraw_s.tolist() == [INF, 3600, INF, INF, INF]
    assert np.array_equal(trace.waited_s, [10, np.nan, 60, 600, 0], equal_nan=True)
    assert trace.attempts.first.tolist() == [0, 0, 0, 2, 2, 2]
    assert trace.attempts.fail_at_s.tolist() == [60, 90]
    assert (trace.user[2], trace.vc[2]) == ("u0", "v1")
    assert notes.left_out == {"have no attempt with a start and an end": 1, "use no GPU": 1}
    assert notes.unsorted == 2
    options = ("reader.never_ran_gpus=4", "reader.never_ran_withdraw_s=7")
    trace, _ = read("philly_json", tmp_path, *options)
    assert (trace.num_gpus[1], trace.withdraw_s[1]) == (4, 7)


def test_helios_states_recurrence_and_withdrawals(tmp_path: Path) -> None:
    trace, notes = read("helios_log", tmp_path)
    assert list(trace.job_id) == ["10", "14", "12", "13"]
    assert trace.submit_s.tolist() == [0, 30, 60, 120]
    assert trace.outcome.tolist() == [COMPLETED, FAILED, CANCELLED, FAILED]
    assert trace.withdraw_s.tolist() == [INF, INF, 60, INF]
    assert np.array_equal(trace.waited_s, [30, 90, np.nan, 0], equal_nan=True)
    assert list(trace.group) == ["uA/train", "uB/eval", "uA/train", "uB/eval"]
    assert trace.cpu_milli.tolist() == [3000, 2500, 3000, 2000]
    assert notes.left_out == {"use no GPU": 1}


def test_acme_runs_from_start_to_end_whatever_its_duration_holds(tmp_path: Path) -> None:
    text = SAMPLES["acme"].text.replace("+08:00,,2023", "+08:00,Unknown,2023")
    trace, notes = loaded("acme", tmp_path, text.replace("08:00,,,", "08:00,None,N/A,").encode())
    assert trace.duration_s.tolist() == [3600, 30, 0]  # Kalos' duration of the first: 4200
    assert trace.withdraw_s.tolist() == [INF, INF, 600]
    assert np.array_equal(trace.waited_s, [600, 0, np.nan], equal_nan=True)
    assert trace.num_gpus.tolist() == [16, 8, 1]
    assert trace.cpu_milli.tolist() == [4000, 4000, 4000]
    assert notes.left_out == {"use no GPU": 1, "have no run time": 1}


def test_helios_jobs_without_a_run_time_are_left_out_and_counted(tmp_path: Path) -> None:
    text = SAMPLES["helios_log"].text.replace("600,90", ",90")
    trace, notes = loaded("helios_log", tmp_path, text.encode())
    assert list(trace.job_id) == ["10", "12", "13"]
    assert notes.left_out == {"use no GPU": 1, "have no run time": 1}
    with pytest.raises(TraceError, match=r"columns\.start_time is missing"):
        loaded("helios_log", tmp_path, text.encode(), "columns.duration=null")


def test_pai_keeps_fractions_and_joins_its_tables(tmp_path: Path) -> None:
    trace, notes = read("alibaba_pai", tmp_path)
    assert list(trace.job_id) == ["j1/worker", "j3/worker", "j2/tensorflow"]
    assert trace.submit_s.tolist() == [900, 1100, 1190]
    assert trace.num_gpus.tolist() == [4, 4, 8]
    assert trace.gpu_milli.tolist() == [500, 1000, 1000]
    assert trace.cpu_milli.tolist() == [6000, 0, 1500]
    assert trace.memory_mib.tolist() == [30000, 0, 8192]
    assert trace.waited_s.tolist() == [100, 0, 10]  # from the job's submission on
    assert list(trace.gpu_types) == ["", "", "V100"]  # asked for, not what the task got
    assert list(trace.group) == ["g1", "g1", "g2"]
    assert list(trace.user) == ["alice", "alice", "bob"]
    assert list(trace.model) == ["bert", "", ""]
    assert trace.outcome.tolist() == [COMPLETED, COMPLETED, FAILED]
    assert trace.duration_s.tolist() == [600, 200, 60]
    assert notes.left_out == {"use no GPU": 1, "had not ended": 2, "have no start or no end": 1}


def test_workers_times_what_each_asks_for_is_the_gang(tmp_path: Path) -> None:
    trace, _ = read("alibaba_spot", tmp_path)
    assert trace.num_gpus.tolist() == [1, 32, 2]
    assert trace.gpu_milli.tolist() == [570, 1000, 500]
    assert list(trace.gpu_types) == ["A10", "H800", "A10"]
    trace, _ = read("alibaba_pai_100k", tmp_path)
    assert (trace.num_gpus.tolist(), trace.gpu_milli.tolist()) == ([1, 4, 2], [500, 1000, 250])
    assert trace.gpu_types is None  # told is what a job ran on
    header, *rows = SAMPLES["alibaba_spot"].text.splitlines()
    told = "\n".join([f"{header},milli", f"{rows[0]},", f"{rows[1]},250", f"{rows[2]},250"])
    trace, _ = loaded("alibaba_spot", tmp_path, told.encode(), "columns.gpu_milli=milli")
    assert trace.gpu_milli.tolist() == [570, 250, 250]
    text = SAMPLES["alibaba_spot"].text.replace(",0.57,1", ",0,1")
    with pytest.raises(TraceError, match="line 2, column 'gpu_request': '0' is no part of a GPU"):
        loaded("alibaba_spot", tmp_path, text.encode())


def test_pai_without_companions_takes_the_start_for_the_submission(tmp_path: Path) -> None:
    trace, _ = loaded("alibaba_pai", tmp_path, PAI.encode(), "reader.job_table=null",
                      "reader.tag_table=null")  # fmt: skip
    assert trace.submit_s.tolist() == [1000, 1100, 1200]
    assert trace.gpu_types is None
    with refusal(r"tag_table is given, but not job_table"):
        preset("alibaba_pai", "path=x", "reader.tag_table=y")


def test_openb_pods_keep_shares_types_and_classes_of_service(tmp_path: Path) -> None:
    trace, notes = read("alibaba_openb", tmp_path)
    assert list(trace.job_id) == ["p0", "p1", "p3", "p4"]
    assert trace.duration_s.tolist() == [490, 100, 0, 10]
    assert trace.gpu_milli.tolist() == [460, 1000, 220, 1000]
    assert trace.cpu_milli.tolist() == [12000, 11000, 4000, 4000]
    assert trace.memory_mib.tolist() == [16384, 40960, 15258, 15258]
    assert list(trace.gpu_types) == ["", "V100M16|V100M32", "T4", ""]
    assert trace.priority.tolist() == [2, 1, 0, 3]
    assert trace.outcome.tolist() == [COMPLETED, COMPLETED, CANCELLED, FAILED]
    assert trace.withdraw_s.tolist() == [INF, INF, 60, INF]
    assert notes.left_out == {"use no GPU": 1}
    pod, odd = "0,0,,BE,Succeeded,6,16,6.0", "0,0,,XX,Lost,6,,"  # of one without GPUs none is read
    again, notes = loaded(
        "alibaba_openb", tmp_path, SAMPLES["alibaba_openb"].text.replace(pod, odd).encode()
    )
    assert list(again.job_id) == list(trace.job_id) and notes.left_out == {"use no GPU": 1}


def test_lingjun_jobs_get_the_gpus_of_their_workers(tmp_path: Path) -> None:
    trace, notes = read("alibaba_lingjun", tmp_path)
    assert list(trace.job_id) == ["dlc1", "dlc2", "dlc3"]
    assert trace.num_gpus.tolist() == [16, 1, 2]
    assert trace.submit_s.tolist() == [0, 60, 360]
    assert trace.duration_s.tolist() == [3600, 600, 0]
    assert trace.withdraw_s.tolist() == [INF, INF, 120]
    assert trace.outcome.tolist() == [COMPLETED, CANCELLED, CANCELLED]
    assert trace.priority.tolist() == [1, 5, 1]
    assert list(trace.model) == ["resnet", "unknown", "llama"]
    assert notes.left_out == {"have no worker with a GPU": 1, "had not ended": 1}


def test_the_names_of_batch_tasks_are_a_dag(tmp_path: Path) -> None:
    trace, notes = read("alibaba_dag_2018", tmp_path)
    assert list(trace.job_id) == [
        "j_2/task_LTg=", "j_1/M1", "j_1/M2", "j_1/R3_1_2", "j_1/J4_3_9", "j_3/M1",
    ]  # fmt: skip
    assert trace.submit_s.tolist() == [90, 100, 100, 100, 100, 120]  # one a job
    assert trace.num_gpus.tolist() == [1, 2, 1, 16, 1, 1]  # ceil(instances / 32), at most 16
    links = trace.precedence
    parents = [links.parents[a:b].tolist() for a, b in pairwise(links.first)]
    assert parents == [[], [], [], [1, 2], [3], []]  # task 9 is not in the job
    workflows = links.workflow.tolist()
    assert len(set(workflows)) == 3
    assert len(set(workflows[1:5])) == 1
    assert trace.outcome.tolist() == [COMPLETED] * 5 + [FAILED]
    assert notes.left_out == {"had not ended": 1, "began or ended outside the log": 1}


def test_sia_jobs_take_the_stated_gpu_hours_of_their_application(tmp_path: Path) -> None:
    trace, _ = read("sia", tmp_path)
    assert list(trace.job_id) == ["imagenet-1", "cifar10-0", "bert-2"]
    assert trace.duration_s == pytest.approx([320 * 3600 / 16, 0.3 * 3600 / 6, 3.2 * 3600 / 4])
    assert list(trace.model) == ["imagenet", "cifar10", "bert"]
    with pytest.raises(TraceError, match=r"'gpt' has no GPU time; .*reader\.gpu_hours\.NAME"):
        loaded("sia", tmp_path, SAMPLES["sia"].text.replace("bert,", "gpt,").encode())


def test_a_draw_of_a_file_with_many_is_chosen(tmp_path: Path) -> None:
    trace, notes = read("sia_newtrace", tmp_path, "reader.draw=2")
    assert (list(trace.job_id), trace.submit_s.tolist()) == (["cifar10-0"], [7.0])
    assert notes.left_out == {"belong to another draw": 2}
    with pytest.raises(TraceError, match=r"reader\.draw is None and workload\.columns\.draw"):
        read("sia_newtrace", tmp_path, "reader.draw=null")
    trace, _ = read("alibaba_pai_tasks", tmp_path)
    assert list(trace.job_id) == ["0/worker", "0/ps"]  # two columns together name a job


def test_a_standard_workload_line_by_line(tmp_path: Path) -> None:
    trace, notes = read("swf", tmp_path)
    assert list(trace.job_id) == ["1", "2", "3", "6", "7"]
    assert trace.num_gpus.tolist() == [4, 9, 8, 2, 4]  # asked for, where the log lacks what it got
    assert trace.duration_s.tolist() == [100, 50, 0, 0, 20]
    assert trace.outcome.tolist() == [COMPLETED, FAILED, CANCELLED, COMPLETED, COMPLETED]
    assert trace.withdraw_s.tolist() == [INF, INF, 30, INF, INF]
    assert trace.limit_s.tolist() == [3600, INF, 60, 60, 60]
    assert np.array_equal(trace.waited_s, [10, np.nan, np.nan, 0, 1], equal_nan=True)
    assert list(trace.user) == ["1", "2", "1", "", "3"]
    assert list(trace.vc) == ["1", "2", "1", "1", "1"]
    assert notes.left_out == {"are parts of checkpointed jobs, whose summary counts": 2,
                              "have no run time": 1, "have no processors": 1}  # fmt: skip
    trace, _ = read("swf", tmp_path, "reader.processors_per_gpu=4")
    assert trace.num_gpus.tolist() == [1, 3, 2, 1, 1]
    assert trace.memory_mib.tolist() == [8, 0, 0, 0, 0]  # 2,048 KiB a processor


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("csv", "20;60.5", "60.5;20", "line 2, column 'attempts': '60.5;20' is no list of seconds"),
        ("csv", "20;60.5", "20;100", "'20;100' is no list of seconds of work"),
        ("csv", "20;60.5", "0;20", "is no list of seconds of work"),
        ("csv", "20;60.5", "20;x", "is no list of seconds of work"),
        ("csv", "20;60.5", "nan", "is no list of seconds of work"),
        ("csv", "a;b", "a;z", "line 4, column 'parents': 'a;z' names a job_id that the file"),
        ("csv", ",a,w1", ",c,w1", "'c' leads to jobs that wait for themselves"),
        ("csv", ",a,w1", ",b,w1", "'b' leads to jobs that wait for themselves"),
        ("csv", "failed", "lost", "'lost' is unknown; known are completed, failed, cancelled"),
        ("csv", ",1,4,comp", ",2,4,comp", "column 'least_gpus': '2' is above the job's num_gpus"),
        ("csv", ",1,4,comp", ",0,4,comp", "column 'least_gpus': '0' is no whole number from 1"),
        ("csv", "k80,2,,", "k80,2,1,", "column 'most_gpus': '1' is below the job's num_gpus"),
        ("csv", "2048,500", "2048,1001", "'1001' is no whole number from 1 to 1000"),
        ("csv", "4000,2048", "4000.5,2048", "column 'cpu_milli': '4000.5' is no whole number"),
        ("swf", "1 0 10 100 4", "1 0 10 100 4.5", "column 'processors': '4.5' is no whole number"),
        ("alibaba_dag_2018", "M1,40", "M1_3,40", "form a circle"),
        ("alibaba_dag_2018", "M1,40", "M1_1,40", "form a circle"),
        ("alibaba_dag_2018", "M2,1", "R1,1", "number of another task"),
        ("alibaba_dag_2018", "100,110", "100,90", "'end_time': '90' is before start_time"),
        ("alibaba_dag_2018", "M2,1", "M2,0", "'inst_num': '0' is no whole number from 1"),
        ("alibaba_dag_2018", "M2,1,j_1", "M2,1,", "'job_name': '' is empty"),
        ("acme", "18 09:10:00+08:00", "18 08:10:00+08:00", "before the job's submission"),
        ("acme", "18 09:10:00+08:00", "18 09:10:00", "start_time': '2023-05-18 09:10:00' has a"),
        ("acme", "18 10:10:00+08:00", "18 09:05:00+08:00", "before the job's start"),
        ("helios_log", "2020-04-01 00:01:00,", "tomorrow,", "column 'submit_time'"),
        ("alibaba_pai", "1200.0,1260.0", "1260.0,1200.0", "'end_time': '1200.0' is before start"),
        ("alibaba_pai", "j2,tensor", "j1,worker,", "fields"),
        ("alibaba_openb", "1,460", "1,1460", "column 'gpu_milli': '1460' is no whole number from"),
        ("alibaba_openb", "1,460", "1,0", "'gpu_milli': '0' is no whole number"),
        ("alibaba_openb", "500,10.0", "500,", "'scheduled_time': '' is empty, but the pod"),
        ("alibaba_openb", ",LS,", ",XX,", "column 'qos': 'XX' is unknown; known are Guaranteed"),
        ("alibaba_lingjun", "2023/7/15 03:21", "2023/7/15 01:21", "is before the job ran"),
        ("alibaba_lingjun", "2023/7/15 02:21", "2023/7/15 02:11", "before the job's submission"),
        ("alibaba_lingjun", "2023/7/15 02:19", "", "'gmt_job_submitted': '' is empty"),
        ("alibaba_lingjun", "2023/7/15 02:19", "-60", "line 2, column 'gmt_job_submitted': '-60'"),
        ("alibaba_lingjun", "gmt_job_running", "running", "line 1: no column 'gmt_job_running'"),
        ("alibaba_lingjun", "Succeeded", "EXPLODED", "line 2, column 'status': 'EXPLODED' is unk"),
        ("alibaba_lingjun", "1,dlc1,Succeeded", "1,dlc1", "line 2: the row is cut off"),
        ("philly_json", '"Failed"', '"Lost"', "job object 1, key 'status': 'Lost' is unknown; kn"),
        ("philly_json", '"2017-10-06 23:59:50"', '"-60"', "'-60' is no time such as 2017-"),
        ("philly_json", '"2017-10-07 00:00:10"', '"2017-10-06 00:00:10"', "key 'end_time'"),
        ("philly_json", '"application_1"', '"application_3"', "key 'jobid': 'application_3' is"),
        ("philly_json", '"2017-10-06 23:59:50"', "17", "key 'submitted_time': 17 is no time"),
        ("philly_json", '"2017-10-06 23:59:50"', "null", "key 'submitted_time': None is missing"),
        ("philly_json", '"gpus": []', '"gpus": "all"', "key 'gpus': 'all' is no list of names"),
        ("philly_json", '"user": "u1"', '"user": "\\u0007"', "cannot be printed"),
    ],
)
def test_a_bad_value_is_named_with_its_place(
    name: str, old: str, new: str, words: str, tmp_path: Path
) -> None:
    text = SAMPLES[name].text
    assert old in text
    with pytest.raises(TraceError) as error:
        loaded(name, tmp_path, text.replace(old, new, 1).encode())
    assert words in str(error.value)
    assert "main.txt, line " in str(error.value)
    assert any(key in str(error.value) for key in ("workload.strict=false", "workload.columns."))


# preset -> file, jobs, jobs left out, largest gang
TRACES = {
    "philly": ("traces/philly_jobs.csv.gz", 79_515, 0, 128),
    "helios_venus": ("traces/helios_venus_jobs.csv.gz", 99_707, 0, 200),
    "alibaba_pai_tasks": ("traces/alibaba_pai_tasks.csv.gz", 42_409, 0, 400),
    "alibaba_openb": ("traces/alibaba_openb_pods.csv.gz", 5_585, 936, 8),
    "alibaba_lingjun_jobs": ("traces/alibaba_lingjun_jobs.csv.gz", 1_257, 0, 744),
    "alibaba_dag_tasks": ("dag/alibaba2018_tasks_1h.csv.gz", 54_756, 0, 16),
    "sia_newtrace": ("traces/sia_workloads_newtrace.csv.gz", 960, 5_760, 16),
    "sia_saturn": ("traces/sia_workloads_saturn.csv.gz", 160, 960, 16),
    "sia_philly": ("traces/sia_workloads_philly.csv.gz", 160, 800, 16),
    "tiresias": ("traces/tiresias_60_job.csv", 60, 0, 8),
}
KINDS = ("p100", "v100")
SETTING = setting(
    gpus=2496, partitions=4, gpu_types=KINDS,
    catalogue=catalogue("ResNet-50/16", "LM/5", gpu_types=KINDS),
)  # fmt: skip


def workload(name: str, *options: str):
    """The preset on its shared file."""
    path = DATA / TRACES[name][0]
    if not path.exists():
        pytest.skip(f"GPUYARD_DATA has no {TRACES[name][0]}")
    return preset(name, f"path={path}", *options)


@cache
def whole(name: str):
    """The trace and the notes of the shared file."""
    source = workload(name)
    return source._reader.read(
        path=source._path, columns=source._columns, name=name, strict=source._strict
    )


@pytest.mark.parametrize("name", TRACES)
def test_a_shared_trace_is_read_whole_and_makes_a_job_table_and_windows(name: str) -> None:
    _, jobs, left_out, largest = TRACES[name]
    trace, notes = whole(name)
    assert len(trace) == jobs
    assert sum(notes.left_out.values()) == left_out
    assert notes.rows == jobs + left_out
    assert trace.num_gpus.max() == largest
    assert np.all(np.diff(trace.submit_s) >= 0)
    options = ["max_gang=64", "load=0.8", "num_jobs=20", "thin=2"]
    if name == "alibaba_openb":  # nearly all pods come late
        options.append("window.start_s=9.3e6")
    source = workload(name, *options)
    source._reader = SimpleNamespace(read=lambda **_: (trace, notes))  # read already
    table = source.whole(setting=SETTING, seed=0)
    assert 0.98 * jobs < len(table) <= jobs
    window = source.window(part="train", index=0, setting=SETTING, seed=0)
    assert 20 <= len(window) <= 20 + (100 if name == "alibaba_dag_tasks" else 0)
    assert window.num_gpus.max() <= 64


def test_openb_shares_types_and_pods_that_never_ran() -> None:
    trace, _ = whole("alibaba_openb")
    assert np.mean(trace.gpu_milli < 1000) == pytest.approx(0.40, abs=0.03)
    assert np.mean(trace.gpu_types != "") == pytest.approx(0.33, abs=0.02)
    never = np.isfinite(trace.withdraw_s)
    assert np.all(trace.duration_s[never] == 0)
    assert set(trace.outcome[never].tolist()) == {CANCELLED}
    table = workload("alibaba_openb").whole(setting=SETTING, seed=0)
    masks = set(table.demands.type_mask.tolist())
    assert masks == {ANY_TYPE, 0b01, 0b10, 0b11}  # P100, V100M16 or V100M32, both


def test_the_batch_dags_have_the_published_shape() -> None:
    trace, _ = whole("alibaba_dag_tasks")
    links = trace.precedence
    tasks = np.unique(links.workflow, return_counts=True)[1]
    assert len(tasks) == 13_316
    assert np.median(tasks) == 3
    assert tasks.max() == 91
    owner = np.repeat(np.arange(len(trace)), np.diff(links.first))
    assert np.all(links.workflow[owner] == links.workflow[links.parents])
    assert np.all(trace.submit_s[owner] == trace.submit_s[links.parents])


def test_a_shared_trace_survives_writing(tmp_path: Path) -> None:
    trace, _ = whole("alibaba_dag_tasks")
    path = tmp_path / "again.csv"
    path.write_text(trace_csv(trace))
    names = ("outcome", "parents", "workflow")
    again = preset("csv", f"path={path}", *(f"columns.{name}={name}" for name in names[1:]))
    table = again.whole(setting=SETTING, seed=0)
    assert table.precedence.parents.tolist() == trace.precedence.parents.tolist()
