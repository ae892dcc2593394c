"""Rows as arrays: features of victims and aggressors, standardised as the fitted rows say.

And the role of a co-location model.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from interference.rows import STAGES, CoRows, Key, SoloProfiles
from sim.arrays import FloatArray, IntArray, Rows

LEAST_SPEED = 0.05  # no prediction below this normalised speed (a slow-down of 20)


@dataclass(frozen=True)
class Prediction:
    """What a model says of N rows."""

    norm_speed: FloatArray  # (N,) at least LEAST_SPEED
    sd: FloatArray  # (N,) standard deviation that the model expects of its error, above 0


class SpeedModel(Protocol):
    """Learns normalised speed from rows and the solo profiles of their jobs."""

    @property
    def name(self) -> str:
        """Short name in tables and files."""

    def fit(self, rows: CoRows, solos: SoloProfiles) -> None:
        """Learn from feasible rows with a measured speed; forgets what was learned before."""

    def predict(self, rows: CoRows, solos: SoloProfiles) -> Prediction:
        """Predict rows; their `norm_speed` is not read, their jobs may be new."""


def prediction(norm_speed: FloatArray, sd: FloatArray | float) -> Prediction:
    """A prediction with the floors of its fields."""
    speed = np.maximum(norm_speed, LEAST_SPEED)
    return Prediction(speed, np.maximum(np.broadcast_to(sd, speed.shape), 1e-3))


GANGS = (2, 4, 8)
LEAST_RUNS = 3  # of a model, for a plane through its throughputs


@dataclass(frozen=True)
class JobFeatures:
    """F numbers of every profile; NaN where its source does not tell."""

    names: tuple[str, ...]  # (F,)
    values: dict[Key, FloatArray]  # (F,) each


def job_features(solos: SoloProfiles) -> JobFeatures:
    """Features of all profiles.

    Step time (here, on other GPU types, a sample), utilisations, memory, stages, numbers of GPUs
    and nodes; and how the job's throughput grows with GPUs and nodes, from its own gangs (same
    model, batch and precision) and, where no batch is known, from all runs of its model.
    """
    features = [_own(solos, row) for row in range(len(solos))]
    for more in (_on_other_types(solos), _of_gangs(solos), _of_model(solos)):
        for facts, extra in zip(features, more, strict=True):
            facts |= extra
    names = tuple(sorted({name for facts in features for name in facts}))
    values = [np.array([facts.get(name, np.nan) for name in names]) for facts in features]
    return JobFeatures(names, dict(zip(solos.keys(), values, strict=True)))


def _log(value: float) -> float:
    return float(np.log(value)) if value > 0 else float("nan")  # NaN stays NaN


def _own(solos: SoloProfiles, row: int) -> dict[str, float]:
    step, batch = _log(solos.step_s[row]), _log(float(solos.batch[row]))
    facts = {
        "ln_step": step,
        "ln_batch": batch,
        "ln_step_a_sample": step - batch,
        "ln_samples_per_s": _log(solos.samples_per_s[row]),
        "amp": float(solos.amp[row]),
        "gpu_util": float(solos.gpu_util[row]),
        "gmem_util": float(solos.gmem_util[row]),
        "ln_gmem": _log(solos.gmem_mib[row]),
        "ln_bandwidth": _log(solos.bandwidth_gb_per_s[row]),
        "ln_gpus": _log(float(solos.gpus[row])),
        "ln_nodes": _log(float(solos.nodes[row])),
    }
    return facts | {name: float(getattr(solos, name)[row] / solos.step_s[row]) for name in STAGES}


def _on_other_types(solos: SoloProfiles) -> list[dict[str, float]]:
    """Logarithm of the step time on each GPU type of the source over that on the row's own."""
    step = {key: _log(s) for key, s in zip(solos.keys(), solos.step_s, strict=True)}
    types = sorted({key[:2] for key in step})
    features = []
    for source, gpu_type, profile in solos.keys():  # noqa: SIM118  (not a mapping)
        features.append(
            {
                f"ln_step_{other}": step.get((source, other, profile), np.nan)
                - step[source, gpu_type, profile]
                for from_source, other in types
                if from_source == source
            }
        )
    return features


def _of_gangs(solos: SoloProfiles) -> list[dict[str, float]]:
    """Logarithm of a gang's speed-up on one server, and of what spreading it leaves."""
    speed: dict[tuple[object, ...], dict[tuple[int, int], float]] = defaultdict(dict)
    same = (solos.source, solos.gpu_type, solos.model, solos.batch, solos.amp)
    kinds = list(zip(*same, strict=True))
    for row, kind in enumerate(kinds):
        if solos.batch[row] > 0:
            where = (int(solos.gpus[row]), int(solos.nodes[row]))
            speed[kind][where] = -_log(solos.step_s[row])
    features = []
    for kind in kinds:
        mine, facts = speed[kind], {}
        for gpus in GANGS:
            one = mine.get((gpus, 1), np.nan)
            facts[f"ln_gain_{gpus}"] = one - mine.get((1, 1), np.nan)
            facts[f"ln_spread_{gpus}"] = mine.get((gpus, 0), np.nan) - one
        features.append(facts)
    return features


def _of_model(solos: SoloProfiles) -> list[dict[str, float]]:
    """How samples a second grow with GPUs and nodes over all runs of a model without a batch."""
    runs: dict[tuple[object, ...], list[int]] = defaultdict(list)
    kinds = list(zip(solos.source, solos.gpu_type, solos.model, strict=True))
    for row, kind in enumerate(kinds):
        if solos.batch[row] == 0 and solos.samples_per_s[row] > 0 and solos.nodes[row] > 0:
            runs[kind].append(row)
    features: list[dict[str, float]] = [{} for _ in kinds]
    for rows in runs.values():
        if len(rows) < LEAST_RUNS:
            continue
        gpus, nodes = np.log2(solos.gpus[rows]), np.log2(solos.nodes[rows])
        design = np.stack([np.ones(len(rows)), gpus, nodes], axis=1)
        ln_speed = np.log(solos.samples_per_s[rows])
        plane, *_ = np.linalg.lstsq(design, ln_speed, rcond=None)
        share = ln_speed - gpus * np.log(2.0)  # a GPU
        for at, row in enumerate(rows):
            features[row] = {
                "growth_gpus": float(plane[1]),
                "growth_nodes": float(plane[2]),
                "ln_over_plane": float(ln_speed[at] - design[at] @ plane),
                "ln_efficiency": float(share[at] - share.max()),
            }
    return features


UNKNOWN = -1


@dataclass(frozen=True)
class Encoded(Rows):
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
        encoded = self._encoded_jobs(job_features(solos), solos)
        n, most = len(rows), max((len(each) for each in rows.aggressors), default=0)
        others = np.zeros((n, most, len(self._keep)))
        present = np.zeros((n, most))
        names = np.full((2, n, most), UNKNOWN, dtype=np.int64)
        victim, own = np.zeros((n, len(self._keep))), np.full((2, n), UNKNOWN, dtype=np.int64)
        facts = zip(rows.source, rows.gpu_type, rows.victim, rows.aggressors, strict=True)
        for row, (source, gpu_type, job, aggressors) in enumerate(facts):
            victim[row], own[0, row], own[1, row] = encoded[source, gpu_type, job]
            for at, name in enumerate(aggressors):
                one = encoded[source, gpu_type, name]
                others[row, at], names[0, row, at], names[1, row, at] = one
                present[row, at] = 1.0
        types = {name: i for i, name in enumerate(self.gpu_types)}
        gpu_types = np.array([types.get(name, UNKNOWN) for name in rows.gpu_type], dtype=np.int64)
        return Encoded(
            victim, others, present, rows.share, gpu_types, own[0], own[1], names[0], names[1]
        )

    def _encoded_jobs(
        self, features: JobFeatures, solos: SoloProfiles
    ) -> dict[tuple[str, str, str], tuple[FloatArray, int, int]]:
        at = {name: i for i, name in enumerate(features.names)}
        columns = [at.get(name, UNKNOWN) for name in self.feature_names]
        profile = {name: i for i, name in enumerate(self.profiles)}
        model = {name: i for i, name in enumerate(self.models)}
        encoded = {}
        for key, name in zip(solos.keys(), solos.model, strict=True):
            padded = np.append(features.values[key], np.nan)  # column UNKNOWN is the last
            raw = padded[columns]
            cut = np.clip(np.where(np.isnan(raw), self._middle, raw), self._low, self._high)
            encoded[key] = (
                (cut - self._mean) / self._sd,
                profile.get(key[2], UNKNOWN),
                model.get(name, UNKNOWN),
            )
        return encoded


def _jobs(rows: CoRows) -> list[tuple[str, str, str]]:
    """Key of each victim and each aggressor, as often as it occurs."""
    jobs = []
    for source, gpu_type, victim, aggressors in zip(
        rows.source, rows.gpu_type, rows.victim, rows.aggressors, strict=True
    ):
        jobs += [(source, gpu_type, name) for name in (victim, *aggressors)]
    return jobs
