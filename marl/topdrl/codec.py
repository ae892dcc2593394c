"""View -> observation, action -> decision: the one way in training and in use.

The observation holds the numbers from which `marl.topdrl.images` paints the images: rows of time
left on every GPU and in every block, at a sixtieth of the images' size.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from marl.topdrl.places import Place, Places
from marl.topdrl.pricing import Pricing
from marl.topdrl.spec import NetworkSpec, SightSpec, TopDrlError
from marl.topdrl.window import window
from sim.arrays import FloatArray, IntArray
from sim.decision import WAIT, Decision, Start
from sim.signals import Signal
from sim.topology.topology import Topology
from sim.view import ClusterView

NEEDS = Signal.PREDICTION | Signal.PROFILE | Signal.INTERFERENCE
GPU_COLUMNS, SLOT_COLUMNS = 3, 6
WAIT_UNIT_S, LOG_SCALE = 60.0, 10.0
NOBODY: IntArray = np.zeros(0, dtype=np.int64)
Observation = dict[str, npt.NDArray[np.float32]]


@dataclass(frozen=True)
class Sight:
    """One decision: what the network sees, and what its actions mean."""

    observation: Observation
    jobs: IntArray  # (at most slots,) the window
    places: tuple[Place | None, ...]  # of these jobs; None where a job does not fit

    @property
    def has_choice(self) -> bool:
        """Whether some job can start."""
        return bool(self.observation["action_mask"][:-1].any())

    def decision(self, action: int) -> Decision:
        """Start the job in slot `action` and ask again, or hold (the last action).

        Raises:
            TopDrlError: the mask forbids it.
        """
        mask = self.observation["action_mask"]
        if not (0 <= action < len(mask) and mask[action]):
            raise TopDrlError(f"action {action} is masked; legal are {np.flatnonzero(mask)}")
        if action == len(mask) - 1:
            return WAIT
        place = self.places[action]
        assert place is not None  # the mask says so
        return Decision(starts=(Start(int(self.jobs[action]), place.gpus),), again=True)


class Codec:
    """Fitted to one cluster and one job table."""

    def __init__(self, view: ClusterView, sight: SightSpec, network: NetworkSpec) -> None:
        """Prepare the tables of `view`'s cluster and jobs.

        Raises:
            TopDrlError: the cluster is larger than the network's padded sizes.
        """
        self._spec = sight
        self._shape = network.racks, network.rack_servers, network.server_gpus
        self._seat = _seats(view.topology, self._shape)
        self._pricing = Pricing(
            topology=view.topology, belief=view.belief, gangs=view.jobs.num_gpus
        )
        grown = sight.row_growth ** np.arange(sight.rows)
        self._row_ends_s = sight.row_s * np.cumsum(grown)
        self._worth = self._pricing.worth(view.jobs.profile, view.jobs.num_gpus)

    @property
    def worth(self) -> FloatArray:
        """(J,) of a GPU of each job at full speed, 1 at most."""
        return self._worth

    def see(self, view: ClusterView) -> Sight:
        """The window, where its jobs would go, and the observation."""
        jobs = window(view.queued, self._worth[view.queued], self._spec)
        search = Places(view, self._pricing)
        places = tuple(search.of(int(job)) for job in jobs)
        slots = self._spec.slots
        mask = np.zeros(slots + 1, dtype=np.float32)
        mask[: len(places)] = [place is not None for place in places]
        mask[-1] = len(view.running) > 0 or not mask.any()
        backlog = np.log1p(len(view.queued) - len(jobs)) / LOG_SCALE
        observation = {
            "gpus": self._gpus(view),
            "slots": self._slots(view, jobs, places),
            "backlog": np.array([backlog], dtype=np.float32),
            "action_mask": mask,
        }
        return Sight(observation, jobs, places)

    def _rows(self, left_s: FloatArray) -> FloatArray:
        """(n,) share of the rows of time that `left_s` reaches into."""
        rows = np.searchsorted(self._row_ends_s, left_s, side="left") + 1
        return np.minimum(rows, self._spec.rows) / self._spec.rows

    def _gpus(self, view: ClusterView) -> npt.NDArray[np.float32]:
        """(R, S, K, 3): share of the rows until free, worth of its job, whether it is there."""
        seen = np.zeros((*self._shape, GPU_COLUMNS), dtype=np.float32)
        flat = seen.reshape(-1, GPU_COLUMNS)
        up = view.server_closed[view.topology.gpu_server] == 0
        flat[self._seat[up], 2] = 1.0
        held = view.jobs.held[view.running]
        busy = [view.gpus_of(job) for job in view.running.tolist()]
        left = self._rows(view.jobs.predicted_remaining_s[view.running])
        at = self._seat[np.concatenate([*busy, NOBODY])]
        flat[at, 0] = np.repeat(left, held)
        flat[at, 1] = np.repeat(self._worth[view.running], held)
        return seen

    def _slots(
        self, view: ClusterView, jobs: IntArray, places: tuple[Place | None, ...]
    ) -> npt.NDArray[np.float32]:
        """(Q, 6): there, rows, width of the block, wait, worth, speed on the closest GPUs."""
        seen = np.zeros((self._spec.slots, SLOT_COLUMNS), dtype=np.float32)
        rows = seen[: len(jobs)]
        waited_s = view.now_s - view.jobs.submit_s[jobs]
        rows[:, 0] = 1.0
        rows[:, 1] = self._rows(view.jobs.predicted_remaining_s[jobs])
        rows[:, 2] = np.minimum(view.jobs.num_gpus[jobs] / self._spec.block_gpus, 1.0)
        rows[:, 3] = np.minimum(np.log1p(waited_s / WAIT_UNIT_S) / LOG_SCALE, 1.0)
        rows[:, 4] = self._worth[jobs]
        rows[:, 5] = [0.0 if place is None else min(place.speed, 1.0) for place in places]
        return seen


def _seats(topology: Topology, shape: tuple[int, int, int]) -> IntArray:
    """(G,) position of each GPU in the padded racks x servers x GPUs."""
    server = topology.gpu_server
    gpu = np.arange(topology.num_gpus) - topology.server_first_gpu[server]
    first = np.searchsorted(topology.server_rack, np.arange(topology.num_racks))
    rack = topology.server_rack[server]
    at = np.stack([rack, server - first[rack], gpu])
    needed = tuple(int(n) + 1 for n in at.max(axis=1))
    if any(n > limit for n, limit in zip(needed, shape, strict=True)):
        raise TopDrlError(
            f"the cluster has {needed[0]} racks of up to {needed[1]} servers of up to {needed[2]} "
            f"GPUs; this policy sees {shape[0]} of up to {shape[1]} of up to {shape[2]}; train one "
            "for this cluster, with picker.network.server_gpus large enough"
        )
    return np.ravel_multi_index(tuple(at), shape).astype(np.int64)
