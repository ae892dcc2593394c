"""What an operator mistypes: one line, status 1; statuses, messages and files of a shell."""

import inspect
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import gpuyard
from gpuyard.launch.build import misfit
from sim.errors import GpuYardError
from tests.forking import environment, run_program
from tests.launch.conftest import ROOT, write_own

TWO = {"LOKY_MAX_CPU_COUNT": "2"}  # cores, hence processes
TRACE = "job_id,submit_s,num_gpus,duration_s\n"
JOBS = f"{TRACE}a,0,1,100\nb,10,2,5\n"
ASKING = "job_id,submit_s,num_gpus,duration_s,cpu_milli\na,0,1,100,500\nb,10,1,5,999000\n"


HERE = ("workload=csv", "workload.path=jobs.csv", "topology=small_leaf_spine")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with two jobs in jobs.csv."""
    (tmp_path / "jobs.csv").write_text(JOBS)
    return tmp_path


def told(folder: Path, *words: str, status: int = 1) -> str:
    """What is said of a run with these words; of one that fails, on one line."""
    done = run_program(["-m", "gpuyard", *words], cwd=folder)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr and "Error executing job" not in done.stderr, done.stderr
    if status:
        assert done.stderr.count("error: ") == 1, done.stderr
        return done.stderr
    return done.stderr + done.stdout


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("workload.columns=5", "workload.columns is 5; it must be a mapping"),
        ("workload.window=5", "workload.window is 5; it must be a mapping"),
        ("workload.rules=5", "workload.rules is 5; it must be a section with a _target_"),
        ("workload.drop_too_large=maybe", "workload.drop_too_large is 'maybe'; it must be true or"),
        ("+workload.max_gan=5", "has no such parameter; did you mean workload.max_gang?"),
        ("workload.reader=5", "workload.reader is 5; it must be a section with a _target_"),
        ("workload.reader=null", "workload.reader is None; it must be a section with a _target_"),
        ("workload.reader.delimiter=null", "workload.reader.delimiter is None; give one sign"),
        ("workload.exclude_vcs=lang", "workload.exclude_vcs is 'lang'; it must be a list"),
        ("workload.rules.ignore=demands", "rules.ignore is 'demands'; give a list, like [demands]"),
        ("workload.rules.ignore=3", "rules.ignore is 3; give a list, like [demands]"),
        ("+workload.rules.models.a=[b]", "rules.models.a is ['b']; give one name of a model"),
        ("outages.mtbf_s=5", "outages=failures has it"),
        ("belief.model.path=-1", "belief.model.path is -1; it must be a path or a text or null"),
        ("estimator=none", "choose estimator=group_median or limit"),
    ],
)
def test_a_value_of_the_wrong_kind(here: Path, word: str, message: str):
    with pytest.raises(GpuYardError, match=re.escape(message)):
        gpuyard.simulate(here / "jobs.csv", "small_leaf_spine", "sjf", overrides=[word])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("generate_trace workload.spec.longest_s=abc", "longest_s is 'abc'; it must be a number"),
        ("generate_trace workload.spec.zipf_exponent=-1", "zipf_exponent is -1; it must be 0 or"),
        ("generate_trace workload.spec.hour_factors=null", "None; it must be a list of numbers"),
        ("generate_trace +workload.spec.vc=2", "did you mean workload.spec.vcs?"),
        ("generate_trace workload.spec=a", "workload.spec is 'a'; it must be a section with a _t"),
        (f"generate_trace workload.num_jobs={10**17}", "memory does not suffice: Unable to alloc"),
        ("generate_trace workload=[3]", "workload=[3]: workload is one of the files of conf/work"),
        ("generate_trace workload.profiles=[null]", "[None]; it must be a list of texts or null"),
        ("generate_trace hydra.run.dir=${x}", "the folder's name has ${; rename it"),
        ("generate_trace out=3", "out is 3; it must be a path"),
        (f"compare sweep=. confidence={1 - 1e-16}", "it must lie from 0.0001 to 0.9999, like 0.95"),
        ("learn learns=network algo.estimator=true", "algo.estimator is True; it must be es or b"),
        ("fit_generator name=a workload.path=a owners=null", "owners is None; it must hold vcs"),
    ],
)
def test_what_no_section_takes_is_told_by_its_key(tmp_path: Path, words: str, message: str):
    assert message in told(tmp_path, *words.split())


def test_a_job_that_fits_nowhere_is_told_before_it_is_played(tmp_path: Path):
    (tmp_path / "jobs.csv").write_text(ASKING)
    cores = ("workload.columns.cpu_milli=cpu_milli", "topology.cpu_milli=64000", "page=false")
    line = told(tmp_path, "simulate", *HERE, *cores)
    assert "1 of 2 jobs fit nowhere on small_leaf_spine, even when it is empty; the first" in line
    assert "job b: 1 GPU, each with 999 cores" in line and "rules.ignore=[demands]" in line
    told(tmp_path, "simulate", *HERE, *cores, "workload.rules.ignore=[demands]", status=0)


def test_a_twin_of_a_row_that_is_left_out_stays(tmp_path: Path):
    (tmp_path / "jobs.csv").write_text(f"{TRACE}c,-1,1,3\nc,2,1,3\nd,3,1,3\nd,4,1,3\n")
    said = told(tmp_path, "simulate", *HERE, "workload.strict=false", "page=false", status=0)
    assert "2 rows skipped" in said and "1 x job_id is the job of an earlier row again" in said
    assert "2 of 4 rows with faults left out" in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_device_that_is_full(here: Path):
    code = (
        "import sys; sys.stdout = open('/dev/full', 'w'); sys.argv[0] = 'gpuyard'\n"
        "from gpuyard.command import main; main()"
    )
    words = ["simulate", "workload=csv", "workload.path=jobs.csv", "page=false"]
    done = run_program(["-c", code, *words], cwd=here)
    told = "or what is printed to: No space left on device\nsimulate keeps nothing half-done: start"
    assert told in done.stderr, done.stderr


OWN_EXPERIMENT = """\
# @package _global_
defaults:
  - override /topology: small_leaf_spine
windows: 1
workload: {num_jobs: 30}
lineup:
  entries:
    - {role: composite, overrides: ["scheduler=sjf,my_order"]}
reproduce:
  title: Mine
  cells: [[]]
"""


def test_experiments_and_schedulers_of_ones_own_are_reproduced(tmp_path: Path):
    order = "_target_: sim.schedulers.orders.Fifo\nplacer: ${placer}\nsharing: ${sharing}\n"
    write_own(tmp_path, {
        "mine/scheduler/my_order.yaml": f"{order}skip_blocked: true\n",
        "mine/experiment/mine.yaml": OWN_EXPERIMENT,
    })  # fmt: skip
    listed = told(tmp_path, "reproduce", status=0)
    assert "mine" in listed.split() and "Mine" in listed
    words = ("experiment=mine", "jobs=1", "page=false", "agents.count=1")
    told(tmp_path, "reproduce", *words, status=0)
    played = (tmp_path / "runs" / "reproduce" / "mine" / "comparison.csv").read_text()
    assert {"fifo_skip+consolidated", "sjf+consolidated"} <= set(re.split(r"[,\n]", played))


ENTRY = "lineup.entries=[{role: published, overrides: ['scheduler=sjf', '%s']}]"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("simulate", "workload.num_jobs=2"), "workload.num_jobs=2 is the size of a window"),
        (("simulate", "hydra.sweep.dir=x"), "is not read by a run without -m; use hydra.run.dir"),
        (("simulate", "-m", "--cfg", "job"), "can be specified; leave one of them out"),
        (("fit_interference", "data_dir=nothere"), "data_dir is nothere, which is not there"),
        (("evaluate", "rivals=true", ENTRY % "placer=packed"), "add ours=NAME"),
        (("evaluate", ENTRY % "+estimator=oracle"), "an entry does not read 'estimator'"),
        (("learn", "rules.suspends=true"), "rules.suspends=true is of a network; add learns="),
        (("learn", "encoder=flat"), "encoder is no choice of this program; it is one of train"),
        (("simulate", "+scheduler=sjf"), "Leave out the +: scheduler=sjf"),
        (("simulate", "belief.model=null"), "belief.info is learned, belief.model is null: say"),
        (("simulate", "belief.info=none"), "belief.info is none, belief.model must be null:"),
        (("simulate", "+part=test"), "the key 'part' is there; leave out the +: part=test"),
        (("simulate", "+reward=delay"), "'reward'. reward is no choice of this program; it is one"),
        (("train", "algo=es"), "`train` takes ppo and appo; others are for `gpuyard learn`"),
        (("train", "algo.epochs=0"), "algo.epochs is 0; it must be a whole number from 1"),
        (("train", "algo.envs_per_runner=0"), "algo.envs_per_runner is 0; it must be 1 or more"),
        (("train", "algo.value_weight=-1"), "algo.value_weight is -1; it must be 0 or more"),
        (("train", "warm_start.episodes=-1"), "warm_start.episodes is -1; it must be a whole"),
        (("train", "reward=progress", "algo.gamma=1"), "reward=progress pays a job whenever it"),
        # a key in a section inside; elsewhere; what has but the section in common is no help
        (("simulate", "workload.start_s=3"), "struct\n  did you mean workload.window.start_s?\n"),
        (("simulate", "belief.path=x.json"), "struct\n  did you mean belief.model.path?\n"),
        (("simulate", "topology.num_jobs=9"), "struct\n  did you mean workload.num_jobs?\n"),
        (("simulate", "scheduler.placer.foo=1"), "struct\n  scheduler.placer takes no keys\n"),
        (("simulate", "outages.foo=1"), "struct\n  outages takes no keys\n"),
    ],
)
def test_what_nobody_would_read(here: Path, words: tuple[str, ...], message: str):
    jobs = HERE if words[0] in {"simulate", "evaluate", "learn", "train"} else ()
    said = told(here, words[0], *jobs, *words[1:])
    assert message in said and not (words[0] == "learn" and "use +" in said)


def test_a_sweep_reads_another_folder_than_a_run(tmp_path: Path):
    words = ["simulate", "workload.num_jobs=20", "hydra.run.dir=x", "-m"]
    done = run_program(["-m", "gpuyard", *words], cwd=tmp_path)
    assert done.returncode == 1
    assert "error: hydra.run.dir=x is not read by a sweep; use hydra.sweep.dir" in done.stderr


def test_a_choice_with_a_shipped_name_is_refused_since_the_shipped_one_would_run(tmp_path: Path):
    write_own(tmp_path, {"mine/scheduler/sjf.yaml": "_target_: my.Own\n"})
    line = told(tmp_path, "simulate", "scheduler=sjf")
    assert "mine/scheduler/sjf.yaml: scheduler=sjf is shipped, and comes first; rename it" in line


def test_a_placer_that_the_scheduler_does_not_ask_is_told(here: Path):
    words = (*HERE, "page=false", "scheduler=dally", "placer=packed")
    assert "placer=packed is not read: the scheduler" in told(here, "simulate", *words, status=0)


@pytest.mark.parametrize("hint", [inspect.Parameter.empty, Any, object])
def test_a_parameter_without_a_hint_takes_any_value(hint: object):
    assert misfit(3.5, hint) is None and misfit(None, hint) is None
    assert misfit([1.0], np.ndarray) is misfit({"a": 1}, Mapping) is None  # made of these


def test_slices_of_gpus_and_the_window_in_dates_are_told(tmp_path: Path):
    job = "2|COMPLETED|2025-03-01T08:00:00|3600|gres/gpu:a100_3g.20gb=2\n"
    (tmp_path / "jobs.txt").write_text(f"JobID|State|Submit|ElapsedRaw|ReqTRES\n{job}")
    words = ("workload=sacct", "workload.path=jobs.txt", "workload.window.start_s=2025-03-01")
    said = told(tmp_path, "simulate", *words, "page=false", status=0)
    assert "the trace from 2025-03-01 to its end (1 of 1 job)" in said
    assert "1 job with MIG slices as parts of a GPU, 3g as 3/7" in said


def said(outcome) -> str:
    """The message of a failed run: one `error:`, no traceback, status 1."""
    assert outcome.status == 1, outcome.err
    assert outcome.err.count("error:") == 1
    assert "Traceback" not in outcome.err
    return outcome.err


def test_success_writes_the_resolved_config_the_record_and_a_log(tiny: Callable):
    outcome = tiny("seed=7")
    assert (outcome.status, outcome.out) == (0, "")
    (folder,) = outcome.folders
    assert folder.parts[-3:-1] == ("runs", "tiny")
    assert (folder / "gpus.txt").read_text() == "8"
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert (config["seed"], config["trace"]) == (7, "jobs.csv")
    record = json.loads((folder / "record.json").read_text())
    assert record["overrides"] == ["seed=7", "trace=jobs.csv"]
    assert record["versions"]["python"] == sys.version.split()[0]
    assert (record["program"], record["seed"]) == ("tiny", 7)
    assert {"command", "git_commit", "git_dirty", "versions"} <= set(record)
    assert "scheduler" not in record  # nothing was simulated
    assert "writing to" in (folder / "tiny.log").read_text()


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        ("workload.max_gan=4", "workload.max_gang"),
        ("max_gang=4", "workload.max_gang"),
        ("sead=4", "seed"),
        ("topolgy=small", "topology"),
        ("topology.serverz=3", "topology.servers"),
        ("topology=smal", "topology=small"),
        ("+experiment=bigg", "experiment=big"),
        ("+experimnt=big", "experiment"),
        ("+topology.servrs=3", "topology.servers"),
        ("+workload.max_gan=3", "workload.max_gang"),
        ("+worklod.gang=3", "workload.max_gang"),
    ],
)
def test_a_wrong_name_is_followed_by_the_nearest_right_one(
    tiny: Callable, words: str, nearest: str
):
    assert f"did you mean {nearest}?" in said(tiny(words))


def test_a_value_that_wants_quotes_is_named(tiny: Callable):
    message = said(tiny("trace=jobs (2).csv"))
    assert "'trace=jobs (2).csv' is no override" in message and "in quotes within quotes" in message
    assert tiny('trace="jobs (2).csv"').status == 0
    assert "put a value with =, ~, blanks" in said(tiny("trace=~/jobs.csv"))


def test_a_name_like_no_other_gets_no_guess(tiny: Callable):
    message = said(tiny("zzqqxx=4"))
    assert "zzqqxx" in message and "program takes " in message and "did you mean" not in message
    for name in ("zzqqxx", "traces"):  # neither the section nor a like word elsewhere is a help
        inside = said(tiny(f"topology.{name}=4"))
        assert "did you mean" not in inside and "topology takes " in inside


def test_a_required_value_is_named_before_any_work(tiny: Callable):
    outcome = tiny(trace=None)
    message = said(outcome)
    assert "trace: required" in message and "trace=VALUE" in message and outcome.folders == []


def test_a_program_that_never_begins_its_folder_is_a_fault(tiny: Callable):
    outcome = tiny("mode=never_begun")
    assert outcome.status == 1 and "AssertionError: tiny began no folder" in outcome.err


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("topology.servers=two", "topology.servers is 'two'; it must be a whole number"),
        ("topology.servers=1e2", "topology.servers is 100.0; it must be a whole number"),
        ("topology.nic_gbps=fast", "topology.nic_gbps is 'fast'; it must be a number"),
        ("topology.servers=0", "error: topology.servers is 0; it must be at least 1"),
        ("mode=bad_trace", "error: jobs.csv line 3: num_gpus is 0"),
        ("topology.gpu_types=p100", "topology.gpu_types is 'p100'; it must be a list"),
    ],
)
def test_a_wrong_value_or_row_is_told(tiny: Callable, word: str, message: str):
    assert message in said(tiny(word))


@pytest.mark.parametrize(
    ("mode", "debug", "raised"),
    [("bad_trace", "1", "TraceError: jobs.csv line 3"), ("fault", "", "RuntimeError: a fault of")],
)
def test_debug_and_a_fault_of_the_program_show_the_traceback(tiny: Callable, mode, debug, raised):
    outcome = tiny(f"mode={mode}", DEBUG=debug)
    assert outcome.status == 1 and "Traceback" in outcome.err and raised in outcome.err


def test_an_interrupt_leaves_with_130_and_a_note(tiny: Callable):
    outcome = tiny("mode=interrupt")
    assert outcome.status == 128 + signal.SIGINT
    assert "interrupted" in outcome.err
    assert "start it again" in outcome.err
    swept = tiny("-m", "mode=interrupt,fine")
    assert f"hydra.sweep.dir={swept.runs / 'tiny'}" in swept.err
    assert "Traceback" not in outcome.err


def test_a_sweep_makes_one_folder_a_point(tiny: Callable):
    outcome = tiny("-m", "topology=small,medium")
    assert outcome.status == 0, outcome.err
    assert [folder.name for folder in outcome.folders] == ["0", "1"]
    assert len({folder.parent for folder in outcome.folders}) == 1
    assert [(f / "gpus.txt").read_text() for f in outcome.folders] == ["8", "24"]
    assert all((folder / "tiny.log").is_file() for folder in outcome.folders)


@pytest.mark.parametrize("launcher", ["basic", "joblib"])
def test_every_failed_point_of_a_sweep_is_told_and_logged(tiny: Callable, launcher: str):
    outcome = tiny("-m", "mode=fine,bad_trace,fault", f"hydra/launcher={launcher}", **TWO)
    assert outcome.status == 1 and "mode=bad_trace" in outcome.err
    assert [folder.name for folder in outcome.folders] == ["0", "1", "2"]
    assert len({folder.parent for folder in outcome.folders}) == 1
    assert [(f / "gpus.txt").is_file() for f in outcome.folders] == [True, False, False]
    fine, bad_trace, fault = ((folder / "tiny.log").read_text() for folder in outcome.folders)
    assert "ERROR" not in fine
    assert "1 failed: jobs.csv line 3: num_gpus is 0" in bad_trace
    assert "Traceback" not in bad_trace
    assert 'tiny.py", line 17, in main' in fault
    assert fault.splitlines()[-1] in outcome.err and bad_trace.splitlines()[-1] in outcome.err


def test_a_wrong_name_in_a_sweep_fails_before_any_point(tiny: Callable):
    outcome = tiny("-m", "topology=small,medum")
    assert "did you mean topology=medium?" in said(outcome)
    assert outcome.folders == []


def test_a_terminal_without_a_sign_gets_another():
    program = "from gpuyard.launch.start import run_main; run_main(lambda: print(chr(177)))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        cwd=ROOT, capture_output=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, b"?\n"), done.stderr


@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "1>&- 2>&-"])
def test_a_stream_that_is_closed_is_written_to_by_nobody(here: Path, closed: str):
    words = "simulate workload=csv workload.path=jobs.csv page=false hydra.run.dir=there"
    command = f"{sys.executable} -m gpuyard {words} {closed}"
    done = subprocess.run(
        command, shell=True, cwd=here, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (here / "there" / "metrics.json").is_file()


def test_a_folder_that_was_removed_meanwhile_is_no_place_to_start_in(tmp_path: Path):
    gone = tmp_path / "gone"
    gone.mkdir()
    code = (
        f"import os; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r})\n"
        "from gpuyard.command import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "simulate"], env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "error: the folder you are in has been removed; cd to one" in done.stderr
