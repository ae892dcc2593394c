"""Belief of co-location that follows what running jobs show, and a truth that has moved away.

`observe` reads slow-downs off the speeds of running jobs, `updated` adds them to fading `Evidence`,
`posterior_table` moves the believed table to what both together make likely, and
`OnlineScheduler` tells it to the scheduler inside. `DriftedInterference` is a truth to try it on.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.decision import Decision
from sim.engine.composed import PartitionedScheduler, QueueScheduler
from sim.errors import GpuYardError, PhysicsError
from sim.jobs import WHOLE_GPU_MILLI
from sim.physics.catalogue import Catalogue
from sim.physics.communication import Spread as CommSpread
from sim.physics.communication import told_s
from sim.physics.mix_table import PairTable
from sim.physics.physics import Physics
from sim.protocols import InterferenceModel, Scheduler
from sim.signals import Signal
from sim.view import ClusterView

DRIFTED = "drifted "  # begins the source of such a table


class DriftedInterference:
    """Another model's slow-downs with what co-location adds multiplied by seeded factors.

    slow-down = 1 + (slow-down before - 1) * exp(u_v + w_a), where on each GPU type every victim v
    and every aggressor a has a term: the sum of `steps` draws of N(0, sigma^2). As after an update
    of drivers or frameworks, by which some models come to suffer or to disturb more than before.
    With one more step the same factors move on; without any nothing has moved. What fits into
    memory stays.
    """

    def __init__(self, *, model: InterferenceModel, sigma: float, steps: int, seed: int) -> None:
        """Drift away from `model`.

        Raises:
            PhysicsError: `sigma` is below 0 or not finite, or `steps` below 0.
        """
        if not 0 <= sigma < float("inf"):
            raise PhysicsError(f"interference.sigma is {sigma!r}; it must be a number from 0")
        if steps < 0:
            raise PhysicsError(f"interference.steps is {steps!r}; it must be 0 or more")
        self._model, self._sigma, self._steps, self._seed = model, sigma, steps, seed

    def pair_table(self, catalogue: Catalogue) -> PairTable:
        """The drifted table over the catalogue."""
        table = self._model.pair_table(catalogue)
        if self._sigma == 0 or self._steps == 0:
            return table
        excess = (table.slowdown - 1.0) * np.exp(self._terms(table.slowdown.shape[:2]))
        return replace(table, slowdown=1.0 + excess, source=f"{DRIFTED}{table.source}")

    def _terms(self, shape: tuple[int, ...]) -> FloatArray:
        """(T, P, P) sum of the victim's and the aggressor's term."""
        draws = np.random.default_rng(self._seed).normal(size=(self._steps, 2, *shape))
        victim, aggressor = self._sigma * draws.sum(axis=0)
        terms: FloatArray = victim[:, :, None] + aggressor[:, None, :]
        return terms


PAIR = 2  # tenants


class Observations(NamedTuple):
    """N slow-downs seen at one instant."""

    at_s: float
    gpu_type: IntArray  # (N,) row of the catalogue
    victim: IntArray  # (N,) profile of the job whose iterations were timed
    aggressor: IntArray  # (N,) profile of the job beside it
    slowdown: FloatArray  # (N,) compute time beside it over compute time alone, above 0
    # (N,) share of the step that is compute: an error of 1 % in the step is one of 1 % / share here
    compute_share: FloatArray


def observe(view: ClusterView, step_s: FloatArray) -> Observations:
    """The unambiguous slow-downs of the running jobs of `view`; the others are left out.

    slow-down = (step - communication) / compute alone, where compute comes from the profiles that
    the scheduler is told and communication from its tables, for the job's spread and the jobs now
    on its NICs and uplinks.

    A job counts if all its GPUs are of one type, it has one neighbour at most on each and all of
    these train the same profile on whole GPUs, and neither it nor they restart. Where jobs share
    links, tables do not tell a gang's communication, so only single-GPU jobs count.

    Args:
        view: grants PROFILE and INTERFERENCE.
        step_s: (J,) measured seconds an iteration, NaN where there is none (`view.jobs.step_s`,
            with whatever error the measuring has).
    """
    rows = [_seen(view, step_s, job) for job in _accompanied(view)]
    found = np.array([row for row in rows if row is not None], dtype=np.float64).reshape(-1, 5)
    names = found[:, :3].astype(np.int64)
    return Observations(view.now_s, names[:, 0], names[:, 1], names[:, 2], found[:, 3], found[:, 4])


def _accompanied(view: ClusterView) -> list[int]:
    """Running jobs of the view with a neighbour, ascending."""
    jobs = np.unique(view.tenant[view.tenants > 1])
    return [int(job) for job in jobs[np.isin(jobs, view.running)]]


def _seen(
    view: ClusterView, step_s: FloatArray, job: int
) -> tuple[int, int, int, float, float] | None:
    """(GPU type, victim, aggressor, slow-down, compute share); None where it is ambiguous."""
    gpus = view.gpus_of(job)
    kinds = view.server_type[view.topology.gpu_server[gpus]]
    others = _neighbours(view, job, gpus)
    if len(others) == 0 or np.any(kinds != kinds[0]) or np.isnan(step_s[[job, *others]]).any():
        return None
    if view.belief.links is not None and len(gpus) > 1:
        return None
    profile, beside = int(view.jobs.profile[job]), view.jobs.profile[others]
    if np.any(beside != beside[0]):
        return None
    computes_s = float(step_s[job]) - _comm_s(view, profile, gpus)
    if computes_s <= 0.0:  # mismeasured
        return None
    alone_s = float(view.belief.catalogue.compute_s[profile, kinds[0]])
    share = computes_s / float(step_s[job])
    return int(kinds[0]), profile, int(beside[0]), computes_s / alone_s, share


def _neighbours(view: ClusterView, job: int, gpus: IntArray) -> IntArray:
    """The other tenants of the GPUs; none where a GPU has several, or one holds part of a GPU."""
    tenants = view.tenants[gpus]
    if tenants.max() > PAIR:
        return tenants[:0]
    others = view.tenant[gpus[tenants == PAIR], :PAIR].sum(axis=1) - job
    demands = view.jobs.demands
    if demands is not None and np.any(demands.gpu_milli[others] != WHOLE_GPU_MILLI):
        return others[:0]
    return others


def _comm_s(view: ClusterView, profile: int, gpus: IntArray) -> float:
    """Seconds of exposed communication on `gpus` now, as `NetworkTables` says."""
    servers, count = np.unique(view.topology.gpu_server[gpus], return_counts=True)
    racks = np.unique(view.topology.server_rack[servers])
    nic, uplink = int(view.nic_jobs[servers].max()), int(view.uplink_jobs[racks].max())
    spread = CommSpread(int(count.max()), len(servers), len(racks), max(1, nic), max(1, uplink))
    return told_s(view.belief.network, profile, spread)


@dataclass(frozen=True)
class Evidence:
    """Observations of ln(slow-down), cell by cell of T GPU types and P x P ordered pairs."""

    at_s: float  # time of the last update
    weight: FloatArray  # (T, P, P) [type, victim, aggressor] how many, each faded by its age
    total: FloatArray  # (T, P, P) sum of ln(slow-down), weighted alike

    def mean(self) -> FloatArray:
        """(T, P, P) weighted mean of ln(slow-down); 0 where nothing was observed."""
        return np.divide(
            self.total, self.weight, out=np.zeros_like(self.total), where=self.weight > 0
        )


def no_evidence(gpu_types: int, profiles: int) -> Evidence:
    """Nothing observed at time 0."""
    shape = (gpu_types, profiles, profiles)
    return Evidence(0.0, np.zeros(shape), np.zeros(shape))


def updated(evidence: Evidence, seen: Observations, half_life_s: float) -> Evidence:
    """The evidence at `seen.at_s`: the old one faded, the new one added.

    weight <- weight * 2^(-age / half-life) + sum of compute_share^2, since an observation whose
    step is partly communication is that much less precise; likewise the totals. A plain conjugate
    normal update for an infinite half-life; else exponential forgetting, under which the posterior
    falls back to the prior where nothing new is seen (Kulhavy and Zarrop, "On a general concept of
    forgetting", International Journal of Control 58, 1993).
    """
    kept = 0.5 ** ((seen.at_s - evidence.at_s) / half_life_s)
    weight, total = evidence.weight * kept, evidence.total * kept
    cells = (seen.gpu_type, seen.victim, seen.aggressor)
    worth = seen.compute_share**2
    np.add.at(weight, cells, worth)
    np.add.at(total, cells, worth * np.log(seen.slowdown))
    return Evidence(seen.at_s, weight, total)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Standard deviations in ln(slow-down): how wrong a belief may be, and one observation.

    ln(slow-down) of victim v beside aggressor a = ln(believed) + u_v + w_a + e_va.
    """

    victim: float  # of u_v, common to all pairs in which v suffers
    aggressor: float  # of w_a, common to all pairs in which a disturbs
    pair: float  # of e_va, of this pair alone
    observation: float  # of one measured ln(step)

    def __post_init__(self) -> None:
        """Check ranges.

        Raises:
            GpuYardError: naming the key, the value and the rule.
        """
        for key, value in vars(self).items():
            if not 0 < value < math.inf:
                raise GpuYardError(f"spread.{key} is {value!r}; it must be a number above 0")


def posterior_table(prior: PairTable, evidence: Evidence, spread: Spread) -> PairTable:
    """The believed table, each slow-down moved to its posterior mean, none below 1."""
    ln_prior = np.log(prior.slowdown)
    surprise = np.where(evidence.weight > 0, evidence.mean() - ln_prior, 0.0)
    moved = [
        _shift(*cells, spread) if cells[0].any() else np.zeros(cells[0].shape)
        for cells in zip(evidence.weight, surprise, strict=True)
    ]
    slowdown = np.maximum(1.0, prior.slowdown * np.exp(np.stack(moved)))
    return replace(prior, slowdown=slowdown)


def _shift(weight: FloatArray, surprise: FloatArray, spread: Spread) -> FloatArray:
    """(P, P) posterior mean of u_v + w_a + e_va on one GPU type.

    With e integrated out, the mean surprise r of a cell observed n times is normal around u_v + w_a
    with variance s^2 = pair^2 + observation^2 / n; so u and w solve a ridge regression, and the
    pair's own term is pair^2 / s^2 of what they leave over. Exact, since all is normal and linear
    (Gelman et al., Bayesian Data Analysis, 3rd ed., sections 5.4 and 14.8).
    """
    seen = weight > 0
    variance = spread.pair**2 + spread.observation**2 / np.where(seen, weight, 1.0)
    precision = np.where(seen, 1.0 / variance, 0.0)
    profiles = len(weight)
    ridge = np.repeat([spread.victim**-2, spread.aggressor**-2], profiles)
    sums = np.concatenate([precision.sum(axis=1), precision.sum(axis=0)])
    normal = np.diag(sums + ridge)
    normal[:profiles, profiles:] = precision
    normal[profiles:, :profiles] = precision.T
    pull = precision * surprise
    terms = np.linalg.solve(normal, np.concatenate([pull.sum(axis=1), pull.sum(axis=0)]))
    common = terms[:profiles, None] + terms[None, profiles:]
    own: FloatArray = spread.pair**2 * precision * (surprise - common)
    return common + own


NOISE_STREAM = 1  # of a run's seed; the scheduler inside has the seed itself


class OnlineScheduler:
    """Decides as the scheduler inside does, telling it an updated belief.

    At the first decision, and then at the first one `observe_every_s` or more after the last time,
    it reads the steps of the running jobs (`observe`), adds them to the evidence (`updated`) and
    works out the table (`posterior_table`). The scheduler inside is told the new table once some
    slow-down differs by more than `least_move` (in ln) from the one it was told.

    It is asked in Python: compiled code copies a belief once a run.
    """

    def __init__(
        self,
        *,
        scheduler: Scheduler,
        spread: Spread,
        half_life_s: float,
        observe_every_s: float,
        least_move: float,
        noise_sigma: float,
        start: Evidence | None = None,
    ) -> None:
        """Wrap `scheduler`.

        Args:
            scheduler: a queue scheduler, with partitions or without, that needs INTERFERENCE.
            spread: how wrong the belief may be, and one observation.
            half_life_s: age at which an observation counts half; inf: nothing is forgotten.
            observe_every_s: least time between two looks at the speeds.
            least_move: in ln(slow-down), above 0: what is less is not worth telling.
            noise_sigma: each step read is off by a log-normal factor of this sigma, drawn anew.
            start: evidence from before the run, its `at_s` on this run's clock; None: none.

        Raises:
            GpuYardError: the scheduler cannot be told anew, or a number is out of range.
        """
        _check_scheduler(scheduler)
        for key, value, least in (
            ("half_life_s", half_life_s, "above 0"),
            ("least_move", least_move, "above 0"),
            ("observe_every_s", observe_every_s, "0 or more"),
            ("noise_sigma", noise_sigma, "0 or more"),
        ):
            if not (value > 0 or (value == 0 and least == "0 or more")):
                raise GpuYardError(f"belief.update.{key} is {value!r}; it must be {least}")
        self.scheduler = scheduler
        self.name = f"{scheduler.name}+online"
        self.needs = scheduler.needs | Signal.PROFILE | Signal.INTERFERENCE | Signal.SPEED
        self._spread, self._half_life_s = spread, half_life_s
        self._observe_every_s, self._least_move = observe_every_s, least_move
        self._noise_sigma, self._start = noise_sigma, start
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Forget all but the evidence it was made with."""
        self.scheduler.reset(seed)
        self._rng = np.random.default_rng([seed, NOISE_STREAM])
        self._evidence = self._start
        self._look_s = -np.inf
        self._told: Physics | None = None  # what the scheduler inside goes by

    @property
    def evidence(self) -> Evidence | None:
        """What was observed so far; None before the first decision of a run without a start."""
        return self._evidence

    def continued(self, start: Evidence | None) -> "OnlineScheduler":
        """The same scheduler for another run, beginning with `start`."""
        return OnlineScheduler(
            scheduler=self.scheduler,
            spread=self._spread,
            half_life_s=self._half_life_s,
            observe_every_s=self._observe_every_s,
            least_move=self._least_move,
            noise_sigma=self._noise_sigma,
            start=start,
        )

    def decide(self, view: ClusterView) -> Decision:
        """The orders of the scheduler inside, under the belief of now."""
        told = view.belief if self._told is None else self._told
        if view.now_s >= self._look_s:
            self._look_s = view.now_s + self._observe_every_s
            told = self._told = self._after_a_look(view, told)
        return self.scheduler.decide(replace(view, known_physics=told))

    def _after_a_look(self, view: ClusterView, told: Physics) -> Physics:
        """What to tell once the running jobs were observed: `told` itself if little changes."""
        prior = view.belief.pairs
        before = self._evidence or no_evidence(*prior.slowdown.shape[:2])
        seen = observe(view, self._measured_s(view))
        self._evidence = updated(before, seen, self._half_life_s)
        table = posterior_table(prior, self._evidence, self._spread)
        moved = np.abs(np.log(table.slowdown / told.pairs.slowdown))
        return replace(told, pairs=table) if moved.max() > self._least_move else told

    def _measured_s(self, view: ClusterView) -> FloatArray:
        """(J,) steps as a monitor of this noise reads them."""
        step_s = view.jobs.step_s
        if self._noise_sigma == 0.0:
            return step_s
        running = view.running
        step_s[running] *= np.exp(self._rng.normal(0.0, self._noise_sigma, len(running)))
        return step_s


def _check_scheduler(scheduler: Scheduler) -> None:
    if not isinstance(scheduler, QueueScheduler | PartitionedScheduler):
        raise GpuYardError(
            f"scheduler {scheduler.name} reads its belief once a run; belief=online needs a queue "
            "scheduler (an order with a placer and a sharing rule)"
        )
