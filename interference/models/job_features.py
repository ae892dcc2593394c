"""Numbers that describe a job by its runs alone: no name, nothing measured while co-located."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from interference.rows import STAGES, Key, SoloProfiles
from sim.arrays import FloatArray

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
    model and batch) and, where no batch is known, from all runs of its model.
    """
    told = [_own(solos, row) for row in range(len(solos))]
    for more in (_on_other_types(solos), _of_gangs(solos), _of_model(solos)):
        for facts, extra in zip(told, more, strict=True):
            facts |= extra
    names = tuple(sorted({name for facts in told for name in facts}))
    values = [np.array([facts.get(name, np.nan) for name in names]) for facts in told]
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
    told = []
    for source, gpu_type, profile in solos.keys():  # noqa: SIM118  (not a mapping)
        told.append(
            {
                f"ln_step_{other}": step.get((source, other, profile), np.nan)
                - step[source, gpu_type, profile]
                for from_source, other in types
                if from_source == source
            }
        )
    return told


def _of_gangs(solos: SoloProfiles) -> list[dict[str, float]]:
    """Logarithm of a gang's speed-up on one server, and of what spreading it leaves."""
    speed: dict[tuple[object, ...], dict[tuple[int, int], float]] = defaultdict(dict)
    kinds = list(zip(solos.source, solos.gpu_type, solos.model, solos.batch, strict=True))
    for row, kind in enumerate(kinds):
        if solos.batch[row] > 0:
            where = (int(solos.gpus[row]), int(solos.nodes[row]))
            speed[kind][where] = -_log(solos.step_s[row])
    told = []
    for kind in kinds:
        mine, facts = speed[kind], {}
        for gpus in GANGS:
            one = mine.get((gpus, 1), np.nan)
            facts[f"ln_gain_{gpus}"] = one - mine.get((1, 1), np.nan)
            facts[f"ln_spread_{gpus}"] = mine.get((gpus, 0), np.nan) - one
        told.append(facts)
    return told


def _of_model(solos: SoloProfiles) -> list[dict[str, float]]:
    """How samples a second grow with GPUs and nodes over all runs of a model without a batch."""
    runs: dict[tuple[object, ...], list[int]] = defaultdict(list)
    kinds = list(zip(solos.source, solos.gpu_type, solos.model, strict=True))
    for row, kind in enumerate(kinds):
        if solos.batch[row] == 0 and solos.samples_per_s[row] > 0 and solos.nodes[row] > 0:
            runs[kind].append(row)
    told: list[dict[str, float]] = [{} for _ in kinds]
    for rows in runs.values():
        if len(rows) < LEAST_RUNS:
            continue
        gpus, nodes = np.log2(solos.gpus[rows]), np.log2(solos.nodes[rows])
        design = np.stack([np.ones(len(rows)), gpus, nodes], axis=1)
        ln_speed = np.log(solos.samples_per_s[rows])
        plane, *_ = np.linalg.lstsq(design, ln_speed, rcond=None)
        share = ln_speed - gpus * np.log(2.0)  # a GPU
        for at, row in enumerate(rows):
            told[row] = {
                "growth_gpus": float(plane[1]),
                "growth_nodes": float(plane[2]),
                "ln_over_plane": float(ln_speed[at] - design[at] @ plane),
                "ln_efficiency": float(share[at] - share.max()),
            }
    return told
