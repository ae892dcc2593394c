"""Parameters of the generator as a workload file that Hydra composes."""

import textwrap
from collections.abc import Sequence
from dataclasses import fields, is_dataclass

from sim.traces.spec import WorkloadSpec

DIGITS = 4  # significant figures of a parameter
WIDTH = 96
TOP = "  "  # indent of the spec's own fields
COMMENTS = {
    "jobs_per_h": "long-run mean",
    "dispersion_r": "gamma shape of the hourly noise; smaller is burstier",
    "noise_persistence": "probability that an hour keeps the noise of the hour before",
    "weekday_factors": "Monday first",
    "repeat_prob": "a job is its predecessor again, at the same second",
    "repeat_sigma": "spread of a repeat's duration, in ln seconds",
    "durations": "log-normal mixtures in ln seconds, by gang size",
    "day_noise": "some days are busier than others",
    "clumps": "jobs follow each other within seconds",
    "recurrence": "jobs come back later: the same gang and owner, a similar duration",
    "outcomes": "odds of failing and of being cancelled, log-linear in GPU-hours",
    "demands": "of each worker",
    "workflows": "jobs that wait for others",
}


def workload_yaml(spec: WorkloadSpec, *, name: str, heading: Sequence[str], num_jobs: int) -> str:
    """A file for conf/workload: the generator with these parameters.

    Args:
        spec: the parameters.
        name: of the workload in reports.
        heading: lines of the comment on top.
        num_jobs: default number of jobs.
    """
    lines = [f"# {line}" for text in heading for line in textwrap.wrap(text, WIDTH)]
    lines += ["defaults:", "  - _generated", "  - _self_", "", f"name: {name}"]
    lines += [f"num_jobs: {num_jobs}", "spec:", *_object(spec, TOP)]
    return "\n".join(lines) + "\n"


def _object(value: object, indent: str) -> list[str]:
    """`_target_` and the fields of a dataclass; parts that are None are left out."""
    kind = type(value)
    lines = [f"{indent}_target_: {kind.__module__}.{kind.__qualname__}"]
    for each in fields(value):  # type: ignore[arg-type]
        field = getattr(value, each.name)
        if field is not None:
            lines += _entry(each.name, field, indent)
    return lines


def _entry(key: str, value: object, indent: str) -> list[str]:
    commented = key in COMMENTS and indent == TOP
    comment = f"  # {COMMENTS[key]}" if commented else ""
    if is_dataclass(value):
        return [f"{indent}{key}:{comment}", *_object(value, indent + "  ")]
    if isinstance(value, list | tuple):
        return _list(key, value, indent, comment)
    return [f"{indent}{key}: {_scalar(value)}{comment}"]


def _list(key: str, values: Sequence[object], indent: str, comment: str) -> list[str]:
    if values and is_dataclass(values[0]):
        lines = [f"{indent}{key}:{comment}"]
        for value in values:
            first, *rest = _object(value, indent + "    ")
            lines += [f"{indent}  - {first.strip()}", *rest]
        return lines
    text = f"{indent}{key}: [{', '.join(map(_scalar, values))}]"
    lines = textwrap.wrap(text, WIDTH, subsequent_indent=indent + "  ", initial_indent="",
                          drop_whitespace=True)  # fmt: skip
    lines[0] = indent + lines[0].strip()
    if len(lines) == 1 and len(lines[0] + comment) <= WIDTH:
        return [lines[0] + comment]
    return [f"{indent}# {COMMENTS[key]}", *lines] if comment else lines


def _scalar(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f'"{value}"'
    if isinstance(value, int):
        return str(value)
    rounded = float(f"{value:.{DIGITS}g}")
    return f"{rounded:.1f}" if rounded.is_integer() else repr(rounded)
