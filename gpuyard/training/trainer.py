"""Updates until they or the minutes are used up: play, climb, look at the validation windows."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from rich.console import Console
from rich.progress import Progress, TaskID

from gpuyard.launch.errors import heed_ctrl_c
from gpuyard.launch.terminal import phase_bars
from gpuyard.training.form import Player, WindowSource
from gpuyard.training.strategies import (
    CHECKPOINT,
    Point,
    Saved,
    ascend,
    drawn_window,
    gradient,
    save,
    step_at,
)
from gpuyard.training.windows import TRAIN, Evaluator, SourceSpec, validation_windows
from sim.arrays import FloatArray
from sim.errors import GpuYardError, amount

log = logging.getLogger(__name__)
T = TypeVar("T")
R = TypeVar("R")

TRAIN_WINDOWS = 1_000_000  # that may be drawn where windows never run out
LINE_EVERY_S = 60.0  # where there is no bar
SAVE_EVERY_S = 300.0  # at the latest: a round may last minutes


class LearningStopped(GpuYardError):
    """Nothing can be learned, or kept, any more; the last good checkpoint is there."""


@dataclass(frozen=True)
class Budget:
    """How long to learn, and how often to look up."""

    pairs: int  # of members an update
    updates: int | None  # in all; None: the minutes decide
    minutes: float | None  # in all, validation included; None: the updates decide
    validate_every: int  # updates
    checkpoint_every: int  # updates
    validation: Sequence[int]  # windows of the part `validation`; they choose nothing
    held_out: Sequence[int] = ()  # others of it, for the final figures
    train_windows: int = TRAIN_WINDOWS  # so many may be drawn
    first_step: float = 0.0  # of evolution strategies, in units of sigma; others read none

    @classmethod
    def of(cls, config: Mapping[str, Any], source: WindowSource) -> Self:
        """From `learn.yaml`; windows are those that the source has. ConfigError: too few."""
        names = ("pairs", "updates", "minutes", "validate_every", "checkpoint_every")
        given = {name: config[name] for name in names}
        given["first_step"] = config["algo"].get("first_step", 0.0)
        if (there := source.windows(TRAIN)) is not None:
            given["train_windows"] = there
        curve, held_out = validation_windows(source, config)
        return cls(**given, validation=curve, held_out=held_out)

    def progress(self, update: int, elapsed_s: float) -> float:
        """Share that is done, from 0 to 1, of what is used up first."""
        shares = [0.0]
        if self.updates is not None:
            shares.append(update / self.updates if self.updates > 0 else 1.0)
        if self.minutes is not None:
            shares.append(elapsed_s / (60.0 * self.minutes) if self.minutes > 0 else 1.0)
        return min(max(shares), 1.0)


class Trainer:
    """One search in one folder."""

    def __init__(
        self,
        *,
        source_spec: SourceSpec,
        saved: Saved,
        budget: Budget,
        rivals: Sequence[Player],  # the beginning and the reference: the curve is over these
        evaluator: Evaluator,
        folder: Path,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """From what is saved, or from a beginning with update 0 and no curve."""
        self.saved, self.evaluator = saved, evaluator
        self.source_spec, self.budget = source_spec, budget
        self._rivals, self._folder, self._clock_s = rivals, folder, clock_s
        self._logs: tuple[FloatArray, FloatArray] | None = None
        self._last_line_s = self._saved_s = time.monotonic()

    @property
    def player(self) -> Player:
        """What is learned so far: the averaged iterates."""
        return self.saved.form.player(self.saved.climb.average)

    @property
    def runs(self) -> int:
        """Windows played to learn so far."""
        return 2 * self.budget.pairs * self.saved.climb.update

    def run(self, console: Console) -> None:
        """Learn; the checkpoint is written every few updates, at the end and on the way out.

        Raises:
            LearningStopped: a rival fails, all runs of an update fail, or the disk is full.
            KeyboardInterrupt: Ctrl-C, after the checkpoint is written.
        """
        with phase_bars("{task.completed:.0%}", console=console) as bar:
            task = bar.add_task("learning", total=1.0, note="")
            bar.update(task, completed=self._progress())
            try:
                self._prepare()
                before_s, began_s = self.saved.elapsed_s, self._clock_s()
                self._validate_if_due()  # Ctrl-C may have come in the midst of it
                while self._progress() < 1.0:
                    self._update()
                    elapsed_s = before_s + self._clock_s() - began_s
                    self.saved = replace(self.saved, elapsed_s=elapsed_s)
                    self._look_up(bar, task)
                if self.saved.curve[-1].update != self.saved.climb.update:
                    self._validate()
                    self._tell(bar, task)
            finally:
                self._save()

    def _progress(self) -> float:
        return self.budget.progress(self.saved.climb.update, self.saved.elapsed_s)

    def _prepare(self) -> None:
        """Play the rivals; workers compile or load their code here, before time counts."""
        windows = self.budget.validation
        log.info(
            "first the beginning and the reference play %s each; minutes count from then on",
            amount(len(windows), "validation window"),
        )  # fmt: skip
        begin, reference = (
            self.evaluator.windows(self.source_spec, player, "validation", windows)
            for player in self._rivals
        )
        for name, logs in (("the beginning", begin), ("the reference", reference)):
            if not np.all(np.isfinite(logs)):
                failed = windows[int(np.argmin(np.isfinite(logs)))]
                raise self._stopped(f"{name} fails on validation window {failed}; take another")
        self._logs = begin, reference

    def _update(self) -> None:
        """One step of the mean; the state changes at the end, as a whole.

        A member whose run fails loses its pair. If all fail the mean stays where it is, and a
        search that goes on draws others.
        """
        climb, pairs = self.saved.climb, range(self.budget.pairs)
        windows = [drawn_window(climb, pair, self.budget.train_windows) for pair in pairs]
        scores = np.array(self.evaluator.pairs(self.source_spec, self.saved.form, climb, windows))
        failed = ~np.isfinite(scores)
        if failed.all():
            self.saved = replace(self.saved, climb=ascend(climb, np.zeros_like(climb.mean), 0.0))
            raise self._stopped(f"all runs failed; see why with part=train window={windows[0]}")
        if failed.any():
            log.warning(
                "update %d: %d of %d runs failed, the first on training window %d; they lose",
                climb.update + 1, failed.sum(), failed.size, windows[int(failed.any(1).argmax())],
            )  # fmt: skip
        with np.errstate(invalid="ignore"):  # both members failed: no number, which tells nothing
            differences = scores[:, 1] - scores[:, 0]
        along = gradient(climb, list(pairs), differences.tolist())
        step = step_at(self._progress(), self.budget.first_step)
        self.saved = replace(self.saved, climb=ascend(climb, along, step))

    def _look_up(self, bar: Progress, task: TaskID) -> None:
        self._validate_if_due()
        update = self.saved.climb.update
        late = time.monotonic() - self._saved_s >= SAVE_EVERY_S
        if late or update % self.budget.checkpoint_every == 0:
            self._save()
        self._tell(bar, task)

    def _tell(self, bar: Progress, task: TaskID) -> None:
        heed_ctrl_c()
        last = self.saved.curve[-1]
        note = f"update {last.update}: {last.to_reference:.3f} of the reference's mean JCT"
        bar.update(task, completed=self._progress(), note=note)
        if not bar.console.is_terminal and time.monotonic() - self._last_line_s >= LINE_EVERY_S:
            minutes = self.saved.elapsed_s / 60.0
            log.info("%s, %.1f minutes, %.0f%% done", note, minutes, 100 * self._progress())
            self._last_line_s = time.monotonic()

    def _validate_if_due(self) -> None:
        update, curve = self.saved.climb.update, self.saved.curve
        if not curve or (update % self.budget.validate_every == 0 and curve[-1].update < update):
            self._validate()

    def _validate(self) -> None:
        """Add a point to the curve."""
        assert self._logs is not None
        logs = self.evaluator.windows(
            self.source_spec, self.player, "validation", self.budget.validation
        )
        begin, reference = (float(np.exp(np.mean(logs - each))) for each in self._logs)
        update = self.saved.climb.update
        point = Point(update, self.saved.elapsed_s / 60.0, self.runs, begin, reference)
        self.saved = replace(self.saved, curve=(*self.saved.curve, point))
        self._last_line_s = time.monotonic()
        log.info(
            "update %d, %.1f minutes: %.4f of the reference, %.4f of the beginning",
            update, point.minutes, reference, begin,
        )  # fmt: skip

    def _found(
        self, play: Callable[[T], tuple[R | None, bool]], tasks: Sequence[T], windows: Sequence[int]
    ) -> list[R]:
        """What a round finds in its training windows: at least one; windows that fail are told.

        `play`: what it found in a window, if anything, and whether the run failed.
        """
        found, number = self.evaluator.workers.each(play, tasks), self.saved.climb.update + 1
        parts = [part for part, _ in found if part is not None]
        failed = sum(each for _, each in found)
        if failed:
            log.warning("round %d: %d of %d windows failed", number, failed, len(windows))
        if not parts:
            raise self._stopped(
                f"no window gave anything to learn; see why with part=train window={windows[0]}"
            )
        return parts

    def _stopped(self, why: str) -> LearningStopped:
        update = self.saved.climb.update
        return LearningStopped(f"{why}; {self._folder / CHECKPOINT} holds update {update}")

    def _save(self) -> None:
        """Write the checkpoint; LearningStopped: it cannot be written."""
        path = self._folder / CHECKPOINT
        try:
            save(self.saved, self._folder)
            self._saved_s = time.monotonic()
        except OSError as error:
            kept = "the one before it stays" if path.is_file() else "there is none yet"
            raise LearningStopped(
                f"update {self.saved.climb.update}: {path} cannot be written "
                f"({error.strerror or error}); {kept}"
            ) from error
