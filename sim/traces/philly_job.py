"""One object of Philly's job log as numbers, or what is wrong with it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sim.traits import CANCELLED, COMPLETED, FAILED

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STATES = {"Pass": COMPLETED, "Failed": FAILED, "Killed": CANCELLED}
NO_TIME = (None, "", "None")


class BadJob(Exception):
    """A job that breaks a rule of the format."""

    def __init__(self, key: str, value: object, rule: str) -> None:
        """Keep what the message needs."""
        super().__init__(key)
        self.key, self.value, self.rule = key, value, rule


@dataclass(frozen=True)
class PhillyAttempt:
    """One time that a job ran."""

    start_s: float
    end_s: float | None  # None: it was running when the log was taken


@dataclass(frozen=True)
class PhillyJob:
    """A job of the log; times are wall-clock seconds since 1970."""

    job_id: str
    user: str
    vc: str
    outcome: int
    submit_s: float
    gpus: int  # of the attempt with the most; 0 where none says
    attempts: tuple[PhillyAttempt, ...]  # those that count, in order of start

    @property
    def latest_s(self) -> float:
        """The latest moment that the job tells of."""
        ends = [each.end_s or each.start_s for each in self.attempts]
        return max([self.submit_s, *ends])

    @property
    def waited_s(self) -> float:
        """From submission to the first start; NaN where it never ran."""
        return max(0.0, self.attempts[0].start_s - self.submit_s) if self.attempts else math.nan

    def lengths_s(self, last_s: float) -> list[float]:
        """Length of each attempt; an open one lasts until `last_s`, the end of the log."""
        return [
            (last_s if each.end_s is None else each.end_s) - each.start_s for each in self.attempts
        ]


def parse_job(value: Any) -> PhillyJob:
    """Check and read one object.

    Raises:
        BadJob: naming key, value and rule.
    """
    if not isinstance(value, Mapping):
        raise BadJob("(the whole object)", value, "is no job; it must be an object {...}")
    status = _text(value, "status", required=True)
    if status not in STATES:
        raise BadJob("status", status, f"is unknown; known are {', '.join(STATES)}")
    submit_s = _moment(value, "submitted_time")
    if submit_s is None:
        raise BadJob("submitted_time", value.get("submitted_time"), "is missing; give a time")
    attempts = _list(value, "attempts")
    return PhillyJob(
        job_id=_text(value, "jobid", required=True),
        user=_text(value, "user", required=False),
        vc=_text(value, "vc", required=False),
        outcome=STATES[status],
        submit_s=submit_s,
        gpus=max((_gpus(each) for each in attempts), default=0),
        attempts=_counted(attempts),
    )


def _counted(attempts: list[Mapping[str, Any]]) -> tuple[PhillyAttempt, ...]:
    """The attempts with a start and an end, and the last one if only its end is missing."""
    found = []
    for place, each in enumerate(attempts):
        start_s, end_s = _moment(each, "start_time"), _moment(each, "end_time")
        open_last = end_s is None and place == len(attempts) - 1
        if start_s is None or (end_s is None and not open_last):
            continue
        if end_s is not None and end_s < start_s:
            raise BadJob("end_time", each["end_time"], "is before the attempt's start_time")
        found.append(PhillyAttempt(start_s, end_s))
    return tuple(sorted(found, key=lambda each: each.start_s))


def _gpus(attempt: Mapping[str, Any]) -> int:
    return sum(len(_names(server, "gpus")) for server in _list(attempt, "detail"))


def _list(value: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = value.get(key)
    found = [] if found is None else found
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        raise BadJob(key, found, "is no list of objects; write [{...}, ...]")
    return found


def _names(value: Mapping[str, Any], key: str) -> list[str]:
    found = value.get(key)
    found = [] if found is None else found
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise BadJob(key, found, 'is no list of names; write ["gpu0", ...]')
    return found


def _text(value: Mapping[str, Any], key: str, *, required: bool) -> str:
    found = value.get(key)
    if found is None and not required:
        return ""
    if not isinstance(found, str) or (required and not found.strip()):
        raise BadJob(key, found, "is no text; every job needs one")
    if not found.isprintable():
        raise BadJob(key, found, "holds signs that cannot be printed; write plain text")
    return found.strip()


def _moment(value: Mapping[str, Any], key: str) -> float | None:
    """Seconds of a wall-clock time; None where the log has none."""
    found = value.get(key)
    if found in NO_TIME:
        return None
    try:
        moment = datetime.fromisoformat(found)
    except (TypeError, ValueError):
        moment = None
    if moment is None or moment.tzinfo is not None:
        raise BadJob(key, found, "is no time such as 2017-10-07 01:12:09 (without a zone)")
    return (moment.replace(tzinfo=UTC) - EPOCH).total_seconds()
