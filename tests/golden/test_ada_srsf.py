"""Ada-SRSF: predicted service orders; who shares a NIC with whom is what it adds."""

import pytest

from sim.placers.by_job import Lwf
from sim.run import Run
from sim.schedulers.ada_srsf import AdaSrsf
from sim.schedulers.orders import Sjf, Srsf
from sim.sharing import NoSharing
from tests.sim.placed import Held, comm_physics, view_with
from tests.sim.worlds import Job, chart, cluster, gantt, play, world

LWF = {"placer": Lwf(kappa=1), "sharing": NoSharing()}
# b / (2 (b + eta)) = 1 / 2.6 = 0.385 with eta = 0.3 b.
ADA = AdaSrsf(**LWF, skip_blocked=True, eta_frac=0.3)
SJF = Sjf(**LWF, skip_blocked=True)
BYTES = (10.0, 4.0, 3.0, 0.0)  # of the four profiles


def run_with(scheduler, trace: list[Job], servers: int = 3, gpus: int = 2) -> Run:
    topology = cluster(servers, gpus)
    return play(world(trace, topology, physics=comm_physics(topology, BYTES)), scheduler)


def started(gang: int, profile: int, held: list[Held]) -> tuple[int, ...] | None:
    """GPUs that the gang gets on two servers of four."""
    topology = cluster(2, 4)
    physics = comm_physics(topology, BYTES)
    view = view_with(gang, topology, held, physics=physics, profile=profile)
    starts = ADA.decide(view).starts
    return tuple(starts[0].gpus.tolist()) if starts else None


JOINS = (1, 4, (3, 4, 5))  # B fills server 2 and the GPU that A leaves of server 1


@pytest.mark.parametrize(
    ("scheduler", "profiles", "stay"),
    [
        # B (4 bytes) would exchange over server 1's NIC beside A (10): 0.4 is not below 0.385. From
        # 6 on the NIC is free, and B takes the servers with least work left, 0 and 1, first.
        (ADA, (0, 1), (6, 9, (0, 1, 2))),
        (ADA, (0, 2), JOINS),  # 0.3 is below the limit
        # Its relatives without admission let the larger one in, too.
        (SJF, (0, 1), JOINS),
        (Srsf(**LWF), (0, 1), JOINS),
        # Without a penalty for contention the limit is 0.5, and B with its 0.4 starts at once.
        (AdaSrsf(**LWF, skip_blocked=True, eta_frac=0.0), (0, 1), JOINS),
        (ADA, (0, 3), JOINS),  # who exchanges nothing is in nobody's way
        (ADA, (3, 0), JOINS),
    ],
)
def test_who_is_too_large_beside_another_waits_and_others_join(scheduler, profiles, stay):
    first, second = profiles
    trace = [Job(0, 3, 6, profile=first), Job(1, 3, 3, profile=second)]
    assert gantt(run_with(scheduler, trace)) == {"A": (0, 6, (0, 1, 2)), "B": stay}


def test_jobs_of_one_decision_see_each_other():
    # Both come at 0 and both want a part of server 1.
    run = run_with(ADA, [Job(0, 3, 6, profile=0), Job(0, 3, 6, profile=0)])
    assert chart(run) == "AaaaaaBbbbbb*3"


def test_service_orders_and_those_behind_pass():
    # A holds both GPUs to 2. Then B has 2 x 2 GPU-s, C 1 x 3: C starts, B waits for both; D (1 x 5)
    # passes it. SJF: B first.
    trace = [Job(0, 2, 2), Job(1, 2, 2), Job(1, 1, 3), Job(1, 1, 5)]
    assert chart(run_with(ADA, trace, servers=1)) == "AaCcc..Bb AaDddddBb"
    assert chart(run_with(SJF, trace, servers=1)) == "AaBbCcc AaBbDdddd"


def test_other_servers_are_tried_before_it_waits():
    # Server 1 has least work left (A's 4 s), but its NIC carries A: B goes to servers 2 and 3.
    topology = cluster(4, 2)
    held = [Held((0, 1, 2), 5.0), Held((4,), 50.0, 3), Held((6,), 60.0, 3)]
    view = view_with(2, topology, held, physics=comm_physics(topology, BYTES), profile=1)
    assert ADA.decide(view).starts[0].gpus.tolist() == [5, 7]
    assert SJF.decide(view).starts[0].gpus.tolist() == [3, 5]


def test_one_beside_another_is_all_that_a_nic_bears():
    one, two = Held((0, 4), profile=0), Held((1, 5), profile=2)
    assert started(5, 2, [one]) == (1, 2, 3, 5, 6)
    assert started(5, 1, [one]) is None  # too large beside 10 bytes
    assert started(4, 2, [one, two]) is None
    assert started(4, 3, [one, two]) == (2, 3, 6, 7)  # it exchanges nothing
    assert started(2, 0, [one, two]) == (2, 3)  # one server needs no NIC
