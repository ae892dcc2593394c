"""What to say of fields of the CSV file that are written in another form than the one expected."""

from collections.abc import Callable

import numpy as np

from sim.traces.row_rules import CLOCK, CLOCK_FORMAT, moment
from sim.traces.sheet import Sheet

DATE = "is a date, not seconds; "
CLOCK_HINT = "is hours and minutes, not a number; set workload.reader.duration_format=clock"
NUMBER_HINT = "is a number, not hours and minutes; set workload.reader.duration_format=seconds"
EMPTY = "is empty; a job needs its run time: leave out jobs that have not ended"
PART = (
    "is a fraction of a GPU; a worker on a part of a GPU has num_gpus 1, and the part in "
    "thousandths in a column of its own: workload.columns.gpu_milli=NAME"
)
FORM = "is not ISO 8601; give its form, such as workload.reader.time_format='%d.%m.%Y %H:%M'"
DIGITS_OF_A_DATE = 4


def tell_other_forms(sheet: Sheet, *, time_format: str | None, duration_format: str) -> None:
    """Flag fields that another key of the workload would read, and name that key.

    To be called before the columns are read: of several rules that a row breaks the first is told.
    """
    _tell(sheet, "submit_s", _is_date, DATE + "map the column as workload.columns.submit_time=NAME")
    for key in ("deadline_s", "withdraw_s", "waited_s"):
        _tell(sheet, key, _is_date, DATE + "give seconds from the submission on")
    for key in ("duration_s", "limit_s"):
        _tell(sheet, key, _is_date, DATE + "a run time is the end minus the start")
        if duration_format == CLOCK_FORMAT:
            _tell(sheet, key, _is_number, NUMBER_HINT)
        else:
            _tell(sheet, key, _is_clock, CLOCK_HINT)
    _tell(sheet, "duration_s", lambda text: text == "", EMPTY)
    _tell(sheet, "num_gpus", _is_part, PART)
    if time_format is None:
        _tell(sheet, "submit_time", _is_other_date, FORM)


def _tell(sheet: Sheet, key: str, fits: Callable[[str], bool], rule: str) -> None:
    if not sheet.has(key):
        return
    texts = sheet.raw(key)
    odd = {text for text in set(texts) if fits(text)}
    if odd:
        sheet.flag(key, np.array([text in odd for text in texts], dtype=np.bool_), rule)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_part(text: str) -> bool:
    return _is_number(text) and 0.0 < float(text) < 1.0


def _is_clock(text: str) -> bool:
    return CLOCK.fullmatch(text) is not None


def _is_date(text: str) -> bool:
    return not _is_number(text) and not _is_clock(text) and moment(text) is not None


def _is_other_date(text: str) -> bool:
    """No ISO date and no number, but enough digits to be a time."""
    return (
        moment(text) is None
        and not _is_number(text)
        and sum(map(str.isdigit, text)) >= DIGITS_OF_A_DATE
    )
