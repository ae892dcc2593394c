"""MISO on an A100: mixes of seven jobs under MPS, and single jobs on MIG slices.

The archive holds step times, not speeds: seven jobs by three MPS thread levels (100, 50, 14 % of
the threads for each job), each job's times over its slowest level, and in the same form its times
on the MIG slices 7g, 4g, 3g. Jobs are not named, but the MIG times are those of the published table
of single runs, so that each job's name follows; seven jobs always run, the idle places being
filled with a light dummy process, which has no single run of its own.
"""

import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from interference.readers.table import Table, faults_at, file_of, profile_name, read_table
from interference.rows import (
    CoRows,
    SoloProfiles,
    check_profiled,
    co_rows,
    mix_numbers,
    solo_profiles,
    stacked_profiles,
    stacked_rows,
)
from sim.arrays import FloatArray, IntArray, TextArray, objects
from sim.errors import PhysicsError

SOURCE = "miso"
GPU_TYPE = "a100"
MIXES = "colocation/miso_mps_mixes.npz"
SLICES = "throughput/miso_a100_mig_latency.csv"
SLICE_COLUMNS = ("model", "batch_size", "mig_slice_g", "iter_mean_s")
JOBS, LEVELS = 7, (1.0, 0.5, 0.14)  # jobs of a mix; MPS thread share of each job
WHOLE_GPU_G = 7
FORM_SLICES_G = (7, 4, 3)
DUMMY = profile_name("dummy", 0)
FORM_DECIMALS = 4  # the authors rounded step times so before they divided them
NAME_TOLERANCE = 0.002  # two jobs' forms differ by at least twice as much
MIXES_JOBS_LEVELS = 3  # dimensions


def rows_of_miso(folder: Path | str) -> tuple[CoRows, SoloProfiles]:
    """Rows of MIG slices (alone, relative to the whole GPU) and of MPS mixes.

    A mix tells a job's speeds at three thread levels against each other, never against the job
    alone: its rows are `relative_to` "best".
    """
    table = read_table(file_of(folder, SLICES), SLICE_COLUMNS)
    path = file_of(folder, MIXES)
    step_s = _step_times(table)
    slices, named = _slice_rows(table, step_s), _solos(step_s)
    times, forms, split = _arrays(path)
    names = _job_names(path, forms, step_s)
    dummy = solo_profiles(
        source=SOURCE, gpu_type=GPU_TYPE, profile=[DUMMY], model=["dummy"], batch=0
    )
    with faults_at(lambda row: f"{path}: mix {row // (JOBS * len(LEVELS))}"):
        mixes = _mix_rows(times, names, split)
        solos = stacked_profiles([named, dummy])
        check_profiled(mixes, solos)
    return stacked_rows([mixes, slices]), solos


def _step_times(table: Table) -> dict[str, dict[int, float]]:
    """Step time by profile and slice; every profile has the slices that forms are made of."""
    found: dict[str, dict[int, float]] = {}
    facts = (table.texts("model"), table.wholes("batch_size"), table.wholes("mig_slice_g"))
    for row, (model, batch, slice_g, time_s) in enumerate(
        zip(*facts, table.numbers("iter_mean_s"), strict=True)
    ):
        place = table.place(row)
        if not 1 <= slice_g <= WHOLE_GPU_G:
            raise PhysicsError(f"{place}: mig_slice_g is {slice_g}; give 1 to {WHOLE_GPU_G}")
        if not 0.0 < time_s < np.inf:
            raise PhysicsError(f"{place}: iter_mean_s is {time_s}; give seconds above 0")
        found.setdefault(profile_name(model, int(batch)), {})[int(slice_g)] = float(time_s)
    for name, times in found.items():
        for slice_g in FORM_SLICES_G:
            if slice_g not in times:
                raise PhysicsError(f"{table.path}: {name} has no row of mig_slice_g {slice_g}")
    return found


def _solos(step_s: dict[str, dict[int, float]]) -> SoloProfiles:
    names = list(step_s)
    return solo_profiles(
        source=SOURCE,
        gpu_type=GPU_TYPE,
        profile=names,
        model=[name.rpartition("/")[0] for name in names],
        batch=np.array([int(name.rpartition("/")[2]) for name in names]),
        step_s=np.array([times[WHOLE_GPU_G] for times in step_s.values()]),
    )


def _slice_rows(table: Table, step_s: dict[str, dict[int, float]]) -> CoRows:
    """A row a slice smaller than the GPU; slices of one profile are a group, by their common base.

    A slice that is not in the table may have been too small for the job or not tried: no row.
    """
    sizes = table.wholes("mig_slice_g")
    keep = np.flatnonzero(sizes < WHOLE_GPU_G)
    batches = table.wholes("batch_size")[keep].tolist()
    names = [profile_name(m, b) for m, b in zip(table.texts("model")[keep], batches, strict=True)]
    whole_s = np.array([step_s[name][WHOLE_GPU_G] for name in names])
    order = {name: number for number, name in enumerate(step_s)}
    with faults_at(lambda row: table.place(int(keep[row]))):
        return co_rows(
            source=SOURCE,
            gpu_type=GPU_TYPE,
            sharing="mig",
            group=np.array([order[name] for name in names], dtype=np.int64),
            victim=names,
            aggressors=[()] * len(names),
            share=sizes[keep] / WHOLE_GPU_G,
            norm_speed=whole_s / table.numbers("iter_mean_s")[keep],
        )


def _arrays(path: Path) -> tuple[FloatArray, FloatArray, TextArray]:
    """(n, 7, 3) times under MPS and (n, 7, 3) on slices; (n,) split, "" where there is none."""
    try:
        with np.load(path) as archive:
            held = {name: archive[name] for name in archive.files}
    except (OSError, EOFError, ValueError, TypeError, zipfile.BadZipFile) as error:
        raise PhysicsError(f"{path}: is no npz archive ({error}); fetch it again") from error
    mps, mig = (_times(path, name, held) for name in ("mps", "mig"))
    if len(mps) != len(mig) or len(mps) == 0:
        raise PhysicsError(
            f"{path}: mps has {len(mps)} mixes and mig {len(mig)}; give equally many, 1 or more"
        )
    split = held.get("split", np.full(len(mps), ""))
    if split.shape != (len(mps),):
        raise PhysicsError(f"{path}: split is {split.shape}; give one text a mix, ({len(mps)},)")
    return mps, mig, objects([str(text) for text in split])


def _times(path: Path, name: str, held: dict[str, npt.NDArray[np.generic]]) -> FloatArray:
    if name not in held:
        raise PhysicsError(f"{path}: no array {name!r}; the archive has {', '.join(held)}")
    form = (JOBS, len(LEVELS))
    if held[name].ndim != MIXES_JOBS_LEVELS or held[name].shape[1:] != form:
        raise PhysicsError(f"{path}: {name} is {held[name].shape}; give (mixes, {JOBS}, 3)")
    values = held[name].astype(np.float64)
    bad = ~((values > 0.0) & (values <= 1.0))
    if bad.any():
        mix, job, level = (int(at) for at in np.argwhere(bad)[0])
        raise PhysicsError(
            f"{path}: {name}[{mix}, {job}, {level}] is {values[mix, job, level]}; give times over "
            "the job's slowest, above 0 and at most 1"
        )
    return values


def _job_names(path: Path, forms: FloatArray, step_s: dict[str, dict[int, float]]) -> TextArray:
    """(n, 7) profiles: that whose single runs have the form, or the dummy, if nobody's have it."""
    known = np.array([[times[g] for g in FORM_SLICES_G] for times in step_s.values()])
    known = known.round(FORM_DECIMALS)
    known /= known.max(axis=1, keepdims=True)
    flat = forms.reshape(-1, len(FORM_SLICES_G))
    distance = np.abs(flat[:, None] - known[None]).max(axis=2)  # (n * 7, profiles)
    nearest_to = np.argmin(distance, axis=1)
    unknown = distance.min(axis=1) > NAME_TOLERANCE
    if unknown.any() and np.ptp(flat[unknown], axis=0).max() > NAME_TOLERANCE:
        raise PhysicsError(
            f"{path}: mig holds jobs of several forms that no single run in {SLICES} has; give the "
            "two files of one publication"
        )
    names = np.where(unknown, objects([DUMMY])[0], objects(list(step_s))[nearest_to])
    return objects(names.tolist()).reshape(forms.shape[:2])


def _mix_rows(times: FloatArray, names: TextArray, split: TextArray) -> CoRows:
    """Seven jobs by three levels a mix, in this order; speed is the job's least time over its."""
    mixes, each = len(times), JOBS * len(LEVELS)
    beside = [
        tuple(sorted(jobs[:job] + jobs[job + 1 :]))
        for jobs in names.tolist()
        for job in range(JOBS)
    ]
    return co_rows(
        source=SOURCE,
        gpu_type=GPU_TYPE,
        group=np.repeat(np.arange(mixes), each),
        split=np.repeat(split, each),
        victim=np.repeat(names.ravel(), len(LEVELS)),
        aggressors=np.repeat(objects(beside), len(LEVELS)),
        share=np.tile(LEVELS, mixes * JOBS),
        norm_speed=(times.min(axis=2, keepdims=True) / times).ravel(),
        relative_to="best",
    )


def mps_rows(rows: CoRows) -> CoRows:
    """Rows of mixes without the dummies that fill them up to seven.

    A dummy is no tenant: it is light, nothing is known of it alone, and how many there are follows
    from how many tenants there are. Jobs have 0 to 6 aggressors.
    """
    mixes = rows.take((rows.relative_to == "best") & (rows.victim != DUMMY))
    beside = [tuple(name for name in others if name != DUMMY) for others in mixes.aggressors]
    return replace(mixes, aggressors=objects(beside))


def mig_rows(rows: CoRows) -> CoRows:
    """Rows of jobs alone on slices."""
    return rows.take((rows.sharing == "mig") & (rows.relative_to == "solo"))


def drawn_mixes(rows: CoRows, most_rows: int, rng: np.random.Generator) -> IntArray:
    """Rows, in order, of whole mixes in random order until one more would be too many.

    Raises:
        PhysicsError: if the first mix has more rows than that.
    """
    mix = mix_numbers(rows)
    order = rng.permutation(mix.max() + 1)
    fits = np.cumsum(np.bincount(mix)[order]) <= most_rows
    if not fits[0]:
        raise PhysicsError(f"most_rows is {most_rows}; a mix has up to {np.bincount(mix).max()}")
    return np.flatnonzero(np.isin(mix, order[fits]))
