"""Whether two runs are one and the same, to the last digit."""

from dataclasses import fields

import numpy as np

from sim.run import Run

COST = {"decisions", "decision_s", "loop_wall_s", "log"}  # what deciding cost, and nothing else


def assert_same(one: Run, other: Run) -> None:
    """The same events, and the same outcome of every job."""
    for key in ("time_s", "kind", "job", "partition"):
        np.testing.assert_array_equal(getattr(one.log, key), getattr(other.log, key), key)
    np.testing.assert_array_equal(one.log.gpus.first, other.log.gpus.first)
    np.testing.assert_array_equal(one.log.gpus.ids, other.log.gpus.ids)
    for each in fields(Run):
        mine, theirs = getattr(one, each.name), getattr(other, each.name)
        if isinstance(mine, np.ndarray) and each.name not in COST:
            np.testing.assert_array_equal(mine, theirs, each.name)
