"""What is wrong with a request."""

from sim.errors import GpuYardError


class RequestError(GpuYardError):
    """A request that cannot be answered; the message names the field or job, and the fix."""
