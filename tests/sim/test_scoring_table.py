"""The table of features: documented, taken over by name, and one weight for each."""

import re
from pathlib import Path

import numpy as np
import pytest

from sim.errors import GpuYardError
from sim.scoring.scores import scoring_on
from sim.scoring.scratch import Mind, scratch_of
from sim.scoring.table import (
    FORWARD_OF_ROW,
    START_OF_PAIR,
    SUSPEND_OF_ROW,
    Column,
    ForwardWeight,
    OfContext,
    OfEdge,
    OfForward,
    OfGpu,
    OfJob,
    OfLinks,
    OfPair,
    OfPeer,
    OfServer,
    OfSuspension,
    StartWeight,
)
from sim.scoring.weights import ScoreWeights
from sim.view import Signal
from tests.sim.worlds import Job, cluster, world

STARTS, FORWARDS = len(StartWeight), len(ForwardWeight)
DOC = Path(__file__).resolve().parents[2] / "docs" / "agents.md"


def test_a_column_is_its_place_in_its_group():
    for group in Column.__subclasses__():
        assert [int(each) for each in group] == list(range(len(group)))
        assert all(each.means for each in group)
    assert np.arange(13.0)[OfPair.HOLDS_UP] == 12.0


def test_the_docs_tell_the_width_of_every_array_of_an_observation():
    text = DOC.read_text(encoding="utf-8")
    told = {name: int(width) for name, width in re.findall(r"`(\w+)` \([^)]*?(\d+),?\)", text)}
    arrays = {
        "jobs": OfJob, "pairs": OfPair, "gpus": OfGpu, "servers": OfServer, "peers": OfPeer,
        "forwards": OfForward, "suspensions": OfSuspension, "context": OfContext,
        "link_edges": OfEdge, "server_links": OfLinks,
    }  # fmt: skip
    assert {name: told.get(name) for name in arrays} == {n: len(c) for n, c in arrays.items()}


def test_weights_that_take_a_column_over_have_its_name_and_meaning():
    for weight, column in (*START_OF_PAIR, *FORWARD_OF_ROW, *SUSPEND_OF_ROW):
        assert (weight.name, weight.means) == (column.name, column.means)
    assert len(START_OF_PAIR) >= 7 and len(FORWARD_OF_ROW) >= 6
    assert len(SUSPEND_OF_ROW) == len(OfSuspension) - 1  # all but `legal`


@pytest.mark.parametrize(
    ("start", "forward", "told"),
    [(STARTS - 1, FORWARDS, "of start have shape"), (STARTS, FORWARDS + 1, "of forward have")],
)
def test_a_plan_takes_a_weight_for_each_feature_and_no_more(start: int, forward: int, told: str):
    views = world([Job(0, 1, 10)], cluster(1, 1)).views(Signal.PROFILE | Signal.INTERFERENCE)
    mind = Mind(window=4, patience_s=1e9, use_durations=False, rest_share=0.0, look_ahead=False)
    scratch = scratch_of(views.view(), mind)
    with pytest.raises(GpuYardError, match=told):
        scoring_on(scratch, ScoreWeights(np.zeros(start), np.zeros(forward)))
