"""What can be wrong with the files of a report."""

from sim.errors import GpuYardError


class ReportError(GpuYardError):
    """A result file cannot be read or compared; the message names file, line, column and value."""
