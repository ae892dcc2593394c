"""What can be wrong with a DAG, its machines or a plan."""

from sim.errors import GpuYardError


class DagError(GpuYardError):
    """A DAG problem, a file of one, or a plan cannot be used; the message names task and fix."""
