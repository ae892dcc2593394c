"""The agents, with weights set by hand: any start before any forward before *wait*.

All weights are 0 but three biases, so ties go to the lowest action: the job with the shortest
prediction, then the lowest server.
"""

from pathlib import Path

import pytest
import torch

from marl.env.layout import CodecRules
from marl.policy.build import PolicySpec, build_policy, save_policy
from marl.schedulers.marl import MarlScheduler
from sim.engine.composed import PartitionedScheduler
from sim.forwarding import OwnOnly
from sim.placers.by_room import Consolidated
from sim.schedulers.orders import Sjf
from sim.sharing import NoSharing
from tests.sim.worlds import Job, chart, charted, cluster, play, world

# All arrive at partition 0.
TRACE = [Job(0, 1, 1000), Job(100, 1, 400), Job(200, 1, 600), Job(300, 1, 200)]


@pytest.fixture
def eager(tmp_path: Path) -> MarlScheduler:
    spec = PolicySpec(gpu_dim=2, hidden_dim=4, rounds=1, head_dim=4, prior_scale=0.0)
    policy = build_policy(spec)
    with torch.no_grad():
        for weights in policy.parameters():
            weights.zero_()
        policy.start.score.bias.fill_(2.0)
        policy.forward_to.score.bias.fill_(1.0)
    rules = CodecRules(window=4, only_placeable=True, sharing=True, patience_s=1e9)
    save_policy(tmp_path, policy, spec, rules)
    return MarlScheduler(checkpoint=str(tmp_path))


COMPACT = Sjf(placer=Consolidated(), sharing=NoSharing(), skip_blocked=True)


def test_a_waiting_job_is_forwarded_to_where_it_fits_the_shortest_first(eager):
    # A runs at home; B is forwarded and starts at once. C and D wait at home until 500: D is
    # shorter, so it goes, C at 700.
    run = play(world(TRACE, cluster(2, 1), partitions=2), eager)
    assert chart(run, 100.0) == "Aaaaaaaaaa .BbbbDdCccccc"
    assert run.forwards.tolist() == [0, 1, 1, 1]
    assert run.scheduler == "marl"
    # Its order without forwarding: shortest first at home, GPU 1 idles.
    alone = PartitionedScheduler(child=COMPACT, forwarding=OwnOnly())
    found = charted(TRACE, cluster(2, 1), alone, partitions=2, column_s=100.0)
    assert found == "AaaaaaaaaaDdBbbbCccccc"


def test_jobs_of_less_than_a_minute_go_as_they_came(eager):
    # D is shorter than C, but not told apart: C goes at 5, D finds room at home at 10.
    trace = [Job(0, 1, 10), Job(1, 1, 4), Job(2, 1, 6), Job(3, 1, 2)]
    assert charted(trace, cluster(2, 1), eager, partitions=2) == "AaaaaaaaaaDd .BbbbCccccc"


def test_a_gang_is_filled_outwards_from_the_chosen_server(eager):
    # Two servers of two GPUs. A holds GPU 0. The lowest action starts B from server 0: GPU 1 there,
    # then the nearest other. A compact placement would be GPUs 2 and 3.
    trace = [Job(0, 1, 10), Job(1, 2, 5)]
    assert charted(trace, cluster(2, 2), eager) == "Aaaaaaaaaa .Bbbbb*2"
    assert charted(trace, cluster(2, 2), COMPACT) == "Aaaaaaaaaa . .Bbbbb*2"


def test_with_room_for_two_it_shares_rather_than_forwards(eager):
    # Both fit on GPU 0; without physics sharing costs nothing.
    trace = [Job(0, 1, 10), Job(1, 1, 4)]
    found = charted(trace, cluster(2, 1), eager, partitions=2, max_tenants=2)
    assert found == "Aaaaaaaaaa+.Bbbb"
