"""Writes the numbers that the package ships, from measured Gavel files (MIT licence).

Run `python -m interference.make_shipped --data DIR`. Equal input gives equal files. Nothing
written is a measured row: step times and sync bytes are straight-line fits by model,
co-location is drawn from additive terms by model, a residual of the fitted spread, and the
share of pairs that did not fit into memory.

What is shipped about the A100 is fitted to MISO's measurements (MIT), which ran seven jobs at a
time at 100, 50 and 14 % of the GPU's threads. At 14 % a job has its seventh to itself and is taken
to be unimpeded, so that

    time at 100 % / time at 14 % = alone * (1 + sensitivity * sum of the other six jobs' loads)

with the filling process at load 0; `alone` is checked against slices, which no fit has seen.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from interference.data_sets import data_sets
from interference.fit import SAVED, saved_model
from interference.learned import SHIPPED_DIR as MODELS_DIR
from interference.learned import save_model
from interference.measured import MeasuredProfiles, pair_speeds, read_pairs
from interference.readers.miso import DUMMY, JOBS, LEVELS, WHOLE_GPU_G, rows_of_miso
from interference.rows import CoRows
from sim.arrays import BoolArray, FloatArray, IntArray
from sim.files import csv_text
from sim.physics.catalogue import Catalogue
from sim.physics.mix_table import AdditiveFit, fit_additive
from sim.physics.shipped_files import SHIPPED_DIR, profile_key

TURNS = 30
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
    """Write `a100_mixes.csv` and `a100_errors.csv`."""
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
    held_out = held_out_errors(mixes)
    alone = alone_errors(rows, mixes, fit)
    found = {
        "mixes": held_out,
        "pairs": held_out[mixes.neighbours == 1],  # a victim, one neighbour, five dummies
        "alone": alone,
    }
    table = [[fit, len(e), f"{np.mean(e):.3f}", f"{np.max(e):.3f}"] for fit, e in found.items()]
    write_csv(out_dir / "a100_errors.csv", ["fit", "rows", "mean_error", "largest_error"], table)


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


SEED, FOLDS = 20, 5
LEAST_NORM = 0.08  # the slowest side of the source runs at 0.09 of its solo speed

Line = tuple[str, float, float]  # a model, and base and slope over its batch sizes


def main() -> None:
    """Read the measured files and write the shipped ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the measured data")
    data_dir: Path = parser.parse_args().data
    write_profiles(MeasuredProfiles(data_dir=data_dir), SHIPPED_DIR)
    write_pairs(data_dir, SHIPPED_DIR)
    write_default_model(data_dir)
    write_a100(data_dir, SHIPPED_DIR)


def write_profiles(catalogue: Catalogue, out_dir: Path) -> None:
    """Write `steps.csv` and `models.csv`: coefficients of step time and sync bytes."""
    steps = []
    for column, gpu_type in enumerate(catalogue.gpu_types):
        for model, base, slope in step_lines(catalogue, column):
            steps.append([gpu_type, model, f"{base:.4g}", f"{slope:.4g}"])
    write_csv(out_dir / "steps.csv", ["gpu_type", "model", "base_s", "per_sample_s"], steps)
    models = []
    for model, base, slope in sync_lines(catalogue):
        rows = [i for i, name in enumerate(catalogue.names) if profile_key(name)[0] == model]
        batches = " ".join(str(profile_key(catalogue.names[i])[1]) for i in rows)
        gang_ok = int(catalogue.gang_ok[rows[0]])
        models.append([model, batches, f"{base:.3g}", f"{slope:.3g}", gang_ok])
    header = ["model", "batches", "sync_base_bytes", "sync_bytes_per_doubling", "gang_ok"]
    write_csv(out_dir / "models.csv", header, models)


def step_lines(catalogue: Catalogue, column: int) -> list[Line]:
    """Step time by batch, smallest squared relative error, both coefficients 0 or more."""
    lines = []
    for model, batch, rows in _by_model(catalogue.names):
        step_s = catalogue.compute_s[rows, column]
        slope, base = np.polyfit(batch, step_s, 1, w=1.0 / step_s)
        if base < 0:
            ratio = batch / step_s
            base, slope = 0.0, ratio.sum() / (ratio**2).sum()
        lines.append((model, float(base), float(slope)))
    return lines


def sync_lines(catalogue: Catalogue) -> list[Line]:
    """Sync bytes by log2(batch), least squares."""
    lines = []
    for model, batch, rows in _by_model(catalogue.names):
        slope, base = np.polyfit(np.log2(batch), catalogue.sync_bytes[rows], 1)
        lines.append((model, float(base), float(slope)))
    return lines


def write_pairs(data_dir: Path, out_dir: Path) -> None:
    """Write `summary.csv`, `terms.csv` and the generated `pairs.csv`."""
    names = MeasuredProfiles(data_dir=data_dir).names
    rng = np.random.default_rng(SEED)
    summary, terms, pairs = [], [], []
    measured = read_pairs(data_dir)
    for gpu_type in dict.fromkeys(measured.gpu_type.tolist()):
        norm, tried = pair_speeds(measured.take(measured.gpu_type == gpu_type), names, gpu_type)
        fit = smooth_fit(norm, names)
        failed = tried & np.isnan(norm)
        share = float(failed[np.triu(tried)].mean())
        shares = {m: float(failed[rows][tried[rows]].mean()) for m, _, rows in _by_model(names)}
        noise = rng.normal(0.0, fit.residual_sd, norm.shape)
        drawn = np.exp(np.clip(fit.log_norm() + noise, np.log(LEAST_NORM), 0.0))
        infeasible = infeasible_by_model(names, shares, share)
        summary.append([gpu_type, f"{fit.constant:.3f}", f"{fit.residual_sd:.3f}", f"{share:.3f}"])
        terms += [
            [gpu_type, model, f"{fit.victim[rows].mean():.3f}",
             f"{fit.aggressor[rows].mean():.3f}", f"{shares[model]:.3f}"]
            for model, _, rows in _by_model(names)
        ]  # fmt: skip
        for a, victim in enumerate(names):
            for b, aggressor in enumerate(names):
                feasible = int(not infeasible[a, b])
                pairs.append([gpu_type, victim, aggressor, f"{drawn[a, b]:.3f}", feasible])
    write_csv(
        out_dir / "summary.csv", ["gpu_type", "constant", "residual_sd_ln", "infeasible_share"],
        summary,
    )  # fmt: skip
    header = ["gpu_type", "model", "victim_term", "aggressor_term", "infeasible_share"]
    write_csv(out_dir / "terms.csv", header, terms)
    header = ["gpu_type", "victim", "aggressor", "norm_speed", "feasible"]
    write_csv(out_dir / "pairs.csv", header, pairs)


def smooth_fit(norm: FloatArray, names: tuple[str, ...]) -> AdditiveFit:
    """Additive fit whose terms are straight lines in log2(batch) within each model.

    The residual spread is that of the fit with a free term a profile.
    """
    victim, aggressor = np.nonzero(np.isfinite(norm))
    free = fit_additive(
        victim=victim, aggressor=aggressor, norm=norm[victim, aggressor], profiles=len(names)
    )
    terms = {"victim": free.victim.copy(), "aggressor": free.aggressor.copy()}
    for _, batch, rows in _by_model(names):
        for term in terms.values():
            term[rows] = np.polyval(np.polyfit(np.log2(batch), term[rows], 1), np.log2(batch))
    return AdditiveFit(free.constant, terms["victim"], terms["aggressor"], free.residual_sd)


def infeasible_by_model(
    names: tuple[str, ...], shares: dict[str, float], share: float
) -> BoolArray:
    """(P, P) symmetric; the pairs whose models failed most, large batches first.

    A profile's need is its model's share of failed pairs times batch / largest batch; the
    `share` of pairs with the largest sum of needs does not fit.
    """
    need = np.zeros(len(names))
    for model, batch, rows in _by_model(names):
        need[rows] = shares[model] * batch / batch.max()
    total = need[:, None] + need[None, :]
    upper = np.sort(total[np.triu_indices(len(names))])[::-1]
    return np.asarray(total >= upper[round(share * len(upper)) - 1])


def _by_model(names: tuple[str, ...]) -> list[tuple[str, FloatArray, list[int]]]:
    """For each model: its name, batch sizes and rows."""
    keys = [profile_key(name) for name in names]
    groups = []
    for model in dict.fromkeys(model for model, _ in keys):
        rows = [i for i, key in enumerate(keys) if key[0] == model]
        groups.append((model, np.array([float(keys[i][1]) for i in rows]), rows))
    return groups


def write_default_model(data_dir: Path) -> None:
    """Fit on Gavel's rows (MIT) and on generated rows.

    No measured row is copied: every pair is predicted by a model that did not see it, and the
    memory rule stands in for which pairs fitted.
    """
    for source, name, folder in (("measured", "gavel", data_dir), ("shipped", "generated", None)):
        data = data_sets(folder, seed=SEED, names=[name])[name]
        saved = saved_model(data, SAVED, seed=SEED, folds=FOLDS, keep_observed=False)
        save_model(saved, MODELS_DIR / f"{source}.json")


if __name__ == "__main__":
    main()
