"""Reads the job log of Microsoft's Philly traces: `cluster_job_log` (Jeon et al., ATC 2019)."""

import logging
from collections import Counter
from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray
from sim.errors import TraceError
from sim.traces.column_map import GivenColumns
from sim.traces.json_stream import Located, read_objects
from sim.traces.notes import Notes
from sim.traces.option_rules import check_count, check_number
from sim.traces.philly_job import BadJob, PhillyJob, parse_job
from sim.traces.ragged import starts
from sim.traces.select import take
from sim.traces.sheet import nothing_usable, objects, shown
from sim.traces.trace import Trace
from sim.traits import CANCELLED, NEVER_S, Attempts

log = logging.getLogger(__name__)


@dataclass
class _Read:
    """What was found up to here in the file."""

    jobs: list[PhillyJob]
    line_of: dict[str, int]
    bad: Counter[str]  # rule -> jobs
    left_out: Counter[str]
    first_bad: str = ""
    last_s: float = 0.0  # latest moment of the log
    objects: int = 0


class PhillyJson:
    """A JSON list of jobs, read one by one: a job's duration is the sum of its attempts.

    - Work done in an attempt is kept; where an attempt but the last ends, the job failed and
      started again (`Attempts`).
    - The gang is that of the attempt with the most GPUs. Jobs without GPUs are left out.
    - An attempt without a start or an end (a fault of the log) does not count; but an open last
      attempt was running when the log was taken, and lasts until the log's latest moment.
    - status: Pass, Failed, Killed are completed, failed, cancelled.
    - A killed job without attempts never ran: nothing tells its gang or when its user gave up, so
      the options do. Other jobs without attempts are left out.
    """

    def __init__(self, *, never_ran_gpus: int, never_ran_withdraw_s: float) -> None:
        """Keep what is assumed of killed jobs that never ran.

        Raises:
            TraceError: naming an option out of range.
        """
        check_count("reader.never_ran_gpus", never_ran_gpus)
        check_number("reader.never_ran_withdraw_s", never_ran_withdraw_s)
        self._gpus, self._withdraw_s = never_ran_gpus, never_ran_withdraw_s

    def read(
        self, *, path: str, columns: GivenColumns, name: str, strict: bool
    ) -> tuple[Trace, Notes]:
        """The trace of a file; arguments and errors as `TraceReader` says."""
        if columns:
            raise TraceError(
                f"workload.columns names {', '.join(columns)}, but a JSON log has no columns; "
                f"leave it empty"
            )
        read = _Read([], {}, Counter(), Counter())
        for each in read_objects(path):
            _add(read, each, path, strict)
        if read.bad:
            log.warning(
                "%d jobs skipped, the first: %s; by rule: %s", read.bad.total(), read.first_bad,
                ", ".join(f"{count} x {rule}" for rule, count in read.bad.items()),
            )  # fmt: skip
        jobs = self._ran_or_killed(read)
        for reason, count in read.left_out.items():
            log.info("%s: %d jobs left out: %s", path, count, reason)
        if not jobs:
            raise nothing_usable(path, read.objects, read.left_out, strict)
        return self._trace(jobs, read, name)

    def _ran_or_killed(self, read: _Read) -> list[PhillyJob]:
        """The jobs that ran, and those that were killed before."""
        kept = []
        for job in read.jobs:
            if not job.attempts and job.outcome != CANCELLED:
                read.left_out["have no attempt with a start and an end"] += 1
            elif job.attempts and job.gpus == 0:
                read.left_out["use no GPU"] += 1
            else:
                kept.append(job)
        return kept

    def _trace(self, jobs: list[PhillyJob], read: _Read, name: str) -> tuple[Trace, Notes]:
        submit_s = np.array([job.submit_s for job in jobs])
        ran = np.array([bool(job.attempts) for job in jobs])
        lengths = [job.lengths_s(read.last_s) for job in jobs]
        failures = [_failures(each) for each in lengths]
        trace = Trace(
            name=name,
            job_id=objects([job.job_id for job in jobs]),
            submit_s=submit_s - submit_s.min(),
            num_gpus=np.array([job.gpus or self._gpus for job in jobs], dtype=np.int64),
            duration_s=np.array([sum(each) for each in lengths], dtype=np.float64),
            user=objects([job.user for job in jobs]),
            vc=objects([job.vc for job in jobs]),
            outcome=np.array([job.outcome for job in jobs], dtype=np.int64),
            withdraw_s=np.where(ran, NEVER_S, self._withdraw_s),
            waited_s=np.array([job.waited_s for job in jobs], dtype=np.float64),
            attempts=Attempts(
                starts([len(each) for each in failures]), np.concatenate([*failures, np.empty(0)])
            ),
        )
        late = int(np.sum(submit_s < np.maximum.accumulate(submit_s)))
        notes = Notes(read.objects, read.bad.total(), late, dict(read.left_out))
        return take(trace, np.argsort(submit_s, kind="stable")), notes


def _failures(lengths_s: list[float]) -> FloatArray:
    """Work done when each attempt but the last ended: ascending, above 0, below the whole."""
    done_s = np.cumsum(np.array(lengths_s, dtype=np.float64))
    if len(done_s) == 0:
        return done_s
    return np.unique(done_s[(done_s > 0) & (done_s < done_s[-1])])


def _add(read: _Read, each: Located, path: str, strict: bool) -> None:
    """Note one object of the file."""
    read.objects += 1
    try:
        job = _checked(each, read)
    except BadJob as bad:
        told = (
            f"{path}, line {each.line}, job object {each.index}, key '{bad.key}': "
            f"{shown(bad.value)} {bad.rule}"
        )
        if strict:
            raise TraceError(f"{told} (or skip such jobs with workload.strict=false)") from bad
        read.first_bad = read.first_bad or told
        read.bad[f"{bad.key} {bad.rule.partition(';')[0]}"] += 1
        return
    read.line_of[job.job_id] = each.line
    read.last_s = max(read.last_s, job.latest_s)
    read.jobs.append(job)


def _checked(each: Located, read: _Read) -> PhillyJob:
    job = parse_job(each.value)
    if job.job_id in read.line_of:
        raise BadJob(
            "jobid", job.job_id, "is the job of an earlier object again; names must be unique"
        )
    return job
