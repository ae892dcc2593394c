"""The trainer on a hill that is known: it goes on as if never stopped, and keeps what is good."""

import resource
from collections.abc import Callable, Sequence
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
from gpuyard.training.learn import ratios_of, read_curve, write_curve
from gpuyard.training.strategies import CHECKPOINT, Climb, Saved, begin, load, members, noise, save
from gpuyard.training.trainer import Budget, LearningStopped, Trainer
from gpuyard.training.windows import FAILED, Evaluator, InProcess, SourceSpec
from sim.arrays import FloatArray
from sim.errors import GpuYardError, InvalidDecision, SimulationError
from sim.scoring.weights import ALL_GROUPS, GROUPS, ScoreWeights

QUIET = Console(quiet=True)
ZERO = zero_weights(suspends=False)
LINEAR = sum(len(names) for names in GROUPS.values())
SETTING = "a hill"
Scores = list[tuple[float, float]]


def form(units: int = 2, suspends: bool = False) -> Form:
    groups = ALL_GROUPS if suspends else GROUPS
    plain = {group: Standard(np.zeros(len(x)), np.ones(len(x))) for group, x in groups.items()}
    return Form(tuple(Part(group, units, standard) for group, standard in plain.items()))


def _far(x: FloatArray) -> float:
    return float(np.mean((x[:LINEAR] - 1.0) ** 2))


@dataclass(frozen=True)
class Hill(Evaluator):
    """Scores are the distance of the linear weights to 1.

    At one update `happens` makes others of them, or raises; from the validation number `stuck` on
    window 1 fails; validation number `pressed` is interrupted.
    """

    happens: Callable[[Scores], Scores] = lambda scores: scores
    at: int = -1
    stuck: float = np.inf
    pressed: int = -1
    played: list[int] = field(default_factory=list)

    def pairs(self, source_spec: Any, form: Any, climb: Climb, windows: Sequence[int]) -> Scores:
        del source_spec, form
        scores = []
        for pair, window in enumerate(windows):
            noise = np.random.default_rng(window).normal()
            one, other = (_far(each) + noise for each in members(climb, pair))
            scores.append((one, other))
        return self.happens(scores) if climb.update == self.at else scores

    def windows(
        self, source_spec: Any, player: Player, part: str, windows: Sequence[int]
    ) -> FloatArray:
        del source_spec
        assert part == "validation"
        assert isinstance(player, ScorePlayer)
        logs = np.full(len(windows), _far(linear_of(player.weights)))
        if len(self.played) == self.pressed:
            raise KeyboardInterrupt
        if len(self.played) >= self.stuck:
            logs[1] = FAILED
        self.played.append(1)
        return logs


def hill(**given: Any) -> Hill:
    return Hill(InProcess(), **given)


def interrupt(_: Scores) -> Scores:
    raise KeyboardInterrupt


def all_fail(scores: Scores) -> Scores:
    return [(FAILED, FAILED)] * len(scores)


def fill_the_disk(scores: Scores) -> Scores:
    """From here on no file may be larger than a kilobyte."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    return scores


def beginning() -> Saved:
    vector = first_vector(form(), np.zeros(LINEAR), seed=1)
    return Saved(SETTING, begin(vector, sigmas(form(), np.zeros(LINEAR)), 1), form(), 0.0, ())


def trainer(
    folder: Path, updates: int, saved: Saved | None = None, evaluator: Evaluator | None = None
) -> Trainer:
    def no_source(setting: str) -> WindowSource:
        raise AssertionError(setting)  # the hill needs none

    folder.mkdir(exist_ok=True)
    ticks = iter(range(10**6))
    return Trainer(
        source_spec=SourceSpec(no_source, ""), saved=saved or beginning(),
        budget=Budget(8, updates, None, 5, 4, validation=(0, 1), first_step=0.15),
        rivals=[ScorePlayer(ZERO), ScorePlayer(ZERO)], evaluator=evaluator or hill(),
        folder=folder, clock_s=lambda: float(next(ticks)),
    )  # fmt: skip


def trained(folder: Path, updates: int, *given: Any) -> Saved:
    """To the end."""
    found = trainer(folder, updates, *given)
    found.run(QUIET)
    return found.saved


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """After 30 updates that nothing stopped."""
    return trained(tmp_path_factory.mktemp("whole"), 30)


def test_a_first_step_is_as_long_as_it_is_told(tmp_path: Path):
    usual, longer = (trainer(tmp_path / name, 1) for name in ("usual", "longer"))
    longer.budget = replace(longer.budget, first_step=0.3)  # for 0.15
    for each in (usual, longer):
        each.run(QUIET)
    begun = beginning().climb.mean
    moved = [each.saved.climb.mean - begun for each in (usual, longer)]
    assert np.abs(moved[0]).max() > 0
    np.testing.assert_allclose(moved[1], 2 * moved[0])


def test_it_climbs_and_draws_a_curve(tmp_path: Path):
    curve = trained(tmp_path, 60).curve
    assert [point.update for point in curve] == list(range(0, 61, 5))
    assert curve[0].to_begin == 1.0
    assert curve[-1].to_begin < 0.6
    assert curve[-1].runs == 60 * 16
    assert curve[-1].minutes > curve[1].minutes > 0


def test_the_bar_ends_with_the_last_validation_and_its_own_update(tmp_path: Path):
    console = Console(file=StringIO(), force_terminal=True, width=200)
    found = trainer(tmp_path, 7)
    found.run(console)
    shown = console.file.getvalue().rpartition("update ")[2]
    assert shown.startswith(f"7: {found.saved.curve[-1].to_reference:.3f} of")


def test_no_updates_leave_the_beginning(tmp_path: Path):
    saved = trained(tmp_path, 0)
    assert [point.update for point in saved.curve] == [0]
    assert np.array_equal(saved.climb.average, beginning().climb.average)


@pytest.mark.parametrize("stop", [10, 13])
def test_a_search_that_went_on_has_the_weights_of_one_that_never_stopped(whole, tmp_path, stop):
    # Ctrl-C at update `stop`: the step falls with the updates in all, so those are the same.
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, 30, None, hill(happens=interrupt, at=stop))
    saved = load(tmp_path, SETTING)
    assert saved.climb.update == stop
    resumed = trained(tmp_path / "resumed", 30, saved)
    for name in ("mean", "average", "first", "second"):
        one, other = (getattr(each.climb, name) for each in (whole, resumed))
        assert np.array_equal(one, other), name
    updates = [[point.update for point in each.curve] for each in (whole, resumed)]
    assert updates[0] == updates[1]


def test_a_validation_that_was_interrupted_is_made_up_for(whole: Saved, tmp_path: Path):
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, 30, None, hill(pressed=4))  # after two rivals: of update 10
    resumed = trained(tmp_path, 30, load(tmp_path, SETTING))
    points = [[(p.update, p.runs, p.to_reference) for p in each.curve] for each in (whole, resumed)]
    assert points[0] == points[1]


@pytest.mark.parametrize("score", [float("nan"), FAILED])
def test_a_member_that_fails_loses_its_pair(tmp_path: Path, score: float, caplog):
    def fail(scores: Scores) -> Scores:
        return [*scores[:3], (score, scores[3][1]), *scores[4:]]

    saved = trained(tmp_path, 8, None, hill(happens=fail, at=7))
    assert saved.climb.update == 8
    assert np.all(np.isfinite(saved.climb.mean))
    assert "update 8: 1 of 16 runs failed, the first on training window" in caplog.text


def test_windows_of_one_time_are_one_observation():
    logs, none = np.array([0.1, 0.1, 0.5, 0.5, 0.3, 0.3]), np.zeros(6)
    apart, together = (
        ratios_of(logs, {"other": none}, times)["other"] for times in (range(6), [0, 0, 1, 1, 2, 2])
    )
    assert apart["ratio"] == together["ratio"] == pytest.approx(np.exp(0.3))
    assert together["low"] <= np.exp(0.1) < apart["low"]
    assert together["high"] >= np.exp(0.5) > apart["high"]


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
    with pytest.raises(LearningStopped, match=r"all runs failed; .*checkpoint.npz holds update 8"):
        trained(tmp_path, 30, None, hill(happens=all_fail, at=7))
    saved = load(tmp_path, SETTING)
    assert saved.climb.update == 8
    assert not np.any(noise(saved.climb, 0) == noise(replace(saved.climb, update=7), 0))
    going_on = trained(tmp_path / "on", 30, saved, hill(happens=all_fail, at=7))
    assert going_on.climb.update == 30


def test_windows_that_fail_are_a_point_of_the_curve_but_no_rival(tmp_path: Path):
    # Numbers 0 and 1 are the rivals, 2 the beginning.
    curve = trained(tmp_path, 10, None, hill(stuck=3)).curve
    assert [point.to_begin for point in curve[1:]] == [FAILED, FAILED]
    write_curve(tmp_path, curve, "zero", "other")
    assert read_curve(tmp_path) == list(curve)
    with pytest.raises(LearningStopped, match="the beginning fails on validation window 1"):
        trained(tmp_path, 10, None, hill(stuck=0))


def test_a_full_disk_leaves_the_checkpoint_before(whole: Saved, tmp_path: Path):
    was = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(LearningStopped, match=r"cannot be written \(.*\); the one before it"):
            trained(tmp_path, 30, None, hill(happens=fill_the_disk, at=9))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, was)
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]
    saved = load(tmp_path, SETTING)
    assert saved.climb.update == 8
    assert np.array_equal(trained(tmp_path / "on", 30, saved).climb.mean, whole.climb.mean)


def test_a_checkpoint_of_another_setting_or_none_is_refused(tmp_path: Path):
    with pytest.raises(GpuYardError, match=r"holds no checkpoint\.npz; resume=FOLDER of another"):
        load(tmp_path, SETTING)
    save(beginning(), tmp_path)
    with pytest.raises(GpuYardError, match="another setting: it was 'a hill', is 'elsewhere'; rep"):
        load(tmp_path, "elsewhere")
    save(replace(beginning(), setting='{"mix": null, "pairs": 2}'), tmp_path)  # a key came later
    assert load(tmp_path, '{"train_windows": null, "pairs": 2}').climb.update == 0
    with pytest.raises(GpuYardError, match="another setting: train_windows was None, is 3; repeat"):
        load(tmp_path, '{"train_windows": 3, "pairs": 2}')
    assert load(tmp_path, '{"pairs": 2, "algo": {"first_step": 0.3}}').climb.update == 0


def test_a_checkpoint_that_is_cut_off_or_no_numbers_is_one_message(tmp_path: Path):
    save(beginning(), tmp_path)
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
def test_a_checkpoint_whose_numbers_cannot_be_is_one_message(tmp_path, change, told):
    save(beginning(), tmp_path)
    with np.load(tmp_path / CHECKPOINT) as found:
        arrays = dict(found)
    np.savez(tmp_path / CHECKPOINT, **arrays | change)
    with pytest.raises(GpuYardError, match=f"cannot be read: .*{told}"):
        load(tmp_path, SETTING)


def test_a_round_of_minutes_is_saved_before_its_number_is_due(tmp_path, monkeypatch):
    monkeypatch.setattr("gpuyard.training.trainer.SAVE_EVERY_S", 0.0)
    found, saved = trainer(tmp_path, 2), []
    monkeypatch.setattr(found, "_tell", lambda *_: saved.append(load(tmp_path, SETTING)))
    found.run(QUIET)
    assert saved[0].climb.update == 1


def test_a_course_of_minutes_ends_with_them():
    budget = Budget(8, None, 2.0, 5, 4, (0,))
    assert [budget.progress(9, s) for s in (0.0, 60.0, 120.0, 500.0)] == [0.0, 0.5, 1.0, 1.0]
    both = Budget(8, 10, 2.0, 5, 4, (0,))
    assert both.progress(9, 60.0) == 0.9


@pytest.mark.parametrize("suspends", [False, True])
@pytest.mark.parametrize("units", [0, 3])
def test_a_vector_is_the_weights_and_back(units: int, suspends: bool):
    there = form(units, suspends)
    vector = np.random.default_rng(0).normal(size=there.size)
    weights = there.weights(vector)
    assert (weights.suspend is not None) == suspends
    if suspends:
        assert np.array_equal(weights.suspend, vector[LINEAR : there.linear])
    for each in (there, form_of(weights)):
        assert np.array_equal(each.vector(weights), vector)
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
