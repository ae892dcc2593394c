"""Commands that a page tells a reader to run, and what is said of each."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELL = {"", "bash", "sh", "console"}
HEADING = re.compile(r"^#.*$", re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")
STARTS = re.compile(  # of a line that is typed, and not what a program printed
    r"(?:gpuyard|python|make|pip|curl|ray|\.venv/bin/[\w-]+) |TZ=UTC sacct "
)
INLINE = re.compile(r"gpuyard \w+ .*=|python |make [a-z]|\.venv/bin/[\w-]+ ")
NAMED_ONLY = re.compile(r"python \(")  # `python (why)`, a value of a metric
LENGTH = r"(?:seconds?|minutes?|hours?|days?)"
NUMBER = (
    r"\b(?:\d[\d.]*|an?|one|two|three|four|five|six|eight|ten|some|few|or|about|within|half an)"
)
TIME = re.compile(  # about 40 minutes, half an hour, # hours, minutes=5
    rf"{NUMBER} {LENGTH}\b|[:,;(#|]\s*{LENGTH}\b"
    r"|\b(?:minutes|algo\.time_budget_s|time_budget_s)=\d"
)
PLACEHOLDER = re.compile(r"\b(?:FILE|FOLDER|RUN|DIR|HEAD|PROGRAM|NAME|ID)\b|\.\.\.")


@dataclass(frozen=True)
class Told:
    """One command of a page."""

    page: str
    line: int  # from 1
    command: str  # in one line, without the comment
    beside: str  # its comment, or the paragraph around it

    @property
    def words(self) -> list[str]:
        """The program of GPUYard and its overrides; none where it is another program."""
        found = re.match(r"(?:gpuyard |python scripts/)(\w+)(?:\.py)?(.*)$", self.command)
        return [found[1], *shlex.split(found[2])] if found else []

    @property
    def is_timed(self) -> bool:
        return TIME.search(self.beside) is not None or TIME.search(self.command) is not None

    @property
    def is_template(self) -> bool:
        return PLACEHOLDER.search(self.command) is not None


def told_by(path: Path) -> Iterator[Told]:
    """Commands of a page, those in blocks first."""
    text, page = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
    for block in FENCED.finditer(text):
        if block[1] not in SHELL:
            continue
        line = text.count("\n", 0, block.start(2)) + 1
        for typed in re.sub(r"\\\n *", "\0", block[2]).split("\n"):
            plain = typed.replace("\0", "").removeprefix("$ ")
            if STARTS.match(plain):
                command, _, comment = plain.partition(" #")
                yield Told(page, line, re.sub(r" +", " ", command).strip(), f"# {comment.strip()}")
            line += 1 + typed.count("\0")
    prose = FENCED.sub(lambda found: "\n" * found[0].count("\n"), text)
    prose = HEADING.sub("", prose)
    for span in SPAN.finditer(prose):
        if INLINE.match(span[1]) and not NAMED_ONLY.match(span[1]):
            yield Told(
                page, prose.count("\n", 0, span.start()) + 1, span[1], _around(prose, span.start())
            )


def _around(text: str, at: int) -> str:
    """The paragraph, item of a list or row of a table that a place is in."""
    breaks = [found.end() for found in re.finditer(r"\n\s*\n|\n(?=[-|] ?)", text)]
    first = max((end for end in breaks if end <= at), default=0)
    last = min((end for end in breaks if end > at), default=len(text))
    return " ".join(text[first:last].split())


def every() -> list[Told]:
    """Of every page."""
    return [told for path in PAGES for told in told_by(path)]
