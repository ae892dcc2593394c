"""Placers that judge the job or what it sends: heavy edge, LWF, skew, delay, compact wait."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sim.engine.composed import PartitionedScheduler
from sim.errors import SignalError
from sim.forwarding import OwnOnly
from sim.physics.heavy_edge import cut_bytes, edges_of, graph_of_job
from sim.physics.physics import Physics
from sim.physics.traffic import MIX
from sim.placers.by_job import CompactWait, HeavyEdge, Lwf
from sim.placers.by_room import (
    Consolidated,
    Delay,
    FirstFit,
    LeastInterference,
    LeastLoaded,
    Packed,
    Skew,
)
from sim.protocols import PatientPlacer, Placer
from sim.schedulers.orders import Srtf
from sim.sharing import AlwaysShare, NoSharing
from sim.simulator import Simulator
from sim.topology.outages import NO_OUTAGES
from sim.topology.topology import Topology
from sim.view import Signal
from tests.physics.network_worlds import GB, network_of, traffic_of
from tests.sim.placed import Held, answer, comm_physics
from tests.sim.worlds import (
    Job,
    charted,
    cluster,
    fifo,
    gantt,
    job_table,
    physics_of,
    play,
    rules_of,
    world,
)


def test_who_judges_the_job_and_not_its_gang_alone():
    judging = (CompactWait(most_slowdown=1.3), Delay(rack_wait_s=6, anywhere_wait_s=6))
    assert all(isinstance(placer, PatientPlacer) for placer in (*judging, Skew(models=["vgg"])))
    assert not isinstance(HeavyEdge(), PatientPlacer)


# --- Heavy edge -----------------------------------------------------------------------------

# Pairs of workers exchange a tensor of 10 Gb, 2 (2 - 1) / 2 of it over each hop: 1 s at a NIC's
# 10 Gbps. There is no other traffic.
PAIRS = {"pattern": MIX, "tensor_width": 2, "grad_bytes": 0.0, "tensor_bytes": 10 * GB}


def physics_with(topology: Topology, **traffic: float) -> Physics:
    return replace(physics_of(topology), links=network_of(topology, traffic_of(PAIRS | traffic)))


def test_heavy_edge_cuts_no_pair():
    # A holds one GPU of server 0; B is three pairs. Server 0 has three GPUs left, server 1 four.
    # Heavy edge: two pairs on server 1, one on 0. First fit: three workers on each, and the pair in
    # between talks over the NICs.
    topology = cluster(2, 4)
    yard = [Job(0, 1, 100), Job(1, 6, 10)], topology
    apart, beside = (
        gantt(play(world(*yard, physics=physics_with(topology)), fifo(placer)))["B"]
        for placer in (FirstFit(), HeavyEdge())
    )
    assert beside[2] == (1, 2, 4, 5, 6, 7)
    assert apart[2] == (1, 2, 3, 4, 5, 6)
    assert beside[:2] == pytest.approx((1, 11), abs=0.6)  # what pairs cost inside
    assert apart[1] > 18


def test_heavy_edge_s_gpus_stand_in_order_of_workers():
    # Two stages of two: worker 0 sends to 2 and 1 to 3, so 0 and 2 stay together.
    topology = cluster(2, 2)
    traffic = {"tensor_width": 1, "stages": 2, "tensor_bytes": 0.0, "activation_bytes": 9 * GB}
    physics = physics_with(topology, **traffic)
    gpus = answer(HeavyEdge(), 4, topology, physics=physics)
    assert gpus == (0, 2, 1, 3)
    graph = graph_of_job(physics, 0, 4)
    assert cut_bytes(edges_of(graph), topology.gpu_server[list(gpus)]) == 0.0
    assert cut_bytes(edges_of(graph), np.array([0, 0, 1, 1])) == 36 * GB


@pytest.mark.parametrize(
    ("gang", "gpus"), [(1, (8,)), (5, (8, 9, 10, 11, 6)), (7, (8, 9, 10, 11, 6, 7, 3)), (8, None)]
)
def test_heavy_edge_takes_as_few_servers_as_there_are_now_most_usable_first(gang, gpus):
    held = [Held((0, 1, 2)), Held((4, 5))]  # 1, 2 and 4 are left
    assert answer(HeavyEdge(), gang, cluster(3, 4), held) == gpus


# --- LWF-kappa: the GPUs, or servers, with least predicted work left ------------------------


@pytest.mark.parametrize(
    ("placer", "gang", "gpus"),
    [
        # Up to kappa the GPUs with least work anywhere.
        (Lwf(kappa=1), 1, (2,)),
        (Lwf(kappa=4), 3, (2, 5, 1)),
        (Lwf(kappa=4), 4, (2, 5, 1, 4)),
        # Above it servers, and their idlest GPUs first. Server 0 has 53 s, server 1 has 27 s; GPU 3
        # is full (two tenants). Three have room on server 0 alone; four have it nowhere.
        (Lwf(kappa=1), 2, (5, 4)),
        (Lwf(kappa=1), 3, (2, 1, 0)),
        (Lwf(kappa=1), 4, (5, 4, 2, 1)),
        (LeastLoaded(), 2, (2, 0)),  # it counts tenants, which says another thing
    ],
)
def test_lwf_goes_where_least_work_is_left(placer: Placer, gang: int, gpus: tuple[int, ...]):
    # At 1 GPU 0 has 49 s left, GPU 1 has 4 s, GPU 3 has 9 s and 9 s, GPU 4 has 9 s.
    held = [Held((0,), 50), Held((1,), 5), Held((3, 4), 10), Held((3,), 10)]
    assert answer(placer, gang, cluster(2, 3), held, shared=True) == gpus


@pytest.mark.parametrize(
    ("placer", "trace", "drawing"),
    [
        # C joins the job with 8 s left, not the one with 98 s.
        (Lwf(kappa=1), [Job(0, 1, 20), Job(0, 1, 10), Job(2, 1, 6)],
         "Aaaaaaaaaaaaaaaaaaaa Bbbbbbbbbb+..Cccccc"),
        (LeastLoaded(), [Job(0, 1, 20), Job(0, 1, 10), Job(2, 1, 6)],
         "Aaaaaaaaaaaaaaaaaaaa+..Cccccc Bbbbbbbbbb"),
        # Both start at 0: the second sees somebody on GPU 0, though the view does not show who.
        (Lwf(kappa=1), [Job(0, 1, 5), Job(0, 1, 5)], "Aaaaa Bbbbb"),
    ],
)  # fmt: skip
def test_in_runs_of_lwf_work_counts_and_not_tenants(placer, trace, drawing):
    found = charted(trace, cluster(1, 2), fifo(placer, AlwaysShare()), max_tenants=2)
    assert found == drawing


def test_lwf_needs_predictions():
    placer = Lwf(kappa=1)
    placer.needs = Signal.NONE
    with pytest.raises(SignalError, match="PREDICTION"):
        play(world([Job(0, 1, 5)], cluster(1, 2)), fifo(placer, AlwaysShare()))


# --- Skew: skewed models keep together, others take what there is ---------------------------

VGG, BERT = 0, 1  # rows of the catalogue


def models(topology: Topology) -> Physics:
    plain = physics_of(topology, slowdown=((1.0, 1.0), (1.0, 1.0)))
    return replace(plain, catalogue=replace(plain.catalogue, names=("VGG-11/256", "bert/256")))


WAITS, SPREADS = (50, 55, (0, 1)), (1, 6, (1, 3))


@pytest.mark.parametrize(
    ("placer", "profile", "stay"),
    [
        (Skew(models=("vgg",)), VGG, WAITS),
        (Skew(models=("vgg",)), BERT, SPREADS),
        (Consolidated(), VGG, WAITS),
        (Consolidated(), BERT, WAITS),
        (Skew(models=("Vgg",)), VGG, WAITS),  # names match by their beginning
        (Skew(models=("vgg-1",)), VGG, WAITS),
        (Skew(models=("gg",)), VGG, SPREADS),
        (Skew(models=()), VGG, SPREADS),
    ],
)
def test_a_skewed_model_waits_where_another_spreads(placer, profile, stay):
    # A leaves one GPU of server 0, C one of server 1; then D, a gang of two.
    topology = cluster(2, 2)
    jobs = [Job(0, 1, 50), Job(0, 1, 0.5), Job(0, 1, 60), Job(1, 2, 5, profile=profile)]
    run = play(world(jobs, topology, physics=models(topology)), fifo(placer))
    assert gantt(run)["D"] == stay


@pytest.mark.parametrize(("gang", "gpus"), [(4, (4, 5, 6, 7)), (5, (2, 3, 4, 5, 6))])
def test_a_skewed_gang_above_a_server_keeps_to_a_rack_and_above_a_rack_goes_anywhere(gang, gpus):
    # Racks of two servers of 2; A takes a GPU of the first: a gang of 4 takes the second rack. A
    # gang of 5 fits no rack and takes what is free.
    topology = cluster(4, 2, servers_per_rack=2)
    yard = world([Job(0, 1, 9), Job(0, gang, 5, profile=VGG)], topology, physics=models(topology))
    assert gantt(play(yard, fifo(Skew(models=("vgg",)))))["B"] == (0, 5, gpus)


# --- Delay: a server, later a rack, later anything ------------------------------------------

FOUR = cluster(4, 2, servers_per_rack=2)  # servers 0, 1 | 2, 3; GPUs 0 1, 2 3 | 4 5, 6 7
DELAY = Delay(rack_wait_s=10, anywhere_wait_s=20)


def busy(*free: int) -> list[Job]:
    """A job of 50 s for each GPU in order; those of free GPUs are over at 1."""
    return [Job(0, 1, 1 if gpu in free else 50) for gpu in range(8)]


# From 1 on GPUs 0, 2 and 4 are free, from 15 on GPU 6 as well; the others for 50 s.
THREE_FREE = [*busy(0, 2, 4), Job(1, 2, 40), Job(2, 2, 4)]
THREE_FREE[6] = Job(0, 1, 15)


@pytest.mark.parametrize(
    ("placer", "trace", "stay"),
    [
        (DELAY, THREE_FREE, (11, 51, (0, 2))),  # I waits 10 s for a server, then takes rack 0
        (Packed(), THREE_FREE, (1, 41, (0, 2))),  # its relatives: one never waits
        (Consolidated(), THREE_FREE, (50, 90, (0, 1))),  # the other always does
        (Delay(rack_wait_s=math.inf, anywhere_wait_s=math.inf), THREE_FREE, (50, 90, (0, 1))),
        # GPUs 0 and 4 are free at 1, in different racks: at 1 + 20 the job gives up on a rack.
        (Delay(rack_wait_s=5, anywhere_wait_s=20), [*busy(0, 4), Job(1, 2, 4)], (21, 25, (0, 4))),
    ],
)
def test_delay_waits_for_a_server_then_a_rack_then_anything(placer, trace, stay):
    stays = gantt(play(world(trace, FOUR), fifo(placer)))
    assert stays["I"] == stay
    if placer is DELAY:  # J's timer has run out at 12; a rack is there at 15
        assert stays["J"] == (15, 19, (4, 6))


@pytest.mark.parametrize(
    ("placer", "gang", "held", "gpus"),
    [
        # Three workers fit no server: a rack at once, the one with the fewest sufficient GPUs.
        (DELAY, 3, [Held((0,))], (2, 3, 1)),
        (DELAY, 3, [Held((0, 2)), Held((4, 6))], None),  # that takes its time
        (DELAY, 5, [Held((0,))], (4, 5, 6, 7, 2)),  # no rack fits: the emptiest rack first
        # Of servers and racks the tightest.
        (Delay(rack_wait_s=0, anywhere_wait_s=0), 1, [Held((5,))], (4,)),
        # Rack 0 has two free, rack 1 three.
        (Delay(rack_wait_s=0, anywhere_wait_s=0), 2, [Held((1, 3)), Held((4,))], (6, 7)),
        (Delay(rack_wait_s=0, anywhere_wait_s=0), 2, [Held((1, 3)), Held((4, 6))], (0, 2)),
    ],
)
def test_who_fits_no_server_or_no_rack_does_not_wait_for_one(placer, gang, held, gpus):
    assert answer(placer, gang, FOUR, held) == gpus


def test_service_is_no_wait():
    # SRTF, a rack after 6 s. A gives way to D at 10 and has waited 0 s then, though it came at 0.
    # GPUs 0 and 3 are free from 15 on, but A's wait is over at 16: 10 + 6, not 0 + 6.
    trace = [Job(0, 2, 30), Job(0, 1, 15), Job(0, 1, 25), Job(10, 2, 4), Job(14, 1, 5)]
    delay = Srtf(placer=Delay(rack_wait_s=6, anywhere_wait_s=6), sharing=NoSharing())
    assert charted(trace, cluster(2, 2, servers_per_rack=2), delay) == (
        "Bbbbbbbbbbbbbbb.Aaaaaaaaaaaaaaaaaaaa Ccccccccccccccccccccccccc "
        "AaaaaaaaaaDdddEeeee AaaaaaaaaaDddd..Aaaaaaaaaaaaaaaaaaaa"
    )


# --- Compact wait: the cheapest predicted placement that is not spread too far --------------

COMPACT = CompactWait(most_slowdown=1.3)
# A and B hold server 0 to 10 and 6, C and D server 1 to 20 and 2. E wants two GPUs from 2 on.
SPLIT = [Job(0, 1, 10), Job(0, 1, 6), Job(0, 1, 20), Job(0, 1, 2), Job(2, 2, 4)]


@pytest.mark.parametrize(
    ("placer", "across_s", "stay"),
    [
        # GPUs 1 and 3 are free from 6 on: a step there takes 1.5 s, on one server 1 s.
        (COMPACT, 0.5, (10, 14, (0, 1))),
        (Consolidated(), 0.5, (10, 14, (0, 1))),
        (Packed(), 0.5, (6, 12, (1, 3))),
        (COMPACT, 0.25, (6, 11, (1, 3))),  # spreading is cheap
        (CompactWait(most_slowdown=1.2), 0.25, (10, 14, (0, 1))),
    ],
)
def test_it_waits_where_spreading_costs_more_than_it_may(placer, across_s, stay):
    topology = cluster(2, 2)
    physics = physics_of(topology, server_s=(0.0, 0.0, across_s))
    assert gantt(play(world(SPLIT, topology, physics=physics), fifo(placer)))["E"] == stay


def test_of_one_gang_some_wait_and_some_do_not():
    # Both come at 2. E talks a lot and waits; F, which hardly does, passes it at 6.
    topology = cluster(2, 2)
    physics = comm_physics(topology, (1.0, 1.0), server_s=(0.0, 0.0, 1.0))
    physics.network.server_s[1] *= 0.1
    yard = world([*SPLIT, Job(2, 2, 4, profile=1)], topology, physics=physics)
    run = play(yard, fifo(COMPACT))
    assert gantt(run)["F"] == (6, pytest.approx(10.4), (1, 3))
    assert gantt(run)["E"][0] == pytest.approx(10.4)


def test_a_server_that_is_shared_badly_is_left_for_one_that_is_not():
    # Server 0 is held by a neighbour that costs 2; servers 1 and 2 have one empty GPU each.
    topology = cluster(3, 2)
    held = [Held((0,)), Held((1,)), Held((2,)), Held((4,))]
    for across_s, gpus in ((0.2, (3, 5)), (9.0, (0, 1))):
        physics = physics_of(topology, slowdown=((2.0,),), server_s=(0.0, 0.0, across_s, across_s))
        more = {"physics": physics, "shared": True}
        assert answer(COMPACT, 2, topology, held, **more) == gpus
        assert answer(LeastInterference(), 2, topology, held, **more) == (3, 5)


def test_company_on_nics_counts():
    # Two servers cost 1.2 alone, 1.4 beside a job that spans them: then it waits.
    topology = cluster(4, 2)
    physics = physics_of(topology, server_s=(0.0, 0.0, 0.2, 0.2, 0.2), nic_factor=(1.0, 1.0, 2.0))
    alone = [Held((0,)), Held((2,)), Held((4, 5)), Held((6, 7))]
    beside = [Held((0, 2)), Held((4, 5)), Held((6, 7))]
    assert answer(COMPACT, 2, topology, alone, physics=physics) == (1, 3)
    assert answer(COMPACT, 2, topology, beside, physics=physics) is None


def test_one_rack_before_two():
    # Three workers, servers of two, two a rack. A second rack costs as much as the step itself.
    spread = {"server_s": (0.0, 0.0, 0.1, 0.1, 0.1)}
    cheap = comm_physics(FOUR, (1.0,), **spread)
    dear = comm_physics(FOUR, (1.0,), **spread, rack_s=(0.0, 0.0, 1.0))
    assert answer(COMPACT, 3, FOUR, [Held((0, 1, 2)), Held((4,))], physics=dear) == (5, 6, 7)
    held = [Held((0, 1, 4, 5))]  # a server in each rack is left
    assert answer(COMPACT, 3, FOUR, held, physics=dear) is None
    assert answer(COMPACT, 3, FOUR, held, physics=cheap) == (2, 3, 6)


def test_nobody_waits_for_another_gpu_type():
    # Type y is three times slower; the fast server is held. A compact place on y will do.
    topology = cluster(2, 2, types=("x", "y"))
    physics = physics_of(topology, compute_s=(1.0, 3.0))
    assert answer(COMPACT, 2, topology, physics=physics) == (0, 1)
    assert answer(COMPACT, 2, topology, [Held((0,))], physics=physics) == (2, 3)


def test_a_gang_that_fits_no_server_is_measured_by_what_it_can_get():
    # Spread over both servers it is 51 times slower than on one; but there is no such server.
    topology = cluster(2, 2)
    physics = physics_of(topology, server_s=(0.0, 0.0, 50.0))
    found = charted(
        [Job(0, 4, 10)], topology, fifo(CompactWait(most_slowdown=1.0)), physics=physics
    )
    assert found == "Aaaaaaaaaa*4"


def test_where_all_is_free_there_is_nothing_to_wait_for():
    # Partitions of servers 0, 2 and 1, 3, one of each in either rack: A's ring loads both uplinks,
    # on which B will be eight times slower. B has its servers to itself, so it starts.
    physics = comm_physics(FOUR, (1.0,), rack_s=(0.0, 0.0, 1.0))
    network = replace(physics.network, uplink_factor=np.array([1.0, 1.0, 15.0]))
    physics = replace(physics, network=network)
    yard = Simulator(
        jobs=job_table([Job(0, 4, 10, home=0), Job(1, 4, 10, home=1)]), topology=FOUR,
        physics=physics, belief=physics, partition_of_server=np.array([0, 1, 0, 1]),
        rules=rules_of(), outages=NO_OUTAGES,
    )  # fmt: skip
    run = play(yard, PartitionedScheduler(child=fifo(COMPACT), forwarding=OwnOnly()))
    assert gantt(run)["B"][0] == 1
