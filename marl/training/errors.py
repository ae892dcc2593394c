"""Errors of a training run."""

from sim.errors import GpuYardError


class TrainingError(GpuYardError):
    """Training cannot go on; the message names the iteration or the checkpoint, and the fix."""


class CheckpointError(TrainingError):
    """A checkpoint is missing, truncated or foreign; the message names file, fault and fix."""
