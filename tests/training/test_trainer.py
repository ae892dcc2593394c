"""The trainer on a hill that is known: it goes on as if never stopped, and keeps what is good."""

import resource
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from gpuyard.training.form import (
    Form,
    Part,
    Player,
    ScorePlayer,
    Standard,
    WindowSource,
    first_vector,
    form_of,
    linear_of,
    sigmas,
    zero_weights,
)
from gpuyard.training.learn import read_curve, write_curve
from gpuyard.training.strategies import CHECKPOINT, Climb, Saved, begin, load, members, noise, save
from gpuyard.training.trainer import Budget, LearningStopped, Rivals, Trainer
from gpuyard.training.windows import FAILED, Evaluator, InProcess, SourceSpec
from sim.arrays import FloatArray
from sim.errors import GpuYardError, InvalidDecision, SimulationError
from sim.scoring.weights import ALL_GROUPS, GROUPS, ScoreWeights

QUIET = Console(quiet=True)
ZERO = zero_weights(suspends=False)
LINEAR = sum(len(names) for names in GROUPS.values())
SETTING = "a hill"


def form(units: int = 2) -> Form:
    return Form(
        tuple(
            Part(group, units, Standard(np.zeros(len(names)), np.ones(len(names))))
            for group, names in GROUPS.items()
        )
    )


def test_a_form_with_suspensions_reads_what_it_wrote():
    parts = tuple(
        Part(group, 2, Standard(np.zeros(len(names)), np.ones(len(names))))
        for group, names in ALL_GROUPS.items()
    )
    wide = Form(parts)
    vector = np.random.default_rng(0).normal(size=wide.size)
    weights = wide.weights(vector)
    assert weights.suspend is not None
    assert np.array_equal(weights.suspend, vector[LINEAR : wide.linear])
    assert np.array_equal(wide.vector(weights), vector)
    assert np.array_equal(form_of(weights).vector(weights), vector)
    assert form().weights(vector[: form().size]).suspend is None


def no_source(setting: str) -> WindowSource:
    raise AssertionError(setting)  # the hill needs none


@dataclass(frozen=True)
class Hill(Evaluator):
    """Scores are the distance of the linear weights to 1; at one update something happens."""

    happens: BaseException | float = 0.0
    at: int = -1

    def pairs(
        self, source_spec: SourceSpec, form: Form, climb: Climb, windows: Sequence[int]
    ) -> list[tuple[float, float]]:
        del source_spec, form
        if climb.update == self.at and isinstance(self.happens, BaseException):
            raise self.happens
        scores = []
        for pair, window in enumerate(windows):
            noise = np.random.default_rng(window).normal()
            one, other = (_far(each) + noise for each in members(climb, pair))
            scores.append((one, other))
        if climb.update == self.at and isinstance(self.happens, float):
            scores[3] = (self.happens, scores[3][1])
        return scores

    def windows(
        self, source_spec: SourceSpec, player: Player, part: str, windows: Sequence[int]
    ) -> FloatArray:
        del source_spec
        assert part == "validation"
        assert isinstance(player, ScorePlayer)
        return np.full(len(windows), _far(linear_of(player.weights)))


@dataclass(frozen=True)
class Broken(Hill):
    """At one update all runs fail."""

    def pairs(
        self, source_spec: SourceSpec, form: Form, climb: Climb, windows: Sequence[int]
    ) -> list[tuple[float, float]]:
        if climb.update == self.at:
            return [(FAILED, FAILED)] * len(windows)
        return super().pairs(source_spec, form, climb, windows)


@dataclass(frozen=True)
class Stuck(Hill):
    """From the validation number `after` on, window 1 fails."""

    after: int = 0
    played: list[int] = field(default_factory=list)

    def windows(
        self, source_spec: SourceSpec, player: Player, part: str, windows: Sequence[int]
    ) -> FloatArray:
        logs = super().windows(source_spec, player, part, windows)
        if len(self.played) >= self.after:
            logs[1] = FAILED
        self.played.append(1)
        return logs


@dataclass(frozen=True)
class Filling(Hill):
    """From one update on, no file may be larger than a kilobyte."""

    update: int = 0
    folder: Path = Path()

    def pairs(
        self, source_spec: SourceSpec, form: Form, climb: Climb, windows: Sequence[int]
    ) -> list[tuple[float, float]]:
        if climb.update == self.update:
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        return super().pairs(source_spec, form, climb, windows)


def _far(x: FloatArray) -> float:
    return float(np.mean((x[:LINEAR] - 1.0) ** 2))


def beginning() -> Saved:
    vector = first_vector(form(), np.zeros(LINEAR), seed=1)
    return Saved(SETTING, begin(vector, sigmas(form(), np.zeros(LINEAR)), 1), form(), 0.0, ())


def trainer(
    folder: Path, updates: int, saved: Saved, evaluator: Evaluator | None = None
) -> Trainer:
    folder.mkdir(exist_ok=True)
    ticks = iter(range(10**6))
    return Trainer(
        source_spec=SourceSpec(no_source, ""), saved=saved,
        budget=Budget(8, updates, None, 5, 4, validation=(0, 1)),
        rivals=Rivals(ScorePlayer(ZERO), ScorePlayer(ZERO)),
        evaluator=evaluator or Hill(InProcess()), folder=folder,
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


def test_the_bar_ends_with_the_last_validation_and_its_own_update(tmp_path: Path):
    console = Console(file=StringIO(), force_terminal=True, width=200)
    found = trainer(tmp_path, 7, beginning())
    found.run(console)
    shown = console.file.getvalue().rpartition("update ")[2]
    assert shown.startswith(f"7: {found.saved.curve[-1].to_reference:.3f} of")


def test_no_updates_leave_the_beginning(tmp_path: Path):
    found = trainer(tmp_path, 0, beginning())
    found.run(QUIET)
    assert [point.update for point in found.saved.curve] == [0]
    assert np.array_equal(found.saved.climb.average, beginning().climb.average)


@pytest.mark.parametrize("stop", [10, 13])
def test_a_search_that_went_on_has_the_weights_of_one_that_never_stopped(tmp_path: Path, stop: int):
    # Ctrl-C at update `stop`: the step falls with the updates in all, so those are the same.
    whole = trainer(tmp_path / "whole", 30, beginning())
    whole.run(QUIET)
    broken = trainer(
        tmp_path / "broken", 30, beginning(), Hill(InProcess(), KeyboardInterrupt(), stop)
    )
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


@pytest.mark.parametrize("happens", [float("nan"), FAILED])
def test_a_member_that_fails_loses_its_pair(tmp_path: Path, happens: float, caplog):
    found = trainer(tmp_path, 8, beginning(), Hill(InProcess(), happens, 7))
    found.run(QUIET)
    assert found.saved.climb.update == 8
    assert np.all(np.isfinite(found.saved.climb.mean))
    assert "update 8: 1 of 16 runs failed, the first on training window" in caplog.text


class NoGame:
    """A source on which no run ends well."""

    def __init__(self, setting: str) -> None:
        self.setting, self.scheduler = setting, self

    def window(self, part: str, index: int) -> None:
        del part, index

    def weighing(self, weights: ScoreWeights) -> None:
        del weights

    def simulator(self, part: str, index: int, jobs: None) -> None:
        del part, index, jobs
        if self.setting == "stuck":
            raise SimulationError("jobs wait for ever")
        raise InvalidDecision("no such job")


@pytest.mark.parametrize("setting", ["stuck", "illegal"])
def test_a_run_that_never_ends_has_a_score(setting: str):
    source_spec, saved = SourceSpec(NoGame, setting), beginning()
    evaluator = Evaluator(InProcess())
    assert evaluator.pairs(source_spec, saved.form, saved.climb, [0, 1]) == [(FAILED, FAILED)] * 2
    assert evaluator.windows(source_spec, ScorePlayer(ZERO), "validation", [0]).tolist() == [FAILED]


def test_where_all_fail_it_stops_and_goes_on_with_other_draws(tmp_path: Path):
    found = trainer(tmp_path, 30, beginning(), Broken(InProcess(), at=7))
    with pytest.raises(LearningStopped, match=r"all runs failed; .*checkpoint.npz holds update 8"):
        found.run(QUIET)
    saved = load(tmp_path, SETTING)
    assert saved.climb.update == 8
    assert not np.any(noise(saved.climb, 0) == noise(replace(saved.climb, update=7), 0))
    going_on = trainer(tmp_path / "on", 30, saved, Broken(InProcess(), at=7))
    going_on.run(QUIET)
    assert going_on.saved.climb.update == 30


def test_windows_that_fail_are_a_point_of_the_curve_but_no_rival(tmp_path: Path):
    # Numbers 0 and 1 are the rivals, 2 the beginning.
    found = trainer(tmp_path, 10, beginning(), Stuck(InProcess(), after=3))
    found.run(QUIET)
    assert [point.to_begin for point in found.saved.curve[1:]] == [FAILED, FAILED]
    write_curve(tmp_path, found.saved.curve, "zero", "other")
    assert read_curve(tmp_path) == list(found.saved.curve)
    refused = trainer(tmp_path, 10, beginning(), Stuck(InProcess(), after=0))
    with pytest.raises(LearningStopped, match="the beginning fails on validation window 1"):
        refused.run(QUIET)


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path: Path):
    found = trainer(tmp_path, 30, beginning(), Filling(InProcess(), update=9, folder=tmp_path))
    was = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(LearningStopped, match=r"cannot be written \(.*\); the one before it"):
            found.run(QUIET)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, was)
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]
    saved = load(tmp_path, SETTING)
    assert saved.climb.update == 8
    resumed = trainer(tmp_path / "on", 30, saved)
    resumed.run(QUIET)
    whole = trainer(tmp_path / "whole", 30, beginning())
    whole.run(QUIET)
    assert np.array_equal(resumed.saved.climb.mean, whole.saved.climb.mean)


def test_a_checkpoint_of_another_setting_or_none_is_refused(tmp_path: Path):
    with pytest.raises(GpuYardError, match=r"holds no checkpoint\.npz; resume=FOLDER of another"):
        load(tmp_path, SETTING)
    trainer(tmp_path, 2, beginning()).run(QUIET)
    with pytest.raises(GpuYardError, match="another setting: it was 'a hill', is 'elsewhere'; rep"):
        load(tmp_path, "elsewhere")


def test_a_key_that_came_later_and_is_null_does_not_part_settings(tmp_path: Path):
    save(replace(beginning(), setting='{"mix": null, "pairs": 2}'), tmp_path)
    assert load(tmp_path, '{"train_windows": null, "pairs": 2}').climb.update == 0
    with pytest.raises(GpuYardError, match="another setting: train_windows was None, is 3; repeat"):
        load(tmp_path, '{"train_windows": 3, "pairs": 2}')


def test_a_checkpoint_that_is_cut_off_or_no_numbers_is_one_message(tmp_path: Path):
    trainer(tmp_path, 2, beginning()).run(QUIET)
    path, whole = tmp_path / CHECKPOINT, (tmp_path / CHECKPOINT).read_bytes()
    for length in (0, 1, 4, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(GpuYardError, match=r"cannot be read: .*or resume=null to begin anew"):
            load(tmp_path, SETTING)
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(GpuYardError, match="cannot be read"):
        load(tmp_path, SETTING)
    bad = beginning()
    bad.climb.average[3] = np.nan
    save(bad, tmp_path)
    with pytest.raises(GpuYardError, match="not finite"):
        load(tmp_path, SETTING)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"elapsed_s": np.nan}, "not finite"),
        ({"elapsed_s": -1.0}, "below 0"),
        ({"update": -5}, "below 0"),
        ({"mean": np.zeros(form().size - 3)}, "expected"),
        ({"first": np.zeros(form().size - 3)}, "differ in length"),
        ({"curve": np.zeros((1, 4))}, "to_reference"),
    ],
)
def test_a_checkpoint_whose_numbers_cannot_be_is_one_message(
    tmp_path: Path, change: dict[str, Any], told: str
):
    save(beginning(), tmp_path)
    with np.load(tmp_path / CHECKPOINT) as found:
        arrays = dict(found)
    np.savez(tmp_path / CHECKPOINT, **arrays | change)
    with pytest.raises(GpuYardError, match=f"cannot be read: .*{told}"):
        load(tmp_path, SETTING)


def test_a_round_of_minutes_is_saved_before_its_number_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("gpuyard.training.trainer.SAVE_EVERY_S", 0.0)
    found, saved = trainer(tmp_path, 2, beginning()), []
    monkeypatch.setattr(
        found, "_tell", lambda *_: saved.append(load(tmp_path, SETTING).climb.update)
    )
    found.run(QUIET)
    assert saved[0] == 1


def test_a_course_of_minutes_ends_with_them():
    budget = Budget(8, None, 2.0, 5, 4, (0,))
    assert [budget.progress(9, s) for s in (0.0, 60.0, 120.0, 500.0)] == [0.0, 0.5, 1.0, 1.0]
    both = Budget(8, 10, 2.0, 5, 4, (0,))
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
        workers = InProcess()
        workers.size = size
        for count in (1, 5, 24):
            shares = Evaluator(workers)._shares(range(count))
            assert [each for share in shares for each in share] == list(range(count))
