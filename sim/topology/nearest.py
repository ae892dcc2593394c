"""The name that somebody may have meant."""

import difflib
from collections.abc import Iterable


def nearest(name: object, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the closest of `known`, or nothing."""
    close = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ""
