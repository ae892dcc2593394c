"""Placing a job where it gets what it asks for undisturbed; shared by the sharing rules."""

import numpy as np

from sim.arrays import IntArray
from sim.engine.occupancy import Occupancy
from sim.protocols import Placer
from sim.view import ClusterView


def place_alone(
    view: ClusterView, occupancy: Occupancy, job: int, placer: Placer, rng: np.random.Generator
) -> IntArray | None:
    """The placer's choice among GPUs that the job has to itself, or the part it asks for.

    A job that asks for part of a GPU goes where least is left over (best fit), and opens an empty
    GPU only where no other has room. None if the job should wait.
    """
    gang = int(view.jobs.num_gpus[job])
    tight = occupancy.tightest(view, job)
    gpus = None if tight is None else placer.place(gang, tight, rng)
    return placer.place(gang, occupancy.exclusive(view, job), rng) if gpus is None else gpus
