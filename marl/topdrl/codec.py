"""View -> observation, action -> decision: the one way in training and in use.

The observation holds the numbers from which `marl.topdrl.network` paints the images: rows of time
left on every GPU and in every block, at a sixtieth of the images' size.
"""

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from sim.arrays import FloatArray, IntArray
from sim.decision import WAIT, Decision, Start
from sim.engine.occupancy import Occupancy
from sim.errors import GpuYardError, check_numbers
from sim.jobs import ask_of
from sim.physics.catalogue import GangCatalogue
from sim.physics.laws import Spread, busy_s, comm_of
from sim.physics.reference import reference_steps_s
from sim.placers.by_room import Closest
from sim.topology.topology import Topology
from sim.view import ClusterView, Signal

BY_WORTH, BY_SUBMISSION = "worth", "submission"
ORDERS = (BY_WORTH, BY_SUBMISSION)
MULTI, SINGLE = "multi", "single"
BRANCHES = (MULTI, SINGLE)


class TopDrlError(GpuYardError):
    """A value of the specification is out of range, or a view does not fit the policy."""


@dataclass(frozen=True, kw_only=True)
class ObservationSpec:
    """The queue window and the time axis of the images."""

    slots: int  # waiting jobs that can be picked
    oldest_slots: int  # of these, the last so many show the oldest jobs that the order leaves out
    order: str  # of the others: `worth` a GPU at full speed, falling, or `submission`
    rows: int  # of time
    row_s: float  # seconds of the first row
    row_growth: float  # each row is so many times as long as the one before
    block_gpus: int  # columns of a job's block; wider gangs fill it

    def __post_init__(self) -> None:
        """Raise a TopDrlError, naming key, value and rule, for one out of range."""
        counts = {key: getattr(self, key) for key in ("slots", "rows", "row_growth", "block_gpus")}
        check_numbers("observation", "1 or more", TopDrlError, **counts)
        check_numbers("observation", "above 0", TopDrlError, row_s=self.row_s)
        for key, good, rule in (
            ("oldest_slots", 0 <= self.oldest_slots <= self.slots, "from 0 to observation.slots"),
            ("order", self.order in ORDERS, f"one of {', '.join(ORDERS)}"),
        ):
            if not good:
                raise TopDrlError(f"observation.{key} is {getattr(self, key)!r}; it must be {rule}")


@dataclass(frozen=True, kw_only=True)
class NetworkSpec:
    """Sizes of the network that scores the slots."""

    branches: str  # `multi`: three images, `single`: one
    channels: int  # of every convolution
    hidden: int  # width of every embedding
    server_gpus: int  # padded; larger servers cannot be seen
    racks: int = 1  # of the cluster; a `single` network fits no other
    rack_servers: int = 1

    def __post_init__(self) -> None:
        """Raise a TopDrlError, naming key, value and rule, for one out of range."""
        if self.branches not in BRANCHES:
            raise TopDrlError(
                f"network.branches is {self.branches!r}; it must be {' or '.join(BRANCHES)}"
            )
        sizes = {key: size for key, size in vars(self).items() if key != "branches"}
        check_numbers("network", "1 or more", TopDrlError, **sizes)


def on_cluster(network: NetworkSpec, topology: Topology) -> NetworkSpec:
    """`network` with the racks of this cluster."""
    servers = np.bincount(topology.server_rack)
    return replace(network, racks=len(servers), rack_servers=int(servers.max()))


class Pricing:
    """Tables of one cluster and the gangs of one job table."""

    def __init__(self, view: ClusterView) -> None:
        """After what `view` believes."""
        self._topology, self._belief = topology, belief = view.topology, view.belief
        self._type = belief.server_types(topology)
        self._best_s = reference_steps_s(np.unique(view.jobs.num_gpus), topology, belief)
        self._unit_tflop = self._peak()

    def worth(self, profile: IntArray, gang: IntArray) -> FloatArray:
        """(n,) worth a second at full speed, as a share of what its GPUs could at most be worth.

        TFLOP/s where profiles are for gangs; all jobs are worth 1 a GPU elsewhere.
        """
        if self._unit_tflop is None:
            return np.ones(len(profile))
        assert isinstance(self._belief.catalogue, GangCatalogue)
        share = self._belief.catalogue.tflop[profile] / self._best_s[profile, gang] / gang
        return np.asarray(share / self._unit_tflop)

    def speed(self, profile: int, gang: int, gpus: IntArray) -> float:
        """Work a second on these GPUs alone; 1 on the most compact ones of the reference type."""
        topology = self._topology
        servers, on = np.unique(topology.gpu_server[gpus], return_counts=True)
        compute_s = self._belief.catalogue.compute_s[profile, self._type[servers]].max()
        racks = len(np.unique(topology.server_rack[servers]))
        spread = Spread(int(on.max()), len(servers), racks)
        step_s = compute_s + busy_s(comm_of(self._belief.network, profile, spread))
        return float(self._best_s[profile, gang] / step_s)

    def _peak(self) -> float | None:
        catalogue = self._belief.catalogue
        if not isinstance(catalogue, GangCatalogue):
            return None
        rows = np.flatnonzero(catalogue.gang < self._best_s.shape[1])
        gang = catalogue.gang[rows]
        return float(np.nanmax(catalogue.tflop[rows] / self._best_s[rows, gang] / gang))


class UntilFree:
    """When running jobs are thought to end: restarts under way, then the speed that each has."""

    def __init__(self, pricing: Pricing) -> None:
        """Speeds are remembered while a job runs where it is."""
        self._pricing = pricing
        self._speeds: dict[tuple[int, bytes], float] = {}  # by job and its GPUs

    def seconds(self, view: ClusterView) -> FloatArray:
        """(r,) predicted seconds to the end of each of `view.running`."""
        known, self._speeds = self._speeds, {}
        for job in view.running.tolist():
            gpus = view.gpus_of(job)
            key = job, gpus.tobytes()
            self._speeds[key] = known.get(key) or self._speed(view, job, gpus)
        speeds = np.fromiter(self._speeds.values(), dtype=np.float64, count=len(view.running))
        restart_s = np.maximum(view.jobs.resume_s[view.running] - view.now_s, 0.0)
        return np.asarray(restart_s + view.jobs.predicted_remaining_s[view.running] / speeds)

    def _speed(self, view: ClusterView, job: int, gpus: IntArray) -> float:
        jobs = view.jobs
        return self._pricing.speed(int(jobs.profile[job]), int(jobs.num_gpus[job]), gpus)


@dataclass(frozen=True)
class Place:
    """GPUs for one job, and its speed on them."""

    gpus: IntArray  # (gang,)
    speed: float


class Places:
    """Places on one view; jobs of one kind (gang and demands) share a search."""

    def __init__(self, view: ClusterView, pricing: Pricing) -> None:
        """Nothing is searched yet."""
        self._view, self._pricing = view, pricing
        self._occupancy = Occupancy(view)
        # Larger gangs have no place, wherever one looks; parts of GPUs may.
        self._room = view.topology.num_gpus
        if view.jobs.demands is None:
            self._room = int(view.server_free.sum())
        self._placer, self._rng = Closest(), np.random.default_rng(0)  # draws nothing
        self._found: dict[tuple[int, ...], IntArray | None] = {}

    def of(self, job: int) -> Place | None:
        """None where it does not fit now."""
        gang = int(self._view.jobs.num_gpus[job])
        if gang > self._room:
            return None
        kind = (gang, *ask_of(self._view.jobs.demands, job))
        if kind not in self._found:
            slots = self._occupancy.exclusive(self._view, job)
            self._found[kind] = self._placer.place(gang, slots, self._rng)
        gpus = self._found[kind]
        if gpus is None:
            return None
        profile = int(self._view.jobs.profile[job])
        return Place(gpus, self._pricing.speed(profile, gang, gpus))


def window(queued: IntArray, worth: FloatArray, spec: ObservationSpec) -> IntArray:
    """At most `spec.slots` of the waiting jobs, best first, then the oldest that were left out.

    Args:
        queued: (q,) waiting jobs in order of submission.
        worth: (q,) worth of a GPU at full speed.
        spec: number of slots and their order.
    """
    if spec.order == BY_SUBMISSION:
        return queued[: spec.slots]
    by_worth = np.argsort(-worth, kind="stable")
    if len(queued) <= spec.slots:
        return queued[by_worth]
    best = by_worth[: spec.slots - spec.oldest_slots]
    left: IntArray = np.setdiff1d(np.arange(len(queued)), best)
    return queued[np.concatenate([best, left[: spec.oldest_slots]])]


NEEDS = Signal.PREDICTION | Signal.PROFILE | Signal.INTERFERENCE
WAIT_UNIT_S, LOG_SCALE = 60.0, 10.0
NOBODY: IntArray = np.zeros(0, dtype=np.int64)
Observation = dict[str, npt.NDArray[np.float32]]


class OfGpu(IntEnum):
    """A GPU of the cluster: `gpus` of an observation."""

    LEFT = 0  # share of the rows until its job is thought to end
    WORTH = 1  # of its job
    PRESENT = 2  # 1: there is a GPU, and its server is up


class OfSlot(IntEnum):
    """A job of the window: `slots` of an observation."""

    PRESENT = 0  # 1: there is a job
    LEFT = 1  # share of the rows that it is thought to take at full speed
    WIDTH = 2  # its GPUs / GPUs of a block, at most 1
    WAIT = 3  # ln(1 + minutes waited) / 10, at most 1
    WORTH = 4
    SPEED = 5  # on its closest GPUs, relative to compact ones; 0: it does not fit


@dataclass(frozen=True)
class Turn:
    """One decision: what the network sees, and what its actions mean."""

    observation: Observation
    jobs: IntArray  # (at most slots,) the window
    places: tuple[Place | None, ...]  # of these jobs; None where a job does not fit

    @property
    def has_choice(self) -> bool:
        """Whether some job can start."""
        return bool(self.observation["action_mask"][:-1].any())

    def decision(self, action: int) -> Decision:
        """Start the job in slot `action` and ask again, or hold (the last); TopDrlError: masked."""
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

    def __init__(
        self, view: ClusterView, observation: ObservationSpec, network: NetworkSpec
    ) -> None:
        """Prepare the tables of `view`'s cluster and jobs.

        Raises:
            TopDrlError: the cluster is larger than the network's padded sizes.
        """
        self._spec = observation
        self._shape = network.racks, network.rack_servers, network.server_gpus
        self._cell = _cells_of_gpus(view.topology, self._shape)
        self._pricing = Pricing(view)
        self._until_free = UntilFree(self._pricing)
        grown = observation.row_growth ** np.arange(observation.rows)
        self._row_ends_s = observation.row_s * np.cumsum(grown)
        self._worth = self._pricing.worth(view.jobs.profile, view.jobs.num_gpus)

    @property
    def worth(self) -> FloatArray:
        """(J,) of a GPU of each job at full speed, 1 at most."""
        return self._worth

    def turn(self, view: ClusterView) -> Turn:
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
        return Turn(observation, jobs, places)

    def _rows(self, left_s: FloatArray) -> FloatArray:
        """(n,) share of the rows of time that `left_s` reaches into."""
        rows = np.searchsorted(self._row_ends_s, left_s, side="left") + 1
        return np.minimum(rows, self._spec.rows) / self._spec.rows

    def _gpus(self, view: ClusterView) -> npt.NDArray[np.float32]:
        """(R, S, K, OfGpu)."""
        seen = np.zeros((*self._shape, len(OfGpu)), dtype=np.float32)
        flat = seen.reshape(-1, len(OfGpu))
        up = view.server_closed[view.topology.gpu_server] == 0
        flat[self._cell[up], OfGpu.PRESENT] = 1.0
        held = view.jobs.held[view.running]
        busy = [view.gpus_of(job) for job in view.running.tolist()]
        left = self._rows(self._until_free.seconds(view))
        at = self._cell[np.concatenate([*busy, NOBODY])]
        flat[at, OfGpu.LEFT] = np.repeat(left, held)
        flat[at, OfGpu.WORTH] = np.repeat(self._worth[view.running], held)
        return seen

    def _slots(
        self, view: ClusterView, jobs: IntArray, places: tuple[Place | None, ...]
    ) -> npt.NDArray[np.float32]:
        """(Q, OfSlot)."""
        seen = np.zeros((self._spec.slots, len(OfSlot)), dtype=np.float32)
        rows = seen[: len(jobs)]
        waited_s = view.now_s - view.jobs.submit_s[jobs]
        rows[:, OfSlot.PRESENT] = 1.0
        rows[:, OfSlot.LEFT] = self._rows(view.jobs.predicted_remaining_s[jobs])
        blocks = view.jobs.num_gpus[jobs] / self._spec.block_gpus
        rows[:, OfSlot.WIDTH] = np.minimum(blocks, 1.0)
        rows[:, OfSlot.WAIT] = np.minimum(np.log1p(waited_s / WAIT_UNIT_S) / LOG_SCALE, 1.0)
        rows[:, OfSlot.WORTH] = self._worth[jobs]
        rows[:, OfSlot.SPEED] = [
            0.0 if place is None else min(place.speed, 1.0) for place in places
        ]
        return seen


def _cells_of_gpus(topology: Topology, shape: tuple[int, int, int]) -> IntArray:
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
