"""Writes the numbers that the package ships, from measured Gavel files (MIT licence).

Run `python -m interference.make_shipped --data DIR`. Equal input gives equal files. Nothing
written is a measured row: step times and sync bytes are straight-line fits by model,
co-location is drawn from additive terms by model, a residual of the fitted spread, and the
share of pairs that did not fit into memory.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from interference.data_sets import data_sets
from interference.fit import SAVED, saved_model
from interference.gavel import MeasuredProfiles, read_pairs
from interference.learned import SHIPPED_DIR as MODELS_DIR
from interference.learned import save_model
from interference.make_a100 import write_a100, write_csv
from interference.own import pair_speeds
from sim.arrays import BoolArray, FloatArray
from sim.physics.catalogue import Catalogue
from sim.physics.mix_table import AdditiveFit, fit_additive
from sim.physics.shipped_files import SHIPPED_DIR, profile_key

SEED = 20
LEAST_NORM = 0.08  # the slowest side of the source runs at 0.09 of its solo speed


@dataclass(frozen=True)
class ModelLine:
    """A straight line over the batch sizes of one model."""

    model: str
    base: float
    slope: float


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
        for line in step_lines(catalogue, column):
            steps.append([gpu_type, line.model, f"{line.base:.4g}", f"{line.slope:.4g}"])
    write_csv(out_dir / "steps.csv", ["gpu_type", "model", "base_s", "per_sample_s"], steps)
    models = []
    for line in sync_lines(catalogue):
        rows = [i for i, name in enumerate(catalogue.names) if profile_key(name)[0] == line.model]
        batches = " ".join(str(profile_key(catalogue.names[i])[1]) for i in rows)
        gang_ok = int(catalogue.gang_ok[rows[0]])
        models.append([line.model, batches, f"{line.base:.3g}", f"{line.slope:.3g}", gang_ok])
    header = ["model", "batches", "sync_base_bytes", "sync_bytes_per_doubling", "gang_ok"]
    write_csv(out_dir / "models.csv", header, models)


def step_lines(catalogue: Catalogue, column: int) -> list[ModelLine]:
    """Step time by batch, smallest squared relative error, both coefficients 0 or more."""
    lines = []
    for model, batch, rows in _by_model(catalogue.names):
        step_s = catalogue.compute_s[rows, column]
        slope, base = np.polyfit(batch, step_s, 1, w=1.0 / step_s)
        if base < 0:
            ratio = batch / step_s
            base, slope = 0.0, ratio.sum() / (ratio**2).sum()
        lines.append(ModelLine(model, float(base), float(slope)))
    return lines


def sync_lines(catalogue: Catalogue) -> list[ModelLine]:
    """Sync bytes by log2(batch), least squares."""
    lines = []
    for model, batch, rows in _by_model(catalogue.names):
        slope, base = np.polyfit(np.log2(batch), catalogue.sync_bytes[rows], 1)
        lines.append(ModelLine(model, float(base), float(slope)))
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


FOLDS = 5


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
