"""The trainer on a hill that is known: it goes on as if never stopped, and keeps what is good."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from gpuyard.learning.checkpoint import CHECKPOINT, Saved, load
from gpuyard.learning.form import LINEAR, Form, Standard, first_vector, form_of, sigmas
from gpuyard.learning.strategies import Climb, begin, members
from gpuyard.learning.trainer import Course, LearningStopped, Rivals, Trainer
from gpuyard.learning.window_play import Alone, Crew, Field, Ground
from sim.arrays import FloatArray
from sim.errors import GpuYardError, SimulationError
from sim.linear.weights import FORWARD_FEATURES, START_FEATURES, ScoreWeights

QUIET = Console(quiet=True)
ZERO = ScoreWeights(np.zeros(len(START_FEATURES)), np.zeros(len(FORWARD_FEATURES)))
SETTING = "a hill"


def form(units: int = 2) -> Form:
    plain = [
        Standard(np.zeros(n), np.ones(n)) for n in (len(START_FEATURES), len(FORWARD_FEATURES))
    ]
    return Form(units, units, *plain)


def no_field(setting: str) -> Field:
    raise AssertionError(setting)  # the hill needs none


@dataclass(frozen=True)
class Hill(Crew):
    """Scores are the distance of the linear weights to 1; at one update something happens."""

    happens: BaseException | float | None = None
    at: int = -1

    def pairs(
        self, ground: Ground, form: Form, climb: Climb, windows: Sequence[int]
    ) -> list[tuple[float, float]]:
        del ground, form
        if climb.update == self.at and isinstance(self.happens, BaseException):
            raise self.happens
        scores = []
        for pair, window in enumerate(windows):
            noise = np.random.default_rng(window).normal()
            one, other = (_far(each) + noise for each in members(climb, pair))
            scores.append((one, other))
        if climb.update == self.at:
            assert isinstance(self.happens, float)
            scores[3] = (self.happens, scores[3][1])
        return scores

    def windows(
        self, ground: Ground, weights: ScoreWeights, part: str, windows: Sequence[int]
    ) -> FloatArray:
        del ground
        assert part == "validation"
        return np.full(len(windows), _far(np.concatenate([weights.start, weights.forward])))


def _far(x: FloatArray) -> float:
    return float(np.mean((x[:LINEAR] - 1.0) ** 2))


def beginning() -> Saved:
    vector = first_vector(form(), np.zeros(LINEAR), seed=1)
    return Saved(SETTING, begin(vector, sigmas(form(), np.zeros(LINEAR)), 1), form(), 0.0, ())


def trainer(folder: Path, updates: int, saved: Saved, crew: Crew | None = None) -> Trainer:
    folder.mkdir(exist_ok=True)
    ticks = iter(range(10**6))
    return Trainer(
        ground=Ground(no_field, ""), saved=saved,
        course=Course(8, updates, None, 5, 4, validation=(0, 1)),
        rivals=Rivals(ZERO, ZERO), crew=crew or Hill(Alone()), folder=folder,
        clock_s=lambda: float(next(ticks)),
    )  # fmt: skip


def test_it_climbs_and_draws_a_curve(tmp_path: Path):
    found = trainer(tmp_path, 60, beginning())
    found.run(QUIET)
    curve = found.saved.curve
    assert [point.update for point in curve] == list(range(0, 61, 5))
    assert curve[0].to_begin == 1.0
    assert curve[-1].to_begin < 0.6
    assert curve[-1].runs == 60 * 16
    assert curve[-1].minutes > curve[1].minutes > 0


@pytest.mark.parametrize("stop", [10, 13])
def test_a_search_that_went_on_has_the_weights_of_one_that_never_stopped(tmp_path: Path, stop: int):
    # Ctrl-C at update `stop`: the step falls with the updates in all, so those are the same.
    whole = trainer(tmp_path / "whole", 30, beginning())
    whole.run(QUIET)
    broken = trainer(tmp_path / "broken", 30, beginning(), Hill(Alone(), KeyboardInterrupt(), stop))
    with pytest.raises(KeyboardInterrupt):
        broken.run(QUIET)
    saved = load(tmp_path / "broken", SETTING)
    assert saved.climb.update == stop
    resumed = trainer(tmp_path / "resumed", 30, saved)
    resumed.run(QUIET)
    for name in ("mean", "average", "first", "second"):
        one, other = (getattr(each.saved.climb, name) for each in (whole, resumed))
        assert np.array_equal(one, other), name
    updates = [[point.update for point in each.saved.curve] for each in (whole, resumed)]
    assert updates[0] == updates[1]


@pytest.mark.parametrize(
    ("happens", "told"),
    [
        (float("nan"), "update 8: training window .* no number; .*checkpoint.npz holds update 7"),
        (float("inf"), "no number"),
        (SimulationError("jobs wait for ever"), "update 8: jobs wait for ever"),
    ],
)
def test_what_goes_wrong_ends_with_the_last_good_checkpoint(tmp_path: Path, happens, told: str):
    found = trainer(tmp_path, 30, beginning(), Hill(Alone(), happens, 7))
    with pytest.raises(LearningStopped, match=told):
        found.run(QUIET)
    saved = load(tmp_path, SETTING)
    assert saved.climb.update == 7
    assert np.all(np.isfinite(saved.climb.mean))


def test_a_checkpoint_of_another_setting_or_none_is_refused(tmp_path: Path):
    with pytest.raises(GpuYardError, match=r"holds no checkpoint\.npz"):
        load(tmp_path, SETTING)
    trainer(tmp_path, 2, beginning()).run(QUIET)
    with pytest.raises(GpuYardError, match="another setting"):
        load(tmp_path, "elsewhere")
    (tmp_path / CHECKPOINT).write_bytes(b"PK\x03\x04 half a file")
    with pytest.raises(GpuYardError, match="cannot be read"):
        load(tmp_path, SETTING)


def test_a_course_of_minutes_ends_with_them():
    course = Course(8, None, 2.0, 5, 4, (0,))
    assert [course.progress(9, s) for s in (0.0, 60.0, 120.0, 500.0)] == [0.0, 0.5, 1.0, 1.0]
    both = Course(8, 10, 2.0, 5, 4, (0,))
    assert both.progress(9, 60.0) == 0.9


@pytest.mark.parametrize("units", [0, 3])
def test_a_vector_is_the_weights_and_back(units: int):
    there = form(units)
    vector = np.random.default_rng(0).normal(size=there.size)
    weights = there.weights(vector)
    assert np.array_equal(there.vector(weights), vector)
    assert form_of(weights).size == there.size
    with pytest.raises(ValueError, match="expected"):
        there.weights(vector[1:])


def test_layers_add_nothing_at_the_beginning():
    weights = form().weights(beginning().climb.mean)
    assert not np.any(weights.start_layer.outer)
    assert np.any(weights.start_layer.inner)
    assert weights.looks_ahead()  # or the layer would never see those features


def test_workers_share_pairs_out_whole():
    for size in (1, 2, 3):
        players = Alone()
        players.size = size
        for count in (1, 5, 24):
            shares = Crew(players)._shares(count)
            assert [each for share in shares for each in share] == list(range(count))
