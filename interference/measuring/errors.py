"""What can go wrong while measuring."""

from sim.errors import GpuYardError


class MeasureError(GpuYardError):
    """A measurement cannot be made; the message names the loop, what it said, and a way out."""
