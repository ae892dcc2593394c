"""Schedulers handed in that decide for themselves: what is told of one that is none, or errs."""

import re
import traceback
from pathlib import Path

import pandas as pd
import pytest

import gpuyard
from gpuyard.launch.errors import ConfigError
from sim.decision import WAIT, Decision, Start
from sim.errors import GpuYardError
from sim.view import Signal

JOBS = pd.DataFrame({"job_id": ["a", "b"], "submit_s": 0, "num_gpus": 1, "duration_s": 10})
FREE = {0: [0], 1: [1]}  # job -> GPUs


class Own:
    name, needs = "own", Signal.NONE

    def reset(self, seed):
        pass

    def decide(self, view):
        return Decision(tuple(Start(job, FREE[job]) for job in view.queued.tolist()))


def run_of(scheduler):
    return gpuyard.simulate(JOBS, "small_leaf_spine", scheduler)


@pytest.mark.parametrize("missing", ["name", "needs", "reset", "decide"])
def test_a_class_without_what_a_scheduler_has_is_told_what_to_add(missing: str):
    parts = {key: value for key, value in vars(Own).items() if key not in {missing, "__dict__"}}
    lacking = type("Lacking", (), parts)
    with pytest.raises(GpuYardError, match=rf"Lacking has no .*`{missing}`; add {missing}"):
        run_of(lacking)


def test_needs_are_signals():
    asked = type("Asked", (Own,), {"needs": "DURATION"})
    with pytest.raises(GpuYardError, match=r"Asked.needs is 'DURATION'; write needs = Signal.NONE"):
        run_of(asked())


def test_what_decide_gives_is_refused_by_class_and_method():
    class Lists(Own):
        def decide(self, view):
            return [super().decide(view)]

    told = r"test_own_schedulers\.\S*Lists\.decide gives \[Decision\(.*; it must be a Decision"
    with pytest.raises(GpuYardError, match=told):
        run_of(Lists)
    assert run_of(Own).jobs["start_s"].tolist() == [0, 0]


def test_a_view_is_shown_on_one_line():
    shown = []

    class Printing(Own):
        def decide(self, view):
            shown.append(repr(view))
            return super().decide(view) if view.queued.size else WAIT

    run_of(Printing)
    assert re.fullmatch(
        r"<ClusterView at t=0\.0 s: 2 jobs queued, 0 running, \d+ servers, 64 GPUs>", shown[0]
    )


def test_a_column_that_is_not_there_is_likened_once():
    class Mistyped(Own):
        def decide(self, view):
            return view.jobs.num_gpu

    with pytest.raises(AttributeError) as error:
        run_of(Mistyped)
    assert "".join(traceback.format_exception(error.value)).lower().count("did you mean") == 1


def test_a_figure_is_a_png_in_a_file(tmp_path: Path):
    run = run_of(Own)
    with pytest.raises(ConfigError, match=r"g\.pdf'; it must end in \.png"):
        run.gantt(tmp_path / "g.pdf")
    with pytest.raises(ConfigError, match=r"', a folder; name a file"):
        run.gantt(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    run.gantt(tmp_path / "new" / "G.PNG")
    assert (tmp_path / "new" / "G.PNG").read_bytes().startswith(b"\x89PNG")
