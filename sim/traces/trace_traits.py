"""Optional columns of a trace as the traits of a job table."""

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from sim.arrays import FloatArray, TextArray
from sim.traces.gpu_type_words import TypeWords
from sim.traces.trace import Trace
from sim.traits import (
    ANY_TYPE,
    COMPLETED,
    NEVER_S,
    WHOLE_GPU_MILLI,
    Attempts,
    Demands,
    Elastic,
    Fates,
    Identity,
    Precedence,
    Urgency,
    codes_of,
)


class Traits(TypedDict):
    """Fields of a JobTable; None where the trace has none of a trait's columns."""

    demands: Demands | None
    elastic: Elastic | None
    identity: Identity | None
    urgency: Urgency | None
    fates: Fates | None
    attempts: Attempts | None
    precedence: Precedence | None


TRAITS = tuple(Traits.__annotations__)


def traits_of(
    trace: Trace, submit_s: FloatArray, words: TypeWords, ignore: Sequence[str]
) -> Traits:
    """What the trace says of its jobs beyond gang and work.

    Args:
        trace: J jobs.
        submit_s: (J,) submission in time of the run; deadlines count from there.
        words: GPU types of the cluster.
        ignore: names of traits to leave out.

    Raises:
        TraceError: a job asks for a GPU type that the cluster lacks.
    """
    return Traits(
        demands=None if "demands" in ignore else _demands(trace, words),
        elastic=None if "elastic" in ignore else _elastic(trace),
        identity=None if "identity" in ignore else _identity(trace),
        urgency=None if "urgency" in ignore else _urgency(trace, submit_s),
        fates=None if "fates" in ignore else _fates(trace),
        attempts=None if "attempts" in ignore else trace.attempts,
        precedence=None if "precedence" in ignore else trace.precedence,
    )


def _demands(trace: Trace, words: TypeWords) -> Demands | None:
    given = (trace.gpu_milli, trace.cpu_milli, trace.memory_mib, trace.gpu_types)
    if all(column is None for column in given):
        return None
    whole, none = np.full(len(trace), WHOLE_GPU_MILLI), np.zeros(len(trace), dtype=np.int64)
    types = trace.gpu_types
    return Demands(
        gpu_milli=whole if trace.gpu_milli is None else trace.gpu_milli,
        cpu_milli=none if trace.cpu_milli is None else trace.cpu_milli,
        memory_mib=none if trace.memory_mib is None else trace.memory_mib,
        type_mask=np.full(len(trace), ANY_TYPE)
        if types is None
        else words.masks(trace.job_id, types),
    )


def _elastic(trace: Trace) -> Elastic | None:
    least, most = trace.least_gpus, trace.most_gpus
    if least is None and most is None:
        return None
    return Elastic(
        least_gpus=trace.num_gpus if least is None else least,
        most_gpus=trace.num_gpus if most is None else most,
    )


def _identity(trace: Trace) -> Identity | None:
    blank: TextArray = np.full(len(trace), "", dtype=np.object_)
    group = blank if trace.group is None else trace.group
    if not any(any(column) for column in (trace.user, group, trace.vc)):
        return None
    return Identity(codes_of(trace.user), codes_of(group), codes_of(trace.vc))


def _urgency(trace: Trace, submit_s: FloatArray) -> Urgency | None:
    if trace.priority is None and trace.deadline_s is None:
        return None
    none, never = np.zeros(len(trace), dtype=np.int64), np.full(len(trace), NEVER_S)
    return Urgency(
        priority=none if trace.priority is None else trace.priority,
        deadline_s=never if trace.deadline_s is None else submit_s + trace.deadline_s,
    )


def _fates(trace: Trace) -> Fates | None:
    if trace.outcome is None and trace.withdraw_s is None:
        return None
    done, never = np.full(len(trace), COMPLETED), np.full(len(trace), NEVER_S)
    return Fates(
        outcome=done if trace.outcome is None else trace.outcome,
        withdraw_s=never if trace.withdraw_s is None else trace.withdraw_s,
    )
