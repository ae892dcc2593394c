"""Durations by random forest on recurrence features, fitted on the past only."""

from dataclasses import dataclass

import joblib
import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.preprocessing import OneHotEncoder

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.errors import TraceError, check_numbers
from sim.traces.estimators import NAMES, SHORTEST_S, checked_prior_s, known_s, recurrence_features
from sim.traces.trace import Trace

GROUP_MEDIAN, GROUP_COUNT, MEDIAN = map(NAMES.index, ("group_median", "group_count", "median"))

MOST_KEPT = 64
_kept: dict[str, FloatArray] = {}  # latest predictions by a digest of all that they depend on:
# one window is played by many schedulers, with several numbers of agents, in cells of a table

LUCK = 0.05  # share of jobs; that so few were shorter than a quantum may be chance


@dataclass(frozen=True)
class _Pool:
    """Jobs of one kind in order of their finish, and how many are known at some submissions."""

    rows: IntArray  # (P,)
    done: IntArray  # (K,) how many of `rows` have finished before each submission

    @classmethod
    def of(cls, trace: Trace, rows: IntArray, submit_s: FloatArray) -> "_Pool":
        finish_s = known_s(trace)[rows]
        order = np.argsort(finish_s, kind="stable")
        return cls(rows[order], np.searchsorted(finish_s[order], submit_s, side="left"))


@dataclass(frozen=True, kw_only=True)
class RandomForestEstimator:
    """Predicts durations by random forest, as A-SRPT (Luo et al., INFOCOM 2025) predicts runs.

    Jobs whose group has finished runs and jobs without have forests of their own, since the first
    repeat closely and the others spread widely: one forest would blur what groups say. The target
    of the first is ln(duration / median of the group's finished runs), of the others ln duration.

    A forest of logarithms predicts about the median. Where work is added up, as in A-SRPT's virtual
    machine, medians of heavy tails promise too little; `smearing` multiplies by the mean of what
    the fit leaves over (Duan, JASA 78(383), 1983), which gives means and larger errors.

    Where predictions say who goes first and one may be stopped again, what counts is neither: a job
    that is short in one case of four is worth trying before one that takes a known hour. `gittins`
    predicts the inverse of the Gittins index of a fresh job (Gittins, J. R. Stat. Soc. B 41(2),
    1979; Aalto et al., Queueing Systems 63, 2009), the least expected work a completion: over all
    quanta, the mean of the work done within one by the chance to finish within it. It is taken over
    the finished jobs that share leaves with the job; a quantum lets at least `LUCK` of them finish.

    Every `refit_jobs` submissions of a kind a new forest is fitted on jobs that have finished by
    then, at most the latest `train_jobs`, and predicts the submissions up to the next fit in one
    batch. Submissions are counted in the window; jobs outside it are learned from, not predicted.
    With fewer than `first_jobs` finished of a kind, the median of the group is predicted, or of
    all. The paper leaves its features open; those chosen here are those of
    `sim.traces.estimators`.
    """

    assumed = "predicted by a random forest on finished jobs (gittins: {gittins})"

    trees: int
    min_leaf: int  # jobs in a leaf, at least
    features_frac: float  # share of the features that a split chooses from
    refit_jobs: int  # submissions of a kind between fits
    first_jobs: int  # finished jobs of a kind before the first fit
    train_jobs: int  # finished jobs a fit uses, at most
    smearing: bool  # predict means instead of medians
    prior_s: float  # predicted before any job has finished
    gittins: bool = False  # predict the least expected work a completion instead
    information = "predicted"

    def __post_init__(self) -> None:
        """Check ranges."""
        for key in ("trees", "min_leaf", "refit_jobs", "first_jobs", "train_jobs"):
            value = getattr(self, key)
            if type(value) is not int or value < 1:
                raise TraceError(f"estimator.{key} is {value}; it must be a whole number from 1")
        if self.smearing and self.gittins:
            raise TraceError("estimator.smearing and estimator.gittins are both true; choose one")
        frac = {"features_frac": self.features_frac}
        check_numbers("estimator", "above 0, at most 1", TraceError, **frac)
        checked_prior_s(self.prior_s)

    def estimate(self, trace: Trace, rng: np.random.Generator) -> FloatArray:
        """(J,) predicted seconds, from the jobs of `trace` alone; `rng` seeds the forests."""
        return self.estimate_rows(trace, np.arange(len(trace)), rng)

    def estimate_rows(self, trace: Trace, rows: IntArray, rng: np.random.Generator) -> FloatArray:
        """(K,) predicted seconds of the jobs at `rows`, from all finished jobs of `trace`."""
        features = recurrence_features(trace, self.prior_s)
        repeats: BoolArray = features[:, GROUP_COUNT] > 0.0
        # Of a group, what is known of it; targets are relative to that, and of others absolute.
        group_ln_s = np.where(repeats, features[:, GROUP_MEDIAN], 0.0)
        target = np.log(np.maximum(trace.duration_s, SHORTEST_S)) - group_ln_s
        found = np.where(repeats, 0.0, features[:, MEDIAN])
        seeds = rng.integers(1 << 31, size=2)
        known = (features, trace.submit_s, trace.duration_s, known_s(trace), rows, seeds)
        key = str(joblib.hash((str(type(self)), vars(self), *map(np.ascontiguousarray, known))))
        if key not in _kept:
            for kind, seed in zip((repeats, ~repeats), seeds, strict=True):
                asked = rows[kind[rows]]
                pool = _Pool.of(trace, np.flatnonzero(kind), trace.submit_s[asked])
                self._foresee(found, asked, pool, (features, target), int(seed))
            while len(_kept) >= MOST_KEPT:
                del _kept[next(iter(_kept))]
            _kept[key] = np.exp(group_ln_s + found)[rows]
        return _kept[key].copy()

    def _foresee(
        self,
        found: FloatArray,
        asked: IntArray,
        pool: "_Pool",
        known: tuple[FloatArray, FloatArray],
        seed: int,
    ) -> None:
        """Write to `found` (J,) what forests fitted on the past predict of the rows `asked` (K,).

        `asked` are of one kind, of which `pool` knows; `known`: features (J, F), targets (J,).
        Where too few have finished, `found` is left alone.
        """
        features, target = known
        for first in range(0, len(asked), self.refit_jobs):
            finished = int(pool.done[first])
            if finished >= self.first_jobs:
                seen = pool.rows[max(0, finished - self.train_jobs) : finished]
                forest = self._fitted(features[seen], target[seen], (seed + first) % (1 << 31))
                batch = asked[first : first + self.refit_jobs]
                if self.gittins:
                    found[batch] = _ln_work_a_completion(
                        forest, features[seen], target[seen], features[batch]
                    )
                    continue
                found[batch] = forest.predict(features[batch])
                if self.smearing:
                    rest = target[seen] - forest.predict(features[seen])
                    found[batch] += np.log(np.exp(rest).mean())

    def _fitted(self, features: FloatArray, target: FloatArray, seed: int) -> RandomForestRegressor:
        forest = RandomForestRegressor(
            n_estimators=self.trees,
            min_samples_leaf=self.min_leaf,
            max_features=self.features_frac,
            n_jobs=1,
            random_state=seed,
        )
        return forest.fit(features, target)


def _ln_work_a_completion(
    forest: RandomForestRegressor, seen: FloatArray, target: FloatArray, asked: FloatArray
) -> FloatArray:
    """(K,) ln of the least expected work a completion of `asked` (K, F), in units of exp(target).

    The forest is fitted on `seen` (S, F), features of finished jobs, and `target` (S,), ln of what
    they took.
    """
    order = np.argsort(target, kind="stable")
    took = np.exp(target[order])
    leaves = OneHotEncoder()
    members = leaves.fit_transform(forest.apply(seen[order]))  # (S, leaves of all trees), sparse
    weight = members.multiply(1.0 / members.sum(axis=0)).tocsr()  # of a member among its leaf's
    shares = (leaves.transform(forest.apply(asked)) @ weight.T).tocsr()  # (K, S)
    shares.sort_indices()  # shortest first
    least = np.empty(len(asked))
    for k in range(len(asked)):
        here = slice(shares.indptr[k], shares.indptr[k + 1])
        share, work = shares.data[here], took[shares.indices[here]]
        done = np.cumsum(share) / share.sum()
        within = np.cumsum(share * work) / share.sum() + work * (1.0 - done)
        least[k] = (within / done)[done >= LUCK].min()
    return np.log(least)
