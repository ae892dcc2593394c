"""The launch layer as seen from a shell: statuses, messages, files."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
import yaml

from tests.launch.conftest import ROOT


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


def test_a_name_like_no_other_gets_no_guess(tiny: Callable):
    message = said(tiny("zzqqxx=4"))
    assert "zzqqxx" in message and "the program takes " in message
    assert "did you mean" not in message
    inside = said(tiny("topology.zzqqxx=4"))  # the section itself is no help
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


@pytest.mark.parametrize("launcher", ["basic", "joblib"])
def test_a_sweep_makes_one_folder_a_point(tiny: Callable, launcher: str):
    outcome = tiny("-m", "topology=small,medium", f"hydra/launcher={launcher}")
    assert outcome.status == 0, outcome.err
    assert [folder.name for folder in outcome.folders] == ["0", "1"]
    assert len({folder.parent for folder in outcome.folders}) == 1
    assert [(f / "gpus.txt").read_text() for f in outcome.folders] == ["8", "24"]
    assert all((folder / "tiny.log").is_file() for folder in outcome.folders)


@pytest.mark.parametrize("launcher", ["basic", "joblib"])
def test_every_failed_point_of_a_sweep_is_told_and_logged(tiny: Callable, launcher: str):
    outcome = tiny("-m", "mode=fine,bad_trace,fault", f"hydra/launcher={launcher}")
    assert outcome.status == 1 and "mode=bad_trace" in outcome.err
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
