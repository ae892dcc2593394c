"""Tiresias' placement rule: skewed models keep together, others take what there is."""

from dataclasses import replace

import pytest

from sim.errors import GpuYardError
from sim.physics.physics import Physics
from sim.placers.by_room import Consolidated, Skew
from sim.protocols import PatientPlacer
from sim.run import Run
from sim.schedulers.orders import Fifo
from sim.sharing import NoSharing
from sim.topology.topology import Topology
from tests.sim.worlds import Job, cluster, gantt, physics_of, play, world

VGG, BERT = 0, 1  # rows of the catalogue


def models(topology: Topology) -> Physics:
    plain = physics_of(topology, slowdown=((1.0, 1.0), (1.0, 1.0)))
    return replace(plain, catalogue=replace(plain.catalogue, names=("VGG-11/256", "bert/256")))


def placed(jobs: list[Job], topology: Topology, *skewed: str) -> Run:
    rule = Fifo(placer=Skew(models=skewed), sharing=NoSharing(), skip_blocked=True)
    return play(world(jobs, topology, physics=models(topology)), rule)


# A leaves one GPU of server 0, B one of server 1; then a gang of two, and a later single worker.
def busy(profile: int) -> list[Job]:
    return [Job(0, 1, 50), Job(0, 1, 0.5), Job(0, 1, 60), Job(1, 2, 5, profile=profile)]


def test_a_skewed_model_waits_where_another_spreads():
    #         0 1    6                50   55 60
    # GPU 0   AAAAAAAAAAAAAAAAAAAAAAAADDDDD          D of VGG
    # GPU 1   B DDDDD                 DDDDD          D of BERT spreads over GPUs 1 and 3 at 1
    # GPU 2   CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC
    # GPU 3     DDDDD
    topology = cluster(2, 2)
    assert gantt(placed(busy(VGG), topology, "vgg"))["D"] == (50, 55, (0, 1))
    assert gantt(placed(busy(BERT), topology, "vgg"))["D"] == (1, 6, (1, 3))


def test_consolidated_keeps_both_waiting():
    topology = cluster(2, 2)
    rule = Fifo(placer=Consolidated(), sharing=NoSharing(), skip_blocked=True)
    for profile in (VGG, BERT):
        run = play(world(busy(profile), topology, physics=models(topology)), rule)
        assert gantt(run)["D"] == (50, 55, (0, 1))


def test_a_skewed_gang_above_a_server_keeps_to_a_rack_and_above_a_rack_goes_anywhere():
    # Racks of two servers of 2; A takes a GPU of the first: a gang of 4 takes the second rack. A
    # gang of 5 fits no rack and takes what is free.
    jobs = [Job(0, 1, 9), Job(0, 4, 5, profile=VGG)]
    topology = cluster(4, 2, servers_per_rack=2)
    assert gantt(placed(jobs, topology, "vgg"))["B"] == (0, 5, (4, 5, 6, 7))
    wide = [Job(0, 1, 9), Job(0, 5, 5, profile=VGG)]
    assert gantt(placed(wide, topology, "vgg"))["B"] == (0, 5, (2, 3, 4, 5, 6))


def test_names_match_by_their_beginning_and_others_are_not_skewed():
    topology = cluster(2, 2)
    for names, start_s in ((("Vgg",), 50), (("vgg-1",), 50), (("gg",), 1), ((), 1)):
        assert gantt(placed(busy(VGG), topology, *names))["D"][0] == start_s


def test_it_judges_the_job():
    assert isinstance(Skew(models=["vgg"]), PatientPlacer)


def test_a_name_without_letters_is_refused():
    with pytest.raises(GpuYardError, match=r"placer.models is \['-'\]"):
        Skew(models=["-"])
