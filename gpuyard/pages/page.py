"""What a page holds, as values, and the one HTML file that is made of them."""

import gzip
import html
import json
import math
import shlex
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sim.arrays import FloatArray
from sim.errors import GpuYardError
from sim.files import apart_from_swept, write_atomically
from sim.report.run_folder import PAGE_FILE, Record

TEMPLATE = "page.html.j2"
PLOTLY_JS = Path("package_data") / "plotly.min.js"
GZIP_LEVEL = 4
SIZE_STEP = 1024.0
PERCENT = 100.0


@dataclass(frozen=True)
class Cell:
    """One cell of a table."""

    text: str
    sort: float | None = None  # what a click on the header sorts by; None: the text


@dataclass(frozen=True)
class Table:
    """A table that is sorted by a click on one of its headers."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""  # stands below it
    opened: bool = True  # False: folded until it is clicked

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Of each column, whether it holds numbers, which stand at the right."""
        return tuple(
            any(row[at].sort is not None for row in self.rows) for at in range(len(self.headers))
        )


@dataclass(frozen=True)
class Slider:
    """Values of a heat map at T moments, one of them shown."""

    moments: list[str]  # (T,) what each is called
    frames: list[list[list[int | None]]]  # (T, rows, columns) in percent; None: no cell
    start: int = 0  # the moment that is shown first


@dataclass(frozen=True)
class Figure:
    """A figure of Plotly.js: traces and layout as plain containers."""

    title: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    note: str = ""  # what was aggregated, how to read it
    height_px: int = 340
    wide: bool = False  # takes a line of its own on a wide screen
    slider: Slider | None = None  # of the first trace
    opened: bool = True
    rows: Sequence[str] = ()  # whole names of y = 0, 1, ..., for screens where ticks are too short
    zoom_told: bool = False  # the note ends with how to zoom, by mouse or by finger


@dataclass(frozen=True)
class Page:
    """Everything on the page, in its order."""

    title: str
    subtitle: str
    tiles: tuple[tuple[str, str], ...] = ()  # (name, value), the few numbers that matter most
    facts: tuple[tuple[str, str], ...] = ()  # (name, text): what was asked
    assumed: tuple[str, ...] = ()
    sections: tuple[Table | Figure, ...] = ()


def sections_json(sections: Sequence[Table | Figure]) -> str:
    """Sections for a file, from which another program makes its page (`sections_of`)."""
    return json.dumps([asdict(section) for section in sections], allow_nan=False)


def sections_of(text: str) -> list[Table | Figure]:
    """The sections that `sections_json` wrote."""
    found: list[Table | Figure] = []
    for each in json.loads(text):
        if "headers" in each:
            rows = tuple(tuple(Cell(**cell) for cell in row) for row in each.pop("rows"))
            found.append(Table(headers=tuple(each.pop("headers")), rows=rows, **each))
        else:
            slider = each.pop("slider")
            found.append(Figure(slider=None if slider is None else Slider(**slider), **each))
    return found


def write_page(folder: Path, page: Page) -> Path:
    """Write `report.html`, whole or not at all, with links to the files of the folder.

    Raises:
        GpuYardError: Plotly's script is not there.
        OSError: the folder cannot be written.
    """
    path = folder / PAGE_FILE
    write_atomically(path, rendered(page, downloads_of(folder)).encode())
    return path


def rendered(page: Page, downloads: tuple[tuple[str, str, str], ...] = ()) -> str:
    """The HTML of a page; it needs no other file.

    `downloads` are (name, relative link, size) of files beside it.

    Raises:
        GpuYardError: Plotly's script is not there.
    """
    sections = list(enumerate(page.sections))
    drawn = [(at, each) for at, each in sections if isinstance(each, Figure)]
    traces = in_colours([each.data for _, each in drawn])
    figures = {f"s{at}": _drawn(each, data) for (at, each), data in zip(drawn, traces, strict=True)}
    return str(
        _template().render(
            page=page,
            sections=[(f"s{at}", each, isinstance(each, Table)) for at, each in sections],
            downloads=downloads,
            figures=script_json(figures),
            plotly_gzip=_plotly_gzip() if figures else "",
        )
    )


def script_json(value: Any) -> str:
    """JSON that may stand inside a script element: no `<` ends it; ValueError for NaN."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def label(text: object) -> str:
    """Text for a figure, whose labels read HTML: job ids and names are no markup."""
    return html.escape(str(text), quote=False)


def numbers(values: Any, digits: int = 6) -> list[float | None]:
    """A list for JSON: `digits` significant figures, None for what is not finite."""
    return [
        float(f"{value:.{digits}g}") if math.isfinite(value) else None
        for value in map(float, values)
    ]


def percents(share: FloatArray) -> list[list[int | None]]:
    """(rows, columns) whole percents of shares; None for NaN."""
    return [
        [None if math.isnan(value) else round(value * PERCENT) for value in row]
        for row in share.tolist()
    ]


def downloads_of(folder: Path) -> tuple[tuple[str, str, str], ...]:
    """(name, relative link, size) of each file of the folder, hidden ones and the page left out."""
    return tuple(
        (path.name, quote(path.name), size_text(path.stat().st_size))
        for path in sorted(folder.iterdir())
        if path.is_file() and not path.name.startswith(".") and path.name != PAGE_FILE
    )


def size_text(size_bytes: float) -> str:
    """Like `12 kB`."""
    for unit in ("B", "kB", "MB"):
        if size_bytes < SIZE_STEP:
            return f"{size_bytes:.0f} {unit}" if unit != "MB" else f"{size_bytes:.1f} {unit}"
        size_bytes /= SIZE_STEP
    return f"{size_bytes:.1f} GB"


def _drawn(figure: Figure, data: list[dict[str, Any]]) -> Mapping[str, Any]:
    """What the page's script reads of a figure."""
    slider = figure.slider
    return {
        "data": data,
        "layout": figure.layout,
        "height": figure.height_px,
        "rows": figure.rows,
        "slider": None if slider is None else {"moments": slider.moments, "frames": slider.frames},
    }


@lru_cache(maxsize=1)
def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # only pages need it

    loader = FileSystemLoader(Path(__file__).resolve().parent)
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template(
        TEMPLATE
    )


@lru_cache(maxsize=1)
def _plotly_gzip() -> str:
    """Plotly's script in base64, gzipped: 2 MB a page in place of 5.

    It is read from its package, which is not imported: that would take seconds.
    """
    spec = find_spec("plotly")
    folder = Path(spec.origin or "").parent if spec is not None else Path()
    path = folder / PLOTLY_JS
    if spec is None or not path.is_file():
        raise GpuYardError(f"{PAGE_FILE} needs plotly's {PLOTLY_JS}: pip install plotly")
    return b64encode(gzip.compress(path.read_bytes(), GZIP_LEVEL, mtime=0)).decode()


SHORT = 12  # characters of a commit


def facts_of(record: Record, *, seeds: Iterable[int] = ()) -> tuple[tuple[str, str], ...]:
    """(name, text) of the command, its settings, the code and the seeds of the runs on the page."""
    first, *words = record.command or ("",)
    drawn = sorted(set(seeds)) or ([] if record.seed is None else [record.seed])
    versions = record.versions
    return (
        ("command", f"{first} {shlex.join(words)}".strip()),
        ("overrides", shlex.join(record.overrides) or "none"),
        ("commit", _commit(record)),
        ("seed" if len(drawn) == 1 else "seeds", ", ".join(map(str, drawn)) or "none"),
        ("versions", ", ".join(f"{name} {versions[name]}" for name in ("gpuyard", "python", "numpy")
                               if versions.get(name))),
    )  # fmt: skip


def _commit(record: Record) -> str:
    if record.git_commit is None:
        return "not from a git repository"
    changed = " with changes that are not committed" if record.git_dirty else ""
    return record.git_commit[:SHORT] + changed


Trace = dict[str, Any]  # of Plotly.js

# Of medium lightness, so that each stands out from a white and from a dark ground.
COLOURS = ("#2E86DE", "#E0662B", "#1E9E6B", "#C154A8", "#B8860B", "#8B6BE8", "#D64550", "#7C8794")
GREY = COLOURS[-1]
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "pentagon")


def in_colours(figures: Sequence[Sequence[Trace]]) -> list[list[Trace]]:
    """The traces of each figure of a page, coloured; those without a scheduler stay as they are.

    Lines say whose they are: a trace names its scheduler in `meta`, one of marks a list of them, a
    mark each. Each scheduler has one colour in all figures; what was swept stands in brackets
    behind its name and changes none. Schedulers that have lines come first. Several lines of one
    differ in strokes or symbols.
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
