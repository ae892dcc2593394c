"""Checkpoint folders: sealed by a manifest, whole or not there, the last few kept.

RLlib pickles its state, and a pickle that was cut off or comes from elsewhere fails in many ways,
some of them late. Nothing of a folder is unpickled before its manifest agrees with it.
"""

import hashlib
import json
import logging
import math
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from marl.training.spec import CheckpointError
from sim.files import write_atomically

MANIFEST = "manifest.json"
FORMAT = 1
ADVICE = "resume from another checkpoint, or start a new training without resume="


@dataclass(frozen=True)
class Maker:
    """What made a checkpoint; only the same can go on with it."""

    algorithm: str
    policy: Mapping[str, Any]  # sizes of the network
    ray: str  # version: RLlib promises nothing about pickles of another one

    def difference(self, other: "Maker") -> str | None:
        """The first thing in which `other` differs, in words; None if nothing does."""
        for key, mine in asdict(self).items():
            theirs = getattr(other, key)
            if mine != theirs:
                return f"its {key} is {theirs}, this training's {mine}"
        return None


@dataclass(frozen=True)
class Manifest:
    """What a whole checkpoint holds."""

    maker: Maker
    iteration: int
    files: Mapping[str, tuple[int, str]]  # path within the folder -> bytes, SHA-256


def seal(folder: Path, maker: Maker, iteration: int) -> None:
    """Write the manifest of all files in `folder`, once they are on the disk."""
    files = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        _flush(path)
        content = path.read_bytes()
        files[path.relative_to(folder).as_posix()] = [len(content), _digest(content)]
    text = {"format": FORMAT, "iteration": iteration, "maker": asdict(maker), "files": files}
    (folder / MANIFEST).write_text(json.dumps(text, indent=1), encoding="utf-8")
    _flush(folder / MANIFEST)


def checked(folder: Path, maker: Maker | None, advice: str = ADVICE) -> Manifest:
    """The manifest of `folder`, after comparing every file with it.

    With a `maker`, the checkpoint must also be of the same making. `advice` ends what is told.

    Raises:
        CheckpointError: naming the file, what is wrong with it and what to do.
    """
    found = read_manifest(folder, advice)
    for name, (size, digest) in found.files.items():
        path = folder / name
        if not path.is_file():
            raise CheckpointError(f"{path}: is missing; {advice}")
        content = path.read_bytes()
        if len(content) != size:
            raise CheckpointError(
                f"{path}: has {len(content)} bytes of {size}: it was cut off or changed; {advice}"
            )
        if _digest(content) != digest:
            raise CheckpointError(f"{path}: its content was changed; {advice}")
    difference = None if maker is None else maker.difference(found.maker)
    if difference is not None:
        raise CheckpointError(
            f"{folder}: was made by another training: {difference}; repeat that training's "
            f"overrides, or {advice}"
        )
    return found


def read_manifest(folder: Path, advice: str = ADVICE) -> Manifest:
    """What `folder` should hold, by its manifest alone; CheckpointError: there is none of ours."""
    path = folder / MANIFEST
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["format"] != FORMAT:
            raise CheckpointError(f"{path}: format {found['format']}, this version reads {FORMAT}")
        files = {str(name): (int(size), str(sum_)) for name, (size, sum_) in found["files"].items()}
        return Manifest(Maker(**found["maker"]), int(found["iteration"]), files)
    except FileNotFoundError:
        raise CheckpointError(
            f"{path}: is missing, so this is no whole checkpoint; {advice}"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: is no manifest ({error!r}); {advice}") from None


def _flush(path: Path) -> None:
    """Have the disk hold what was written, so that a power cut leaves no hole behind a manifest."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


log = logging.getLogger(__name__)

FOLDER = "checkpoint"  # within the run's folder
NO_CHECKPOINT = (
    f"there is no training checkpoint; give the folder of a training run (the one that holds "
    f"`{FOLDER}`) as resume=FOLDER"
)
PART = ".part"


def name_of(iteration: int) -> str:
    """Folder of the checkpoint after `iteration`."""
    return f"iteration_{iteration:06d}"


def add_checkpoint(run: Path, iteration: int, fill: Callable[[Path], None], *, keep: int) -> Path:
    """Have `fill` write a sealed checkpoint beside the others, then give it its name.

    Afterwards the `keep` newest are left. Those of later iterations go too: they belong to a
    history that was left when an earlier checkpoint was resumed.
    """
    store = run / FOLDER
    part = store / f"{name_of(iteration)}{PART}"
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(parents=True)
        fill(part)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)  # a full disk would stay full
        raise
    target = store / name_of(iteration)
    shutil.rmtree(target, ignore_errors=True)  # of a run that was resumed before it
    part.rename(target)
    found = checkpoints(run)
    kept = [number for number in found if number <= iteration][-keep:]
    for number, path in found.items():
        if number not in kept:
            shutil.rmtree(path, ignore_errors=True)
    return target


OLD = f"{FOLDER}.old"


def replace_folder(kept: Path, fill: Callable[[Path], None]) -> None:
    """Have `fill` write a folder anew; the old one stays until the new one is whole."""
    new, old = (kept.with_name(f"{kept.name}.{end}") for end in ("new", "old"))
    shutil.rmtree(new, ignore_errors=True)
    fill(new)
    if kept.exists():
        shutil.rmtree(old, ignore_errors=True)
        kept.rename(old)  # at once, while removing takes its time
    new.rename(kept)
    shutil.rmtree(old, ignore_errors=True)


def only_checkpoint(run: Path) -> Path:
    """Where `replace_checkpoint` writes; what a kill between its two renames left is put back."""
    kept = run / FOLDER
    if (run / OLD).is_dir() and not kept.exists():
        (run / OLD).rename(kept)
    return kept


def replace_checkpoint(run: Path, fill: Callable[[Path], None]) -> None:
    """Have `fill` write the only checkpoint of `run`, as `replace_folder` does."""
    replace_folder(only_checkpoint(run), fill)


def checkpoints(run: Path) -> dict[int, Path]:
    """Iteration -> folder of the run's checkpoints, oldest first; half-written ones are not."""
    found = {}
    for path in (run / FOLDER).glob("iteration_*"):
        match = re.fullmatch(r"iteration_(\d+)", path.name)
        if match:
            found[int(match[1])] = path
    return dict(sorted(found.items()))


SETTING = "setting.json"
JUDGED = "judged.json"  # beside the best policy


def note_setting(run: Path, setting: Mapping[str, Any]) -> None:
    """Write beside the checkpoints of `run` what is trained on, in plain values."""
    (run / FOLDER).mkdir(parents=True, exist_ok=True)
    write_atomically(run / FOLDER / SETTING, json.dumps(setting, indent=1).encode())


ON = "resume=FOLDER to go on from that one all the same"


def check_setting(run: Path, setting: Mapping[str, Any], otherwise: str = ON) -> None:
    """Refuse to go on with a training of another setting; older runs have noted none.

    Raises:
        CheckpointError: naming the first key that differs.
    """
    at = setting_difference(run, setting)
    if at is not None:
        raise CheckpointError(
            f"{run} holds a training of another setting: {at}; give this one a folder of its own "
            f"(hydra.run.dir=DIR), or say {otherwise}"
        )


def setting_difference(run: Path, setting: Mapping[str, Any]) -> str | None:
    """`KEY was A, is B`: how the training in `run` differs; older ones have noted no setting.

    Raises:
        CheckpointError: what it has noted cannot be read.
    """
    noted = _noted(run / FOLDER / SETTING)
    return None if noted is None else first_difference(noted, json.loads(json.dumps(setting)))


def note_judgement(policy: Path, jct_s: float, setting: Mapping[str, Any]) -> None:
    """Write beside a policy its validation JCT, and the setting in which it was judged."""
    text = json.dumps({"validation_jct_s": jct_s, "setting": setting}, indent=1)
    write_atomically(policy / JUDGED, text.encode())


def judgement_s(policy: Path, setting: Mapping[str, Any]) -> float | None:
    """The validation JCT of the policy in a folder, infinite where it is of another setting.

    Returns:
        None, if none is noted, as in older runs.

    Raises:
        CheckpointError: it cannot be read.
    """
    noted = _noted(policy / JUDGED)
    if noted is None:
        return None
    other = first_difference(noted.get("setting"), json.loads(json.dumps(setting)))
    return math.inf if other is not None else float(noted.get("validation_jct_s", math.inf))


def _noted(path: Path) -> dict[str, Any] | None:
    """What is noted in a file; None if it is not there."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return found
        raise ValueError(f"it holds {found!r}")
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise CheckpointError(
            f"{path}: was cut off or changed ({error}); remove it to go on without what it said"
        ) from None


POWER = {"idle_watts", "busy_watts"}  # of GPU types: reports alone read it


def first_difference(before: Any, now: Any, key: str = "") -> str | None:
    """`KEY was A, is B` for the first value that differs in two plain containers.

    A key that is null is as good as none: later versions have more of them. POWER decides nothing.
    """
    if isinstance(before, dict) and isinstance(now, dict):
        for name in (each for each in (*before, *now) if each not in POWER):
            place = f"{key}.{name}" if key else str(name)
            if found := first_difference(before.get(name), now.get(name), place):
                return found
        return None
    return None if before == now else f"{key} was {before!r}, is {now!r}"


def drop_checkpoints(run: Path) -> None:
    """Remove what an earlier run in the same folder left."""
    shutil.rmtree(run / FOLDER, ignore_errors=True)


def last_whole(resume: Path) -> Path:
    """The checkpoint to go on with: `resume` itself, or the last whole one of that run.

    A newer one that is not whole is passed over with a warning.

    Raises:
        CheckpointError: there is none; the message says what is wrong with the newest.
    """
    if (resume / MANIFEST).is_file():
        checked(resume, None)
        return resume
    found = checkpoints(resume)
    if not found:
        raise CheckpointError(f"{resume}: {NO_CHECKPOINT}")
    faults = []
    for path in reversed(found.values()):
        try:
            checked(path, None)
        except CheckpointError as error:
            faults.append(str(error))
            continue
        for fault in faults:
            log.warning("passed over: %s", fault)
        return path
    raise CheckpointError(f"resume={resume}: none of its checkpoints is whole. {faults[0]}")
