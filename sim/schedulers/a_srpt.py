"""A-SRPT: gangs start in the order in which a virtual machine under SRPT completes them."""

import heapq
import math
from dataclasses import dataclass, replace

import numpy as np

from sim.arrays import IntArray
from sim.decision import Decision, Start
from sim.engine.given import check_part
from sim.engine.occupancy import Occupancy
from sim.errors import check_numbers
from sim.jobs import ask_of
from sim.physics.reference import AloneStep
from sim.protocols import PatientPlacer, Placer
from sim.rounds import gang_gpus
from sim.sharing import place_alone
from sim.view import ClusterView, Signal, Slots


class VirtualMachine:
    """Works on one job at a time, one second of work a second, always that with least work left.

    With preemption allowed and work known, this order has the least total completion time of all
    (Schrage, Operations Research 16(3), 1968); A-SRPT copies the order of its completions.

    A newcomer takes over if it has strictly less work than what is left of the job being worked
    on; among waiting jobs of equal work the lower row goes first. Completion times are kept as
    times and not as remainders, so that whoever is woken at `next_s` finds that job completed;
    what is left is counted from the beginning, so that at that instant it is the work itself.
    """

    def __init__(self) -> None:
        """Start empty, at the beginning of time."""
        self._now_s = -math.inf
        self._current: int | None = None
        self._began_s, self._work_s = -math.inf, 0.0  # of `_current`: since when, how much was left
        self._done_s = math.inf  # when `_current` completes if nobody takes over
        self._waiting: list[tuple[float, int]] = []  # heap of (work left in seconds, job)

    def __len__(self) -> int:
        """Jobs that are not complete."""
        return len(self._waiting) + (self._current is not None)

    @property
    def jobs(self) -> list[int]:
        """Rows of the jobs that are not complete, in no order."""
        own = [] if self._current is None else [self._current]
        return own + [job for _, job in self._waiting]

    @property
    def next_s(self) -> float | None:
        """When the next job completes if nobody comes; None where there is none."""
        return None if self._current is None else self._done_s

    def advance(self, now_s: float) -> list[int]:
        """Let time pass until `now_s`; the jobs completed by then, in order of completion."""
        done: list[int] = []
        while self._current is not None and self._done_s <= now_s:
            done.append(self._current)
            self._now_s = self._done_s
            self._take_next()
        self._now_s = now_s
        return done

    def submit(self, job: int, work_s: float) -> None:
        """Bring `job` with `work_s` seconds of work, at the time last advanced to."""
        if self._current is None:
            self._work_on(job, work_s)
            return
        left_s = self._work_s - (self._now_s - self._began_s)
        if work_s < left_s:
            heapq.heappush(self._waiting, (left_s, self._current))
            self._work_on(job, work_s)
        else:
            heapq.heappush(self._waiting, (work_s, job))

    def drop(self, job: int) -> None:
        """Forget a job that will not be wanted any more; unknown jobs are ignored."""
        if job == self._current:
            self._take_next()
            return
        self._waiting = [entry for entry in self._waiting if entry[1] != job]
        heapq.heapify(self._waiting)

    def _take_next(self) -> None:
        self._current, self._done_s = None, math.inf
        if self._waiting:
            work_s, job = heapq.heappop(self._waiting)
            self._work_on(job, work_s)

    def _work_on(self, job: int, work_s: float) -> None:
        self._current, self._began_s, self._work_s = job, self._now_s, work_s
        self._done_s = self._now_s + work_s


UNSEEN, VIRTUAL, RELEASED = 0, 1, 2  # phases of a job


@dataclass(kw_only=True, eq=False, repr=False)
class ASrpt:
    """Jobs go as a virtual machine under preemptive SRPT completes them.

    Adaptive shortest remaining processing time first (Luo, Liu, Lee, Shroff, INFOCOM 2025). A job
    that arrives brings `w = predicted duration x gang / GPUs of the cluster` seconds of work to a
    virtual machine under preemptive SRPT. The prediction counts seconds
    at the most compact placement, so it is the paper's iterations times alpha_min. When a job
    completes there, it joins the real queue. The real cluster serves this queue in order, whole
    gangs, never preempting; whoever finds too few GPUs blocks those behind it. The placer is the
    paper's mapping: `placer=heavy_edge` takes the servers with most free GPUs first and keeps heavy
    edges inside servers; others separate order from mapping.

    Delay rule, for jobs that communicate much: with alpha_max / alpha_min above `theta`, and the
    best place now slower than `1 + delta` times alpha_min, the job lets others start instead. It
    waits for at most `tau` times what it would lose, predicted duration x (alpha_now / alpha_min -
    1), counted from the first time it could have started, though others take that place meanwhile;
    then it takes what there is, and blocks.

    With `efficiency` below 1 the virtual machine is that much slower, a variant for clusters that
    cannot keep up with it: gangs that fit badly and shared links leave the real queue long, and a
    long real queue is first come, first served. 1 is the paper's.

    With `skip_blocked` nobody blocks: those behind a gang that finds no place start if they can. It
    is a variant of ours too, for clusters in which large gangs wait long.

    The paper leaves open, and this file chooses: the delay rule's form and constants (`theta: null`
    turns it off); alpha_min is that of the same placer if all servers that are up were empty, since
    no job could wait for better; all alphas count the GPU types of the place looked at, since the
    paper's GPUs are alike and nobody is to wait for a faster type; the virtual machine knows
    neither servers that are away nor users who give up until their jobs are missed at the next
    decision; a job that queues again after a failure or an eviction keeps its place in the order
    and does not pass the virtual machine again. There is no rule against idling: GPUs stay idle
    while jobs are still in the virtual machine, `w` seconds even for a job that is alone in the
    cluster.
    """

    order_name = "a_srpt"
    one_queue = True

    placer: Placer
    efficiency: float  # scales the virtual machine's speed
    theta: float | None  # the delay rule's, as are the two below
    delta: float
    tau: float
    skip_blocked: bool  # jobs behind a blocked one may start

    def __post_init__(self) -> None:
        """Raise a GpuYardError, naming key, value and rule, for one out of range."""
        check_numbers("scheduler", "above 0, at most 1", efficiency=self.efficiency)
        check_numbers("scheduler", "null, or 1 or more", theta=self.theta)
        check_numbers("scheduler", "0 or more", delta=self.delta, tau=self.tau)
        self.patient = self.placer if isinstance(self.placer, PatientPlacer) else None
        judges = Signal.NONE if self.theta is None else Signal.PROFILE | Signal.INTERFERENCE
        check_part(self.placer, "placer", "name", "needs")
        self.needs = Signal.PREDICTION | judges | self.placer.needs
        self.reset(0)

    @property
    def name(self) -> str:
        """`order+placer`, with `nodelay` where the rule is off and `skip` for that variant."""
        nodelay = ["nodelay"] if self.theta is None else []
        skip = ["skip"] if self.skip_blocked else []
        return "+".join([self.order_name, self.placer.name, *nodelay, *skip])

    def reset(self, seed: int) -> None:
        """An empty virtual machine and an empty queue."""
        self._rng = np.random.default_rng(seed)
        self._machine = VirtualMachine()
        self._phase: IntArray = np.zeros(0, dtype=np.int64)  # (J,)
        self._rank: IntArray = np.zeros(0, dtype=np.int64)  # (J,) place in the real queue
        self._released = 0
        self._since_s: dict[int, float] = {}  # when a delayed job could first have started
        self._until_s: dict[int, float] = {}  # and until when it lets others start
        self._step: AloneStep | None = None
        self._least: dict[tuple[int, ...], float] = {}  # see `_least_comm_s`
        self._closed = b""  # servers without which it holds

    def decide(self, view: ClusterView) -> Decision:
        """Bring in arrivals, release what the virtual machine completed, start what fits."""
        self._follow(view)
        waiting = view.queued[self._phase[view.queued] == RELEASED]
        order = waiting[np.argsort(self._rank[waiting])]
        starts, times = self._serve(view, order.tolist())
        times += [] if self._machine.next_s is None else [self._machine.next_s]
        return Decision(starts=tuple(starts), wake_s=min(times, default=None))

    def standing(self, view: ClusterView) -> IntArray:
        """Those who wait in `view`: the real queue in its order, then the virtual machine's."""
        waiting = view.queued
        released = self._phase[waiting] == RELEASED
        queue = waiting[released]
        return np.concatenate([queue[np.argsort(self._rank[queue])], waiting[~released]])

    def is_virtual(self, job: int) -> bool:
        """Whether the virtual machine has not completed `job` yet."""
        return bool(self._phase[job] != RELEASED)

    def delays(self, job: int, now_s: float) -> bool:
        """Whether a waiting job could have started, and still waits for a better place."""
        return self._until_s.get(job, -math.inf) > now_s

    def _follow(self, view: ClusterView) -> None:
        """Bring the virtual machine to now, and those who arrived into it."""
        if len(self._phase) == 0:
            self._phase = np.zeros(len(view.jobs.num_gpus), dtype=np.int64)
            self._rank = np.zeros_like(self._phase)
        self._release(self._machine.advance(view.now_s))
        phase = self._phase[view.queued]
        if np.count_nonzero(phase == VIRTUAL) < len(self._machine):
            for job in set(self._machine.jobs) - set(view.queued.tolist()):
                self._machine.drop(job)
        fresh = view.queued[phase == UNSEEN]
        if len(fresh) > 0:
            work_s = view.jobs.estimate_s[fresh] * gang_gpus(view, fresh)
            work_s = work_s / (self.efficiency * view.topology.num_gpus)
            self._phase[fresh] = VIRTUAL
            for job, seconds in zip(fresh.tolist(), work_s.tolist(), strict=True):
                self._machine.submit(job, seconds)
            self._release(self._machine.advance(view.now_s))  # jobs of no work

    def _release(self, done: list[int]) -> None:
        for job in done:
            self._phase[job] = RELEASED
            self._rank[job] = self._released
            self._released += 1

    def _serve(self, view: ClusterView, order: list[int]) -> tuple[list[Start], list[float]]:
        """Starts, in order, and times at which the answer may change though nothing happens."""
        occupancy, starts, times = Occupancy(view), [], []
        # Free GPUs only shrink on the way, so the like of a refused job would fail, too; not so
        # where the placer looks at more than the gang.
        refused: set[tuple[int, ...]] = set()
        for job in order:
            like = int(view.jobs.num_gpus[job]), *ask_of(view.jobs.demands, job)
            gpus = None
            if like not in refused:
                gpus = place_alone(view, occupancy, job, self.placer, self._rng)
            if gpus is not None:
                self._until_s[job] = self._delayed_until_s(view, occupancy, job, gpus)
            elif self.patient is None:
                refused.add(like)
            else:
                again_s = self.patient.wake_s(view, job)
                times += [] if again_s is None else [again_s]
            # Those whom it lets pass may take its place: others go on passing all the same.
            if self.delays(job, view.now_s):
                times.append(self._until_s[job])
                continue
            if gpus is None:
                if self.skip_blocked:
                    continue
                break
            self._since_s.pop(job, None)
            self._until_s.pop(job, None)
            occupancy.occupy(job, gpus)
            starts.append(Start(job, gpus))
        return starts, times

    def _delayed_until_s(
        self, view: ClusterView, occupancy: Occupancy, job: int, gpus: IntArray
    ) -> float:
        """Until when the job would rather wait than start on `gpus`; now or earlier: not at all."""
        gang = int(view.jobs.num_gpus[job])
        if self.theta is None or gang == 1:
            return -math.inf
        if self._step is None:
            self._step = AloneStep(view.belief, view.topology)
        profile = int(view.jobs.profile[job])
        compute_s = self._step.compute_s(profile, gpus)
        least_s = compute_s + self._least_comm_s(view, occupancy, job)
        if compute_s + self._step.most_comm_s(profile, gang) <= self.theta * least_s:
            return -math.inf
        slower = self._step.step_s(profile, gpus) / least_s
        if slower <= 1.0 + self.delta:
            return -math.inf
        since_s = self._since_s.setdefault(job, view.now_s)
        return since_s + self.tau * float(view.jobs.estimate_s[job]) * (slower - 1.0)

    def _least_comm_s(self, view: ClusterView, occupancy: Occupancy, job: int) -> float:
        """Of alpha_min: the placer's choice if all GPUs that are up and will do were empty."""
        assert self._step is not None
        if self._closed != view.server_closed.tobytes():
            self._closed, self._least = view.server_closed.tobytes(), {}
        profile, gang = int(view.jobs.profile[job]), int(view.jobs.num_gpus[job])
        like = profile, gang, *ask_of(view.jobs.demands, job)
        if like not in self._least:
            slots = _empty(view, job, occupancy.workers(job)[1])
            gpus = self.placer.place(gang, slots, np.random.default_rng(0))
            self._least[like] = (
                self._step.least_comm_s(profile, gang)
                if gpus is None
                else self._step.comm_s(profile, gpus)
            )
        return self._least[like]


def _empty(view: ClusterView, job: int, most: IntArray) -> Slots:
    """What a placer would be offered for `job` if nothing ran; `most` (S,): its workers at most."""
    topology = view.topology
    within = np.arange(topology.num_gpus) - topology.server_first_gpu[topology.gpu_server]
    return Slots(
        topology=topology,
        servers=view.servers,
        usable=within < most[topology.gpu_server],
        usable_per_server=most,
        most_per_server=most,
        tenants=np.zeros(topology.num_gpus, dtype=np.int64),
        gpu_milli=np.zeros(topology.num_gpus, dtype=np.int64),
        cost=np.ones(topology.num_gpus),
        view=replace(
            view, nic_jobs=np.zeros_like(view.nic_jobs), uplink_jobs=np.zeros_like(view.uplink_jobs)
        ),
        job=job,
    )
