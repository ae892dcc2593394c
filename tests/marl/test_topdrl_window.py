"""Which jobs the slots show, by hand."""

import numpy as np

from marl.topdrl.codec import window
from tests.marl.topdrl_games import sight_of

QUEUED = np.array([3, 4, 7, 8, 9, 11])
WORTH = np.array([0.1, 0.9, 0.2, 0.9, 0.5, 0.3])


def test_the_best_come_first_then_the_oldest_that_are_left():
    shown = window(QUEUED, WORTH, sight_of(slots=4, oldest_slots=1))
    assert shown.tolist() == [4, 8, 9, 3]
    assert window(QUEUED, WORTH, sight_of(slots=4, oldest_slots=0)).tolist() == [4, 8, 9, 11]


def test_a_short_queue_is_shown_whole():
    assert window(QUEUED[:3], WORTH[:3], sight_of()).tolist() == [4, 7, 3]


def test_by_submission_the_oldest_are_shown():
    by_age = sight_of(order="submission")
    assert window(QUEUED, WORTH, by_age).tolist() == [3, 4, 7, 8]
