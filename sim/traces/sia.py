"""Reads the workloads of Sia and Pollux: submission, application and tuned number of GPUs."""

from collections.abc import Mapping

import numpy as np

from sim.arrays import FloatArray
from sim.errors import TraceError
from sim.traces.column_reader import ColumnReader
from sim.traces.option_rules import check_number
from sim.traces.text_table import GivenColumns, checked_columns, read_text_table
from sim.traces.trace import Notes, Trace

REQUIRED = ("name", "time", "application", "num_replicas")
OPTIONAL = ("batch_size", "draw")
HOUR_S = 3600.0


class Sia:
    """One row a job (Jayaram Subramanya et al., SOSP 2023; Qiao et al., OSDI 2021).

    The files hold no run times: theirs come from measured profiles of each application. Here an
    application takes `gpu_hours` of GPU time, a stated choice, and a job runs that long divided by
    its replicas. `draw` chooses one of several workloads in a file with such a column.
    """

    def __init__(self, *, gpu_hours: Mapping[str, float], draw: int | str | None) -> None:
        """Keep the GPU time of each application.

        Raises:
            TraceError: naming an application whose time is no number above 0.
        """
        for application, hours in gpu_hours.items():
            check_number(f"reader.gpu_hours.{application}", hours, above_zero=True)
        self._gpu_hours = gpu_hours
        self._draw = None if draw is None else str(draw)

    def read(
        self, *, path: str, columns: GivenColumns, name: str, strict: bool
    ) -> tuple[Trace, Notes]:
        """The trace of a file; arguments and errors as `TraceReader` says."""
        wanted = checked_columns(columns, required=REQUIRED, optional=OPTIONAL)
        if (self._draw is None) == ("draw" in wanted):
            raise TraceError(
                f"workload.reader.draw is {self._draw!r} and workload.columns.draw is "
                f"{wanted.get('draw')!r}; set both, for a file of several workloads, or neither"
            )
        reader = ColumnReader(read_text_table(path, wanted, strict=strict))
        names = reader.texts("name") if self._draw is not None else reader.names("name")
        if self._draw is not None:
            pairs = zip(reader.raw("draw"), reader.raw("name"), strict=True)
            reader.unique("name", [f"{draw}/{one}" for draw, one in pairs])
            others = np.array([draw != self._draw for draw in reader.raw("draw")], dtype=np.bool_)
            reader.leave_out(others, "belong to another draw")
        replicas = reader.gangs("num_replicas")
        trace = Trace(
            name=name,
            job_id=names,
            submit_s=reader.times("time"),
            num_gpus=replicas,
            duration_s=self._hours(reader) * HOUR_S / replicas,
            user=reader.texts("user"),
            vc=reader.texts("vc"),
            model=reader.texts("application"),
        )
        return reader.finish(trace, strict=strict)

    def _hours(self, reader: ColumnReader) -> FloatArray:
        """(N,) GPU-hours of each job's application."""
        applications = reader.raw("application")
        known = ", ".join(self._gpu_hours)
        unknown = np.array([one not in self._gpu_hours for one in applications], dtype=np.bool_)
        reader.flag("application", unknown, f"has no GPU time; known are {known}; give it one with "
                   "+workload.reader.gpu_hours.NAME=HOURS")  # fmt: skip
        return np.array([self._gpu_hours.get(one, 1.0) for one in applications], dtype=np.float64)
