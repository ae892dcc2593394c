"""Rows as arrays: features of victims and aggressors, standardised as the fitted rows say."""

from dataclasses import dataclass, fields, replace

import numpy as np

from interference.models.job_features import JobFeatures, job_features
from interference.rows import CoRows, SoloProfiles
from sim.arrays import FloatArray, IntArray

UNKNOWN = -1


@dataclass(frozen=True)
class Encoded:
    """N rows with up to A aggressors, F features a job."""

    victim: FloatArray  # (N, F) standardised; 0 where unknown
    aggressors: FloatArray  # (N, A, F) 0 where unknown or absent
    present: FloatArray  # (N, A) 1 where there is an aggressor
    share: FloatArray  # (N,)
    gpu_type: IntArray  # (N,) index among the fitted types, UNKNOWN for others
    victim_profile: IntArray  # (N,) index among the fitted profiles, UNKNOWN for others
    victim_model: IntArray  # (N,) likewise of models
    aggressor_profile: IntArray  # (N, A) UNKNOWN also where absent
    aggressor_model: IntArray  # (N, A)

    def take(self, index: IntArray) -> "Encoded":
        """The rows of `index`."""
        names = [field.name for field in fields(self)]
        return replace(self, **{name: getattr(self, name)[index] for name in names})

    def pooled(self) -> tuple[FloatArray, FloatArray]:
        """(N, F) mean and sum of the aggressors' features."""
        total = self.aggressors.sum(axis=1)
        return total / np.maximum(self.present.sum(axis=1, keepdims=True), 1.0), total

    def known(self) -> FloatArray:
        """(N,) 1.0 where every job's model was among the fitted rows."""
        others = (self.aggressor_model != UNKNOWN) | (self.present == 0.0)
        return np.asarray((self.victim_model != UNKNOWN) & others.all(axis=1), dtype=np.float64)


class RowEncoder:
    """Learns names, scales and the range of each feature from the fitted rows.

    Features that no fitted row varies in are left out. Values beyond the fitted range are cut to
    it, so that no model extrapolates; a job that lacks one is taken as the median job.
    """

    def __init__(self, rows: CoRows, solos: SoloProfiles) -> None:
        """Take names, centre and scale from `rows`."""
        features = job_features(solos)
        jobs = _jobs(rows)
        values = np.stack([features.values[key] for key in jobs])
        spread = np.nanmax(values, axis=0, initial=-np.inf, where=~np.isnan(values))
        spread = spread - np.nanmin(values, axis=0, initial=np.inf, where=~np.isnan(values))
        self._keep = np.flatnonzero(np.isfinite(spread) & (spread > 0.0))
        kept = values[:, self._keep]
        self.feature_names = tuple(features.names[i] for i in self._keep)
        self._middle = np.nanmedian(kept, axis=0)
        filled = np.where(np.isnan(kept), self._middle, kept)
        self._low, self._high = filled.min(axis=0), filled.max(axis=0)
        self._mean, self._sd = filled.mean(axis=0), np.maximum(filled.std(axis=0), 1e-9)
        model = {key: name for key, name in zip(solos.keys(), solos.model, strict=True)}
        self.gpu_types = tuple(sorted(set(rows.gpu_type)))
        self.profiles = tuple(sorted({key[2] for key in jobs}))
        self.models = tuple(sorted({model[key] for key in jobs}))

    def encode(self, rows: CoRows, solos: SoloProfiles) -> Encoded:
        """Rows as arrays; every job needs a solo profile of the row's source and GPU type."""
        told = self._told(job_features(solos), solos)
        n, most = len(rows), max((len(each) for each in rows.aggressors), default=0)
        others = np.zeros((n, most, len(self._keep)))
        present = np.zeros((n, most))
        names = np.full((2, n, most), UNKNOWN, dtype=np.int64)
        victim, own = np.zeros((n, len(self._keep))), np.full((2, n), UNKNOWN, dtype=np.int64)
        facts = zip(rows.source, rows.gpu_type, rows.victim, rows.aggressors, strict=True)
        for row, (source, gpu_type, job, aggressors) in enumerate(facts):
            victim[row], own[0, row], own[1, row] = told[source, gpu_type, job]
            for at, name in enumerate(aggressors):
                one = told[source, gpu_type, name]
                others[row, at], names[0, row, at], names[1, row, at] = one
                present[row, at] = 1.0
        types = {name: i for i, name in enumerate(self.gpu_types)}
        kinds = np.array([types.get(name, UNKNOWN) for name in rows.gpu_type], dtype=np.int64)
        return Encoded(
            victim, others, present, rows.share, kinds, own[0], own[1], names[0], names[1]
        )

    def _told(
        self, features: JobFeatures, solos: SoloProfiles
    ) -> dict[tuple[str, str, str], tuple[FloatArray, int, int]]:
        at = {name: i for i, name in enumerate(features.names)}
        columns = [at.get(name, UNKNOWN) for name in self.feature_names]
        profile = {name: i for i, name in enumerate(self.profiles)}
        model = {name: i for i, name in enumerate(self.models)}
        told = {}
        for key, name in zip(solos.keys(), solos.model, strict=True):
            padded = np.append(features.values[key], np.nan)  # column UNKNOWN is the last
            raw = padded[columns]
            cut = np.clip(np.where(np.isnan(raw), self._middle, raw), self._low, self._high)
            told[key] = (
                (cut - self._mean) / self._sd,
                profile.get(key[2], UNKNOWN),
                model.get(name, UNKNOWN),
            )
        return told


def _jobs(rows: CoRows) -> list[tuple[str, str, str]]:
    """Key of each victim and each aggressor, as often as it occurs."""
    jobs = []
    for source, gpu_type, victim, aggressors in zip(
        rows.source, rows.gpu_type, rows.victim, rows.aggressors, strict=True
    ):
        jobs += [(source, gpu_type, name) for name in (victim, *aggressors)]
    return jobs
