"""Whether two runs are one and the same, to the last digit."""

from dataclasses import fields

import numpy as np

from sim.run import Run

COST = {"decisions", "decision_s", "loop_wall_s", "log"}  # what deciding cost, and nothing else


def assert_same(one: Run, other: Run) -> None:
    """The same events, byte for byte, and the same outcome of every job."""
    for key in ("time_s", "kind", "job", "partition"):
        assert getattr(one.log, key).tobytes() == getattr(other.log, key).tobytes(), key
    assert one.log.gpus.first.tobytes() == other.log.gpus.first.tobytes()
    assert one.log.gpus.ids.tobytes() == other.log.gpus.ids.tobytes()
    for each in fields(Run):
        mine, theirs = getattr(one, each.name), getattr(other, each.name)
        if isinstance(mine, np.ndarray) and each.name not in COST:
            np.testing.assert_array_equal(mine, theirs, each.name)
