"""What a placer answers on a cluster where chosen GPUs are held."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from sim.decision import Decision, Start
from sim.engine.occupancy import ANY_SPEED, Occupancy
from sim.physics.physics import Physics
from sim.protocols import Placer
from sim.topology.topology import Topology
from sim.view import ClusterView, Signal, Slots
from tests.sim.worlds import Job, physics_of, world

EVERYTHING = Signal.PREDICTION | Signal.PROFILE | Signal.INTERFERENCE


class Held(NamedTuple):
    """GPUs that a job has held since 0, its work in seconds and its profile."""

    gpus: Sequence[int]
    work_s: float = 100.0
    profile: int = 0


def view_with(
    gang: int, topology: Topology, held: Sequence[Held] = (), *, physics: Physics | None = None,
    profile: int = 0,
) -> ClusterView:  # fmt: skip
    """What is seen when a gang comes at 1, beside the jobs that hold GPUs since 0."""
    jobs = [Job(0, len(each.gpus), each.work_s, profile=each.profile) for each in held]
    simulator = world(
        [*jobs, Job(1, gang, 1.0, profile=profile)], topology,
        physics=physics_of(topology) if physics is None else physics, max_tenants=2,
    )  # fmt: skip
    views = simulator.views(EVERYTHING)
    assert simulator.advance()
    if held:
        starts = [Start(row, np.array(each.gpus)) for row, each in enumerate(held)]
        simulator.apply(Decision(starts=tuple(starts)))
        assert simulator.advance()
    return views.view()


def slots_for(
    gang: int, topology: Topology, held: Sequence[Held] = (), *, shared: bool = False, **more: Any
) -> Slots:
    """What that gang is offered; `more` as in `view_with`."""
    view = view_with(gang, topology, held, **more)
    occupancy, job = Occupancy(view), len(held)
    return occupancy.shared(view, job, ANY_SPEED) if shared else occupancy.exclusive(view, job)


def answer(
    placer: Placer, gang: int, topology: Topology, held: Sequence[Held] = (), **more: Any
) -> tuple[int, ...] | None:
    """The GPUs that the placer gives this gang; `more` as in `slots_for`."""
    slots = slots_for(gang, topology, held, **more)
    gpus = placer.place(gang, slots, np.random.default_rng(0))
    return None if gpus is None else tuple(gpus.tolist())


def comm_physics(
    topology: Topology, sync_bytes: Sequence[float], *, server_s: Sequence[float] | None = None,
    rack_s: Sequence[float] = (0.0, 0.0),
) -> Physics:  # fmt: skip
    """Profiles that exchange so many bytes; a gang pays by its servers and racks, a step of 1 s."""
    count = len(sync_bytes)
    plain = physics_of(topology, slowdown=[[1.0] * count] * count, server_s=server_s)
    return replace(
        plain,
        catalogue=replace(plain.catalogue, sync_bytes=np.array(sync_bytes)),
        network=replace(plain.network, rack_s=np.tile(np.array(rack_s), (count, 1))),
    )
