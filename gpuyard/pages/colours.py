"""The colours of a page: lines say whose they are, and each scheduler has one in all figures.

A trace of Plotly.js names its scheduler in `meta`, one of marks a list of them, a mark each. What
was swept stands in brackets behind a name and changes no colour.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from sim.files import apart_from_swept

Trace = dict[str, Any]

# Of medium lightness, so that each stands out from a white and from a dark ground.
COLOURS = ("#2E86DE", "#E0662B", "#1E9E6B", "#C154A8", "#B8860B", "#8B6BE8", "#D64550", "#7C8794")
GREY = COLOURS[-1]
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "pentagon")


def in_colours(figures: Sequence[Sequence[Trace]]) -> list[list[Trace]]:
    """The traces of each figure of a page, coloured; those without a scheduler stay as they are.

    Schedulers that have lines come first. Several lines of one differ in strokes or symbols.
    """
    place = {name: at for at, name in enumerate(dict.fromkeys(_schedulers(figures)))}
    return [_coloured(traces, place) for traces in figures]


def _schedulers(figures: Iterable[Iterable[Trace]]) -> Iterable[str]:
    named = [trace["meta"] for traces in figures for trace in traces if "meta" in trace]
    lines = [each for each in named if isinstance(each, str)]
    marks = [one for each in named if isinstance(each, list) for one in each]
    yield from (apart_from_swept(each)[0] for each in [*lines, *marks])


def _coloured(traces: Sequence[Trace], place: dict[str, int]) -> list[Trace]:
    found, names = [], dict[str, list[str]]()  # scheduler -> its lines in this figure
    for trace in traces:
        whose = trace.get("meta")
        if isinstance(whose, str):
            scheduler, _ = apart_from_swept(whose)
            mine = names.setdefault(scheduler, [])
            if trace["name"] not in mine:
                mine.append(trace["name"])
            found.append(_line(trace, place[scheduler], mine.index(trace["name"])))
        elif whose is not None:
            marks = [_colour(place[apart_from_swept(each)[0]]) for each in whose]
            found.append({**trace, "marker": {**trace["marker"], "color": marks}})
        else:
            found.append(trace)
    return found


def _line(trace: Trace, place: int, at: int) -> Trace:
    """Line `at` of the scheduler at a place, with its band, marks and intervals."""
    colour = _colour(place)
    parts = [key for key in ("line", "marker", "error_y") if key in trace]
    made: Trace = {key: {**trace[key], "color": colour} for key in parts}
    if "fill" in trace:
        return {**trace, **made, "fillcolor": colour}
    if "line" in made:
        made["line"]["dash"] = DASHES[(place // len(COLOURS) + at) % len(DASHES)]
    else:
        made["marker"]["symbol"] = SYMBOLS[at % len(SYMBOLS)]
    return {**trace, **made}


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]
