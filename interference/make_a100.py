"""Writes what the package ships about the A100, fitted to Sia's and MISO's measurements.

`interference.make_shipped` calls it. Equal input gives equal files, which hold coefficients and
errors, no measured row. Licences: MISO MIT; Sia's profiles are of AdaptDL's kind (Apache-2.0). MISO
ran seven jobs at a time at 100, 50 and 14 % of the GPU's threads. At 14 % a job
has its seventh to itself and is taken to be unimpeded, so that

    time at 100 % / time at 14 % = alone * (1 + sensitivity * sum of the other six jobs' loads)

with the filling process at load 0; `alone` is checked against slices, which no fit has seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from interference.readers.miso import DUMMY, JOBS, LEVELS, WHOLE_GPU_G, rows_of_miso
from interference.readers.table import file_of, read_table
from interference.rows import CoRows
from sim.arrays import BoolArray, FloatArray, IntArray
from sim.files import csv_text

SIA_FILE = "throughput/sia_placements.csv.gz"
SIA_COLUMNS = ("app", "gpu_type", "placement", "local_bsz", "step_time")
COMPUTED_APPS = ("gpt_pmp",)  # its step_time is the same for every placement: not a measured step


@dataclass(frozen=True)
class MeasuredStep:
    """One job alone on one placement."""

    source: str
    app: str
    gpu_type: str  # as the source names it
    placement: tuple[int, ...]  # GPUs on each server used
    batch: int  # samples a GPU and step; 0 where the file does not say
    step_s: float


def read_sia(data_dir: Path) -> list[MeasuredStep]:
    """Pollux and Sia profiles: one digit of `placement` a server.

    Raises:
        PhysicsError: naming file, line, column and value.
    """
    table = read_table(file_of(data_dir, SIA_FILE), SIA_COLUMNS)
    app, gpu_type, placement = (table.texts(name) for name in ("app", "gpu_type", "placement"))
    batch, step_s = table.wholes("local_bsz"), table.numbers("step_time")
    digits = [bool(text) and set(text) <= set("123456789") for text in placement]
    table.refuse("placement", ~np.array(digits), "expected digits from 1 to 9")
    table.refuse("local_bsz", batch < 1, "expected a number above 0")
    table.refuse("step_time", ~(step_s > 0.0) | np.isinf(step_s), "expected a number above 0")
    return [
        MeasuredStep("sia", name, kind, tuple(map(int, servers)), int(size), float(time_s))
        for name, kind, servers, size, time_s in zip(
            app, gpu_type, placement, batch, step_s, strict=True
        )
        if name not in COMPUTED_APPS
    ]


SIA_TYPES = ("dgx", "dgx-ext")  # both DGX-A100
SIA_APP = {"ResNet-18": "cifar10", "ResNet-50": "imagenet"}  # the same networks and data
LARGEST_BATCH = {"ResNet-18": 256, "ResNet-50": 128}  # of the catalogue
REACH = 1.6  # rows up to this many times the catalogue's largest batch are fitted
TURNS, FOLDS, SEED = 30, 5, 20
LEAST = 1e-3


@dataclass(frozen=True)
class Mixes:
    """R victims in mixes; P profiles, the dummy among them."""

    profiles: tuple[str, ...]
    victim: IntArray  # (R,)
    beside: FloatArray  # (R, P) how many neighbours of each profile
    ratio: FloatArray  # (R,) time at 100 % of the threads over that at 14 %
    mix: IntArray  # (R,)

    @property
    def dummy(self) -> int:
        """Its row."""
        return self.profiles.index(DUMMY)

    @property
    def neighbours(self) -> IntArray:
        """(R,) that are no dummies."""
        return np.asarray(JOBS - 1 - self.beside[:, self.dummy], dtype=np.int64)


@dataclass(frozen=True)
class MixFit:
    """Coefficients over P profiles; those of the dummy are 0."""

    alone: FloatArray  # (P,)
    sensitivity: FloatArray  # (P,)
    load: FloatArray  # (P,) mean 1 over the others

    def ratio(self, mixes: Mixes) -> FloatArray:
        """(R,) predicted."""
        excess = self.sensitivity[mixes.victim] * (mixes.beside @ self.load)
        predicted: FloatArray = self.alone[mixes.victim] * (1.0 + excess)
        return predicted


def write_a100(data_dir: Path, out_dir: Path) -> None:
    """Write `a100_steps.csv`, `a100_mixes.csv` and `a100_errors.csv`."""
    lines = {model: step_line(data_dir, model) for model in SIA_APP}
    steps = [[model, f"{base:.4g}", f"{slope:.4g}"] for model, (base, slope, _) in lines.items()]
    write_csv(out_dir / "a100_steps.csv", ["model", "base_s", "per_sample_s"], steps)
    rows = rows_of_miso(data_dir)[0]
    mixes = mixes_of(rows)
    fit = fit_mixes(mixes, np.ones(len(mixes.ratio), dtype=np.bool_))
    write_csv(
        out_dir / "a100_mixes.csv",
        ["model", "batch", "sensitivity", "load"],
        [
            [*name.rsplit("/", 1), f"{fit.sensitivity[p]:.4g}", f"{fit.load[p]:.4g}"]
            for p, name in enumerate(mixes.profiles)
            if name != DUMMY
        ],
    )
    errors = [error for _, _, each in lines.values() for error in each]
    held_out = held_out_errors(mixes)
    alone = alone_errors(rows, mixes, fit)
    found = {
        "steps": np.array(errors),
        "mixes": held_out,
        "pairs": held_out[mixes.neighbours == 1],  # a victim, one neighbour, five dummies
        "alone": alone,
    }
    table = [[fit, len(e), f"{np.mean(e):.3f}", f"{np.max(e):.3f}"] for fit, e in found.items()]
    write_csv(out_dir / "a100_errors.csv", ["fit", "rows", "mean_error", "largest_error"], table)


def step_line(data_dir: Path, model: str) -> tuple[float, float, list[float]]:
    """Base, slope and relative errors of the step time of one GPU by batch."""
    found: dict[int, list[float]] = {}
    for step in read_sia(data_dir):
        alone = step.app == SIA_APP[model] and step.gpu_type in SIA_TYPES and step.placement == (1,)
        if alone and step.batch <= REACH * LARGEST_BATCH[model]:
            found.setdefault(step.batch, []).append(step.step_s)
    batch = np.array(sorted(found), dtype=np.float64)
    step_s = np.array([np.mean(found[int(size)]) for size in batch])
    slope, base = np.polyfit(batch, step_s, 1, w=1.0 / step_s)
    errors = np.abs((base + slope * batch) / step_s - 1.0)
    return float(base), float(slope), [float(error) for error in errors]


def mixes_of(rows: CoRows) -> Mixes:
    """The mixes at 100 % and 14 % of the threads, without the dummies as victims."""
    shared = rows.sharing == "gpu"
    victim = rows.victim[shared].reshape(-1, JOBS, len(LEVELS))[:, :, 0]
    speed = rows.norm_speed[shared].reshape((*victim.shape, len(LEVELS)))
    profiles = tuple(sorted(set(victim.ravel())))
    number = {name: p for p, name in enumerate(profiles)}
    jobs = np.array([[number[name] for name in mix] for mix in victim], dtype=np.int64)
    count = np.zeros((len(jobs), len(profiles)))
    for job in range(JOBS):
        np.add.at(count, (np.arange(len(jobs)), jobs[:, job]), 1.0)
    flat = jobs.ravel()
    beside = np.repeat(count, JOBS, axis=0)
    beside[np.arange(len(flat)), flat] -= 1.0
    real = flat != number[DUMMY]
    return Mixes(
        profiles=profiles,
        victim=flat[real],
        beside=beside[real],
        ratio=(speed[:, :, -1] / speed[:, :, 0]).ravel()[real],
        mix=np.repeat(np.arange(len(jobs)), JOBS)[real],
    )


def fit_mixes(mixes: Mixes, used: BoolArray) -> MixFit:
    """Least squares of the relative error over the rows `used` (R,), victims and loads in turns."""
    profiles = len(mixes.profiles)
    base, slope = np.zeros(profiles), np.zeros(profiles)
    load = np.ones(profiles)
    load[mixes.dummy] = 0.0
    for _ in range(TURNS):
        total = mixes.beside @ load
        for p in range(profiles):
            rows = np.flatnonzero(used & (mixes.victim == p))
            if len(rows) == 0:
                continue
            design = np.column_stack([np.ones(len(rows)), total[rows]]) / mixes.ratio[rows, None]
            found = np.linalg.lstsq(design, np.ones(len(rows)), rcond=None)[0]
            base[p], slope[p] = max(found[0], LEAST), max(found[1], 0.0)
        load = _loads(mixes, used, base, slope)
    scale = load.sum() / (profiles - 1)
    sensitivity = scale * np.divide(slope, base, out=np.zeros(profiles), where=base > 0.0)
    return MixFit(alone=base, sensitivity=sensitivity, load=load / scale)


def held_out_errors(mixes: Mixes) -> FloatArray:
    """(R,) relative errors of mixes that the fit has not seen, in five parts."""
    part = np.random.default_rng(SEED).integers(0, FOLDS, mixes.mix.max() + 1)[mixes.mix]
    errors = np.empty(len(mixes.ratio))
    for fold in range(FOLDS):
        out = part == fold
        predicted = fit_mixes(mixes, ~out).ratio(mixes)
        errors[out] = np.abs(predicted[out] / mixes.ratio[out] - 1.0)
    return errors


def alone_errors(rows: CoRows, mixes: Mixes, fit: MixFit) -> FloatArray:
    """Relative errors of `alone` against the speed on a slice of one seventh."""
    slices = rows.sharing == "mig"
    seventh = slices & (np.round(rows.share * WHOLE_GPU_G) == 1)
    pairs = zip(rows.victim[seventh], rows.norm_speed[seventh], strict=True)
    return np.array(
        [abs(fit.alone[mixes.profiles.index(name)] / speed - 1.0) for name, speed in pairs]
    )


def _loads(mixes: Mixes, used: BoolArray, base: FloatArray, slope: FloatArray) -> FloatArray:
    """(P,) loads, none below 0; that of the dummy is 0."""
    weight = 1.0 / mixes.ratio[used]
    design = mixes.beside[used] * (slope[mixes.victim[used]] * weight)[:, None]
    design[:, mixes.dummy] = 0.0
    target = 1.0 - base[mixes.victim[used]] * weight
    gram = design.T @ design + 1e-9 * np.eye(len(base))
    load: FloatArray = nnls(gram, design.T @ target)[0]
    load[mixes.dummy] = 0.0
    return load


def write_csv(path: Path, header: list[str], rows: Sequence[Sequence[object]]) -> None:
    """Rows below a header; folders that are missing are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(csv_text(header, rows), encoding="utf-8", newline="")
