"""The table of features and the layer of a score: documented, as numpy evaluates, refusals."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from sim.errors import GpuYardError
from sim.report.job_times import mean_jct_s
from sim.scoring import table
from sim.scoring.linear_score import LinearScore, unlogged
from sim.scoring.scores import score_of, scoring_on
from sim.scoring.scratch import Mind, scratch_of
from sim.scoring.weights import (
    FORWARD_FEATURES,
    START_FEATURES,
    Layer,
    ScoreWeights,
    no_layer,
    score_weights_of,
    units_of,
)
from sim.view import Signal
from tests.sim.worlds import Job, cluster, fates, play, world

STARTS, FORWARDS = len(START_FEATURES), len(FORWARD_FEATURES)


def drawn(units: int, features: int, seed: int = 0) -> Layer:
    rng = np.random.default_rng(seed)
    return Layer(
        mean=rng.normal(size=features), scale=rng.uniform(0.2, 3.0, size=features),
        inner=rng.normal(size=(units, features)), bias=rng.normal(size=units),
        outer=rng.normal(size=units),
    )  # fmt: skip


def scheduler(weights: ScoreWeights, path: Path | None = None) -> LinearScore:
    return LinearScore(
        window=16, patience_s=1e9, use_durations=True, rest_share=0.0,
        weights=weights.as_mapping(), weights_file=None if path is None else str(path),
    )  # fmt: skip


@pytest.mark.parametrize(("units", "features"), [(16, STARTS), (8, FORWARDS), (1, 3)])
def test_compiled_code_scores_as_numpy_does(units: int, features: int):
    layer, rng = drawn(units, features), np.random.default_rng(1)
    weights, compiled = rng.normal(size=features), units_of(layer, features, "start")
    for _ in range(50):
        x = rng.normal(size=features) * (rng.random(features) < 0.7)
        hidden = np.tanh(layer.inner @ ((x - layer.mean) / layer.scale) + layer.bias)
        wanted = weights @ x + layer.outer @ hidden
        assert score_of(x, weights, compiled) == pytest.approx(wanted, rel=1e-12, abs=1e-12)


def test_without_units_the_score_is_the_sum_to_the_last_bit():
    rng = np.random.default_rng(2)
    weights, none = rng.normal(size=STARTS), units_of(no_layer(STARTS), STARTS, "start")
    for _ in range(50):
        x = rng.normal(size=STARTS)
        total = 0.0
        for feature, weight in zip(x.tolist(), weights.tolist(), strict=True):
            total += feature * weight
        assert score_of(x, weights, none) == total


def test_a_layer_decides_in_runs_step_by_step_and_compiled():
    # The linear part says wait to everything; the layer's unit says start, whatever the features.
    layer = Layer(np.zeros(STARTS), np.ones(STARTS), np.zeros((1, STARTS)), np.ones(1), np.ones(1))
    zero = ScoreWeights(np.zeros(STARTS), np.zeros(FORWARDS))
    bent = ScoreWeights(np.zeros(STARTS), np.zeros(FORWARDS), start_layer=layer)
    jobs, topology = [Job(0, 1, 100), Job(0, 1, 100)], cluster(1, 2)
    ends = {}
    for name, weights in (("zero", zero), ("bent", bent)):
        log = play(world(jobs, topology), scheduler(weights)).log
        ends[name] = float(log.time_s.max())
        run = unlogged(world(jobs, topology), scheduler(zero).weighing(weights))
        assert mean_jct_s(run) == {"zero": 150.0, "bent": 100.0}[name]
    assert ends == {"zero": 200.0, "bent": 100.0}  # one after the other, or side by side


def test_who_gives_up_is_in_no_mean_of_a_run_without_a_log():
    """Two jobs one after the other, done at 100 and 200; the third is given up at 30."""
    ends = fates(np.inf, np.inf, 30.0)
    yard = [world([Job(0, 1, 100)] * 3, cluster(1, 1), traits=ends) for _ in range(2)]
    score = scheduler(ScoreWeights(np.zeros(STARTS), np.zeros(FORWARDS)))
    assert mean_jct_s(play(yard[0], score)) == mean_jct_s(unlogged(yard[1], score)) == 150.0


def test_weights_with_layers_go_through_a_file(tmp_path: Path):
    rng = np.random.default_rng(3)
    weights = ScoreWeights(
        rng.normal(size=STARTS), rng.normal(size=FORWARDS), drawn(16, STARTS), drawn(8, FORWARDS)
    )
    path = tmp_path / "bent.yaml"
    path.write_text(yaml.safe_dump(weights.as_mapping()))
    found = scheduler(ScoreWeights(np.zeros(STARTS), np.zeros(FORWARDS)), path)
    assert found.weights == weights.as_mapping()


def test_a_layer_that_reads_what_looks_ahead_looks_ahead():
    plain, inner = np.zeros(STARTS), np.zeros((1, STARTS))
    inner[0, START_FEATURES.index("prolongs")] = 1.0
    layer = Layer(plain, np.ones(STARTS), inner, np.zeros(1), np.zeros(1))
    assert ScoreWeights(plain, np.zeros(FORWARDS), start_layer=layer).looks_ahead()
    assert not ScoreWeights(plain, np.zeros(FORWARDS)).looks_ahead()


def spoilt(part: str, value: Any) -> dict[str, Any]:
    layers = {"start": drawn(4, STARTS).as_lists() | {part: value}}
    plain = ScoreWeights(np.zeros(STARTS), np.zeros(FORWARDS)).as_mapping()
    return plain | {"layers": layers}


@pytest.mark.parametrize(
    ("part", "value", "told"),
    [
        ("outer", [1.0] * 3, r"mine\.yaml\.layers\.start\.outer has length 3; expected 4"),
        ("mean", [1.0], rf"mine\.yaml\.layers\.start\.mean has length 1; expected {STARTS}"),
        ("inner", [[1.0] * STARTS] * 5, r"start\.inner has length 5; expected 4"),
        ("inner", [[1.0] * 99] * 4, rf"start\.inner\[0\] has length 99; expected {STARTS}"),
        ("scale", [0.0] * STARTS, r"start\.scale has 0\.0; it must be above 0"),
        ("outer", [1.0, 2.0, 3.0, float("nan")], r"start\.outer has nan"),
        ("other", [], r"start has .*'other'"),
        ("bias", 3, r"start\.bias is 3|start\.inner has length 4; expected 0"),
    ],
)
def test_a_layer_that_does_not_fit_is_refused_by_the_name_of_its_file(part, value, told):
    with pytest.raises(GpuYardError, match=told):
        score_weights_of(spoilt(part, value), "mine.yaml")


def test_weights_that_are_no_section_are_refused():
    with pytest.raises(GpuYardError, match=r"policy\.prior is None; it must hold start, forward"):
        score_weights_of(None, "policy.prior")


def test_a_file_of_before_a_feature_was_there_scores_as_it_did():
    layer, rng = drawn(4, STARTS), np.random.default_rng(1)
    told = ScoreWeights(rng.normal(size=STARTS), np.zeros(FORWARDS), start_layer=layer).as_mapping()
    del told["start"]["holds_up"]
    lists = told["layers"]["start"]
    lists |= {"mean": lists["mean"][:-1], "scale": lists["scale"][:-1]}
    lists["inner"] = [row[:-1] for row in lists["inner"]]
    found, x = score_weights_of(told, "mine.yaml"), rng.normal(size=STARTS)
    units = units_of(found.start_layer, STARTS, "start")
    scores = {score_of(np.append(x[:-1], last), found.start, units) for last in (0.0, 1.0, -7.0)}
    before = units_of(Layer(**{part: np.array(lists[part]) for part in lists}), STARTS - 1, "start")
    assert scores == {score_of(x[:-1], found.start[:-1], before)}


def test_compiled_code_gets_no_layer_that_does_not_fit():
    for layer in (
        drawn(4, 3),
        Layer(*[np.zeros(2)] * 2, np.zeros((4, 2)), np.zeros(3), np.zeros(4)),
    ):
        with pytest.raises(GpuYardError, match="the layer of start has"):
            units_of(layer, 2, "start")


START_WEIGHTS, FORWARD_WEIGHTS = len(table.StartWeight), len(table.ForwardWeight)
DOC = Path(__file__).resolve().parents[2] / "docs" / "agents.md"


def test_a_column_is_its_place_in_its_group():
    for group in table.Column.__subclasses__():
        assert [int(each) for each in group] == list(range(len(group)))
        assert all(each.means for each in group)
    assert np.arange(13.0)[table.OfPair.HOLDS_UP] == 12.0


def test_the_docs_tell_the_width_of_every_array_of_an_observation():
    text = DOC.read_text(encoding="utf-8")
    told = {name: int(width) for name, width in re.findall(r"`(\w+)` \([^)]*?(\d+),?\)", text)}
    arrays = {
        "jobs": table.OfJob, "pairs": table.OfPair, "gpus": table.OfGpu,
        "servers": table.OfServer, "peers": table.OfPeer, "forwards": table.OfForward,
        "suspensions": table.OfSuspension, "context": table.OfContext,
        "link_edges": table.OfEdge, "server_links": table.OfLinks,
    }  # fmt: skip
    assert {name: told.get(name) for name in arrays} == {n: len(c) for n, c in arrays.items()}


def test_weights_that_take_a_column_over_have_its_name_and_meaning():
    for weight, column in (*table.START_OF_PAIR, *table.FORWARD_OF_ROW, *table.SUSPEND_OF_ROW):
        assert (weight.name, weight.means) == (column.name, column.means)
    assert len(table.START_OF_PAIR) >= 7 and len(table.FORWARD_OF_ROW) >= 6
    assert len(table.SUSPEND_OF_ROW) == len(table.OfSuspension) - 1  # all but `legal`


@pytest.mark.parametrize(
    ("start", "forward", "told"),
    [
        (START_WEIGHTS - 1, FORWARD_WEIGHTS, "of start have shape"),
        (START_WEIGHTS, FORWARD_WEIGHTS + 1, "of forward have"),
    ],
)
def test_a_plan_takes_a_weight_for_each_feature_and_no_more(start: int, forward: int, told: str):
    views = world([Job(0, 1, 10)], cluster(1, 1)).views(Signal.PROFILE | Signal.INTERFERENCE)
    mind = Mind(window=4, patience_s=1e9, use_durations=False, rest_share=0.0, look_ahead=False)
    scratch = scratch_of(views.view(), mind)
    with pytest.raises(GpuYardError, match=told):
        scoring_on(scratch, ScoreWeights(np.zeros(start), np.zeros(forward)))
