"""Whatever the table of features names is filled."""

from dataclasses import replace

import numpy as np

from sim.scoring.table import OfContext, OfForward, OfGpu, OfJob, OfPair, OfPeer, OfServer
from tests.marl.playing import play
from tests.marl.worlds import RULES, RandomJobs, mixed_world

GROUPS = {
    "jobs": OfJob, "pairs": OfPair, "gpus": OfGpu, "servers": OfServer, "peers": OfPeer,
    "forwards": OfForward, "context": OfContext,
}  # fmt: skip


def test_every_column_of_an_observation_differs_somewhere():
    low: dict[str, np.ndarray] = {}
    high: dict[str, np.ndarray] = {}
    jobs = RandomJobs(count=60, partitions=2, most_gpus=6, span_s=2000.0)(1)
    for now in play(mixed_world(2, [1, 3, 2]), jobs, replace(RULES, patience_s=300.0), 1):
        for seen in now.seen.values():
            for key, group in GROUPS.items():
                rows = seen[key].reshape(-1, len(group))
                low[key] = np.minimum(low.get(key, np.inf), rows.min(axis=0))
                high[key] = np.maximum(high.get(key, -np.inf), rows.max(axis=0))
    for key, group in GROUPS.items():
        same = {each for each in group if low[key][each] == high[key][each]}
        # There are two partitions throughout.
        assert same <= {OfContext.PARTITIONS, OfPeer.THERE}, key
        assert all(high[key][each] > 0 for each in group), key
