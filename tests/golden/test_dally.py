"""Dally: leases, delay timers by tier, network-sensitive order."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import OmegaConf

from sim.jobs import ANY_TYPE
from sim.physics.physics import Physics
from sim.physics.shipped_files import NoInterference
from sim.placers.by_room import Consolidated, FirstFit, Skew
from sim.placers.tiers import Accepted, Patience, auto_patience, usual_leases
from sim.run import Kind, Run
from sim.schedulers.dally import Dally, TiresiasOnLeases
from sim.schedulers.orders import Las
from sim.sharing import NoSharing
from sim.simulator import Simulator, simulate
from sim.topology.outages import NO_OUTAGES
from sim.topology.topology import contiguous_partitions
from sim.traces.estimators import NoEstimator
from sim.traces.setting import Setting
from tests.contract.compositions import CONF, made
from tests.sim.worlds import (
    Attempt,
    Job,
    attempts,
    chart,
    charted,
    cluster,
    demands,
    fifo,
    parts,
    physics_of,
    play,
    rules_of,
    world,
)


def dally(timers: str = "manual", ideal: str = "compact", **given: float) -> Dally:
    """Leases of 10 s; a rack will do after 2 of them, anything after 4."""
    plain = {"lease_s": 10.0, "rack_leases": 2.0, "network_leases": 4.0, "history_leases": 20.0}
    return Dally(timers=timers, ideal=ideal, **{**plain, **given})


def stays(run: Run) -> dict[str, list[Attempt]]:
    """The attempts, those that renewed leases have cut joined again."""
    joined: dict[str, list[Attempt]] = {}
    for job, each in attempts(run.log).items():
        found = joined.setdefault(job, [])
        for stay in each:
            if found and (found[-1].end_s, found[-1].gpus) == (stay.start_s, stay.gpus):
                stay = Attempt(found.pop().start_s, stay.end_s, stay.gpus)
            found.append(stay)
    return joined


# A and C hold one GPU of each server, B has left; the gang D wants two from 1 on.
APART = [Job(0, 1, 90), Job(0, 1, 0.5), Job(0, 1, 90), Job(1, 2, 5)]
LONG = {"lease_s": 100.0, "rack_leases": 0.2, "network_leases": 0.4}  # 20 s and 40 s
ALONE = {"sharing": NoSharing()}


@pytest.mark.parametrize(
    ("scheduler", "per_rack", "a_s", "stay"),
    [
        (dally(**LONG), 8, 90, (21, 26, (1, 3))),  # it holds out for a machine, then takes a rack
        (dally(**LONG), 8, 9, (9, 14, (0, 1))),  # a machine comes free when A leaves
        (dally(**LONG), 1, 90, (41, 46, (1, 3))),  # between racks the second timer counts
        (dally("no_wait", **LONG), 1, 90, (1, 6, (1, 3))),
        (dally("consolidated", **LONG), 1, 90, (90, 95, (0, 1))),  # it waits for ever
        (fifo(Consolidated()), 8, 90, (90, 95, (0, 1))),
        (Las(placer=FirstFit(), quantum_gpu_s=1000.0, **ALONE), 8, 90, (1, 6, (1, 3))),
    ],
)
def test_a_gang_holds_out_as_long_as_its_timers_say(scheduler, per_rack, a_s, stay):
    jobs = [Job(0, 1, a_s), *APART[1:]]
    run = play(world(jobs, cluster(2, 2, servers_per_rack=per_rack)), scheduler)
    assert stays(run) == {
        "A": [(0, a_s, (0,))], "B": [(0, 0.5, (1,))], "C": [(0, 90, (2,))], "D": [stay],
    }  # fmt: skip


# Leases of 10 s that end at different times:
#            0    5  7 8  10      15      20
# GPU 0      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA...  leases from 0
# GPU 1      BBBBBB.EEEEEEEEEEEEEEEEEEEEEEEEE...  E's from 7
# GPU 2      BBBBBB.......CCCCCCCCCCCCCCCCCCC...  C moves to the first machine at 10
# GPU 3      BBBBBB...............DDDDDDDDDDD...  and D at 15
# GPU 4      CCCCCCCCCCCCC........FFFFFFF.......  F, 4 GPUs, waits from 8 on
# GPU 5      .....DDDDDDDDDDDDDDDDFFFFFFF.......
# GPU 6, 7   .....................FFFFFFF.......
def test_leases_that_end_one_by_one_leave_a_machine_to_a_gang():
    long_s = 500.0
    jobs = [Job(0, 1, long_s), Job(0, 3, 6), Job(0, 1, long_s), Job(5, 1, long_s),
            Job(7, 1, long_s), Job(8, 4, 5)]  # fmt: skip
    found = stays(play(world(jobs, cluster(2, 4)), dally()))
    assert found["C"] == [(0, 10, (4,)), (10, 500, (2,))]
    assert found["D"] == [(5, 15, (5,)), (15, 505, (3,))]
    assert found["F"] == [(15, 20, (4, 5, 6, 7))]


# Three servers of 8 that stay cut up: of 6 gangs of 3 none fits in the 2 GPUs that another server
# has left, and when the lease of one ends its server has room for 5. J, 6 GPUs, waits from 8 on.
#                0   4 5      10
# GPU 0 .. 2     AAAAAAAAAAAAAAAA...  leases from 0; C and E so on the other servers
# GPU 3 .. 5     BBBBB.GGGGGGGGGG...  G's from 5; H and I so there
# GPU 6, 7       BBBBB..............
SPREAD = (6, 7, 14, 15, 22, 23)


def cut_up(work_s: float) -> list[Job]:
    """Rows A to I hold what is held; J is the gang that waits."""
    long_s = 500.0
    pairs = [Job(0, 3, long_s), Job(0, 5, 4)] * 3
    return [*pairs, *[Job(5, 3, long_s)] * 3, Job(8, 6, work_s)]


def test_auto_begins_at_6_and_12_leases():
    for per_rack, start_s in ((3, 68), (1, 128)):
        topology = cluster(3, 8, servers_per_rack=per_rack)
        run = play(world(cut_up(5.0), topology), dally("auto"))
        assert stays(run)["J"] == [(start_s, start_s + 5, SPREAD)]


@pytest.mark.parametrize(("rack_leases", "network_leases", "told"), [(2, 4, [2.0]), (6, 2, [])])
def test_a_rack_taken_as_any_gpus_is_no_wait_for_a_rack(
    monkeypatch: pytest.MonkeyPatch, rack_leases: float, network_leases: float, told: list[float]
):
    scheduler = dally()
    stands = Patience(rack_leases, network_leases)  # timers that are learned may so stand
    monkeypatch.setattr(scheduler.timers, "patience", lambda *_: stands)
    run = play(world(cut_up(5.0), cluster(3, 8)), scheduler)
    assert stays(run)["J"] == [(28, 33, SPREAD)]
    assert list(scheduler.timers.rack.waits(6)) == told


def test_a_spread_gang_tries_for_a_machine_after_every_lease():
    # It accepts the rack 20 s after it came, 28, and has a lease of 10 s; it accepts the same GPUs
    # again 20 s after that assignment, 48, not when the lease ends; work of 25 s takes three.
    run = play(world(cut_up(25.0), cluster(3, 8)), dally())
    assert stays(run)["J"] == [(28, 38, SPREAD), (48, 58, SPREAD), (68, 73, SPREAD)]


def test_who_was_hurt_most_chooses_first_when_leases_end():
    # Servers of 3 GPUs, a step takes 1 s on one server and 2 s on two. C finds only GPUs 2 and 5
    # and does half the work: at 10 it has done 5, A and B 10. It takes server 0, A server 1, and B
    # what is left: with half of its 5 s left to do a second it ends at 20.
    topology = cluster(2, 3)
    physics = physics_of(topology, server_s=(0.0, 0.0, 1.0))
    jobs = [Job(0, 2, 15), Job(0, 2, 15), Job(0, 2, 10)]
    assert charted(jobs, topology, dally("no_wait"), physics=physics) == (
        "AaaaaaaaaaCcccc*2 CcccccccccBbbbbbbbbb BbbbbbbbbbAaaaa*2 CcccccccccBbbbbbbbbb"
    )


def test_without_a_network_as_the_ideal_who_communicates_always_goes_first():
    # Two GPUs; a step of the gang A is half communication there, B and C have none. All are new
    # once; at 20 A was assigned first. At 30 A has never been spread: beside the most compact
    # placement it lost nothing and it is the others' turn; without a network half, and it goes on.
    #          0         10        20        30   35   40
    # compact     AAAAAAAAAABBBBBBBBBBAAAAAAAAAABBBBBAAAAA    GPU 0; C on GPU 1
    # no_network  AAAAAAAAAABBBBBBBBBBAAAAAAAAAAAAAAABBBBB
    topology = cluster(1, 2)
    plain = physics_of(topology)
    talks = np.array([[0.0, 0.0, 1.0]])  # (P, members + 1) s
    physics = replace(plain, network=replace(plain.network, local_s=talks))
    jobs = [Job(0, 2, 25), Job(0, 1, 15), Job(0, 1, 15)]
    for ideal, end_s in (("compact", [40, 35, 35]), ("no_network", [35, 40, 40])):
        run = play(world(jobs, topology, physics=physics), dally("no_wait", ideal=ideal))
        assert run.finish_s.tolist() == end_s


def test_gangs_above_a_machine_or_a_rack_do_not_wait_for_what_cannot_be():
    yard = [Job(0, 4, 5), Job(0, 8, 5)], cluster(4, 2, servers_per_rack=2)
    assert charted(*yard, dally()) == "AaaaaBbbbb*4 .....Bbbbb*4"


def test_the_history_holds_waits_of_a_lease_or_more():
    # B is new and takes the GPU when A's lease ends, after 1 lease; A has it back at 15, 1.5
    # leases after it was last given it. Mean 1.25, deviation 0.25: 1.75, rounded up 2.
    scheduler = dally("auto")
    found = charted([Job(0, 1, 20), Job(0, 1, 5)], cluster(1, 1), scheduler)
    assert found == "AaaaaaaaaaBbbbbAaaaaaaaaa"
    assert scheduler.timers.machine.usual_leases(1, 25.0) == 2
    assert scheduler.timers.rack.usual_leases(1, 25.0) == 1
    scheduler.reset(0)
    assert scheduler.timers.machine.usual_leases(1, 25.0) == 1


@pytest.mark.parametrize(
    ("machine", "rack", "patience"),
    [
        ([], [], (6, 12)),  # nothing known: 1, below the least
        ([2.0, 4.0], [5.0, 9.0], (6, 12)),  # 3 + 2 x 1 = 5; 7 + 2 x 2 = 11
        ([4.0, 10.0], [9.0, 13.2], (13, 16)),  # 7 + 2 x 3; 11.1 + 2 x 2.1 = 15.3
        ([10.0, 20.0], [20.0, 24.0], (20, 24)),  # 25 above 0.8 x 24 = 19.2, up 20; 26 above 24
    ],
)
def test_timers_by_hand(machine: list[float], rack: list[float], patience: tuple[int, int]):
    assert auto_patience(usual_leases(machine), usual_leases(rack), 24.0) == patience


def test_a_renewed_lease_counts_as_a_wait_of_one():
    # It bids like any other, and was last assigned a lease ago: 1 thrice, deviation 0.
    scheduler = dally("auto")
    play(world([Job(0, 1, 35)], cluster(1, 1)), scheduler)
    assert list(scheduler.timers.machine.waits(1)) == [1.0, 1.0, 1.0]


def test_old_entries_are_forgotten():
    accepted = Accepted(history_s=100.0)
    accepted.record(4, 0.0, 9.0)
    accepted.record(4, 50.0, 5.0)
    accepted.record(4, 60.0, 0.99)  # less than a lease
    accepted.record(8, 60.0, 30.0)  # another demand
    assert [accepted.usual_leases(4, now_s) for now_s in (60.0, 100.0, 101.0, 151.0)] == [
        11, 11, 5, 1,
    ]  # fmt: skip


def test_parts_of_gpus_share_one_and_leave_whole_gpus():
    # A and B need 0.6 and 0.3 of a GPU; on one each C would wait for the end of their leases.
    traits = parts(600, 300, 1000)
    found = charted([Job(0, 1, 10)] * 3, cluster(1, 2), dally(), traits=traits, max_tenants=4)
    assert found == "Aaaaaaaaaa+Bbbbbbbbbb Cccccccccc"


def test_a_lease_that_ends_is_renewed_at_no_cost():
    run = play(world([Job(0, 2, 25)], cluster(1, 2), restart_s=60.0), dally())
    assert chart(run) == "AaaaaaaaaaAaaaaaaaaaAaaaa*2"
    assert (run.log.kind == Kind.EXPIRE).sum() == 2
    assert run.restarts.tolist() == [0]


SEEDS = range(3)
CONSOLIDATION = ("scheduler=fifo", "scheduler.skip_blocked=true", "placer=consolidated")


@pytest.fixture(scope="module")
def worlds() -> list[dict[str, Any]]:
    """Arguments of `Simulator`: 100 jobs of the published batch on 32 GPUs, congested, by seed."""
    small = ["topology.servers=4", "topology.servers_per_rack=2", "workload.max_gang=16"]
    jobs = ["workload.num_jobs=100", "workload.max_duration_s=40000"]
    overrides = ["experiment=dally_batch", "topology=dally_2x4", *small, *jobs]
    with initialize_config_dir(str(CONF), version_base=None):
        config = compose(config_name="evaluate", overrides=overrides)
    OmegaConf.resolve(config)
    topology, catalogue, network, workload = (
        instantiate(config[key], _convert_="all")
        for key in ("topology", "profiles", "network", "workload")
    )
    physics = Physics(
        catalogue=catalogue, pairs=NoInterference().pair_table(catalogue),
        network=network.tables(catalogue, topology), reference_gpu="v100",
    )  # fmt: skip
    setting = Setting(gpus=32, partitions=1, skew=0.0, catalogue=catalogue, estimator=NoEstimator())
    fixed = {
        "topology": topology, "physics": physics, "belief": physics, "outages": NO_OUTAGES,
        "partition_of_server": contiguous_partitions(topology, 1),
        "rules": rules_of(restart_s_per_gpu=1.0),
    }  # fmt: skip
    return [
        {**fixed, "jobs": workload.window(part="test", index=seed, setting=setting, seed=0)}
        for seed in SEEDS
    ]


def runs(worlds: list[dict[str, Any]], *overrides: str) -> list[Run]:
    scheduler = made(*overrides)
    return [simulate(Simulator(**each), scheduler, 0, None) for each in worlds]


@pytest.mark.parametrize("ideal", ["no_network", "compact"])  # as published, and ours
def test_dally_ends_no_later_than_consolidation_and_communicates_less_than_without_waiting(
    worlds: list[dict[str, Any]], ideal: str
):
    words = ("scheduler=dally", f"scheduler.ideal={ideal}")
    dally = runs(worlds, *words)
    waits = runs(worlds, *CONSOLIDATION)
    hasty = runs(worlds, *words, "scheduler.timers=no_wait")
    end_s, other_s = ([run.finish_s.max() for run in each] for each in (dally, waits))
    assert np.mean(end_s) <= np.mean(other_s)
    comm_s, hasty_s = ([run.comm_s.sum() for run in each] for each in (dally, hasty))
    assert np.mean(comm_s) < np.mean(hasty_s)


# A wants both GPUs, B and C one each, from 1 on; leases of 10 s.
#           0        10        20        30        40        50
# Tiresias  AAAAAAAAABCBCBCBCBCBCBCBCBCBCBCAAAAAAAAAAAAAAAAAAAA   at 20 A has attained 20, they 10
# Dally     AAAAAAAAABCBCBCBCBCAAAAAAAAAABCBCBCBCBCAAAAAAAAAA   nobody was slowed: A waits longest
def test_tiresias_on_leases_serves_who_has_attained_least():
    jobs = [Job(0, 2, 30), Job(1, 1, 20), Job(1, 1, 20)]
    leased = TiresiasOnLeases(lease_s=10.0, placer=Skew(models=()))
    found = stays(play(world(jobs, cluster(1, 2)), leased))
    assert found["A"] == [(0, 10, (0, 1)), (30, 50, (0, 1))]
    assert found["B"] == [(10, 30, (0,))] and found["C"] == [(10, 30, (1,))]
    assert stays(play(world(jobs, cluster(1, 2)), dally()))["B"] == [(10, 20, (0,)), (30, 40, (0,))]
    las = Las(placer=FirstFit(), quantum_gpu_s=100.0, **ALONE)  # without leases nobody gives way
    assert stays(play(world(jobs, cluster(1, 2)), las))["B"] == [(30, 50, (0,))]


@pytest.mark.parametrize(("models", "stay"), [(("vgg",), (9, 14, (0, 1))), ((), (1, 6, (1, 3)))])
def test_skewed_gangs_wait_for_a_machine_and_others_do_not(models, stay):
    topology = cluster(2, 2)
    plain = physics_of(topology)
    named = replace(plain, catalogue=replace(plain.catalogue, names=("vgg11/256",)))
    jobs = [Job(0, 1, 9), Job(0, 1, 0.5), Job(0, 1, 9.5), Job(1, 2, 5)]
    scheduler = TiresiasOnLeases(lease_s=100.0, placer=Skew(models=models))
    assert stays(play(world(jobs, topology, physics=named), scheduler))["D"] == [stay]


def test_a_lease_is_renewed_where_cores_are_short_and_the_first_gpus_are_empty():
    # Cores for B's two workers alone. At 10 its lease ends; GPUs 0 and 1 are empty since 4.
    topology = replace(cluster(1, 4), server_cpu_milli=np.array([4000]))
    traits = demands((1000, 0, 0, ANY_TYPE), (1000, 2000, 0, ANY_TYPE))
    yard = world([Job(0, 2, 4), Job(0, 2, 15)], topology, traits=traits, restart_s=1.0)
    run = play(yard, dally())
    assert [each.gpus for each in attempts(run.log)["B"]] == [(2, 3), (2, 3)]
    assert run.finish_s.tolist() == [4.0, 15.0]
