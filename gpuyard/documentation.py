"""Keys as Markdown, read from `conf/`: `python -m gpuyard.documentation`.

It writes the part of docs/reference/configuration.md between its two marks anew; what stands
outside is written by hand. A key's words are the comment behind it in its yaml file, or above it.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gpuyard.command import PROGRAMS
from gpuyard.launch.errors import CONF, ConfigError

PAGE = CONF.parent / "docs" / "reference" / "configuration.md"
BEGIN, END = "<!-- generated from conf/ -->", "<!-- end of what is generated -->"
OF_HYDRA = ("defaults", "hydra")  # top-level keys that are no keys of a program
KEY = re.compile(r"^(?P<indent> *)(?P<name>[\w@]+):(?P<rest>.*)$")
COMMENT = re.compile(r"(?:^|\s)# ?(?P<words>.*)$")
DETAILED = ("rules", "outages", "ray")  # groups whose keys are told too
ELSEWHERE = (  # one study each, told on its page
    "compare_traces", "drift_in_time", "judge_mixes", "measure_colocation", "train_worl",
)  # fmt: skip


@dataclass(frozen=True)
class Key:
    """A key of a yaml file, as a user writes it."""

    name: str  # dotted
    default: str  # as it stands in the file; empty: a mapping or a list over several lines
    words: str  # of its comment; empty where it has none


def keys_of(path: Path) -> Iterator[Key]:
    """Yield the keys of a yaml file of `conf/`, in its order; `_target_` and the like left out."""
    lines = path.read_text(encoding="utf-8").splitlines()
    body = next((i for i, line in enumerate(lines) if line and not line.startswith("#")), 0)
    above: list[str] = []  # comment lines right above
    parents: list[tuple[int, str]] = []  # (indent, name) of the mappings around
    last: Key | None = None  # told once no line goes on with its comment
    for line in lines[body:]:
        found = KEY.match(line)
        if found is None:
            comment = re.match(r"^(\s*)# (.*)$", line)
            goes_on = comment and last and last.words and not above and comment[1]
            if last and comment and goes_on:
                last = replace(last, words=f"{last.words} {comment[2]}")
            else:
                above = [*above, comment[2]] if comment else []
            continue
        if last:
            yield last
        indent, name = len(found["indent"]), found["name"]
        parents = [each for each in parents if each[0] < indent]
        dotted = ".".join([*(each for _, each in parents), name])
        parents.append((indent, name))
        default, words = _split(found["rest"])
        told = dotted.split(".")[0] not in OF_HYDRA and not name.startswith("_")
        words = words or (" ".join(above) if default else "")  # above a mapping: of a section
        last = Key(dotted, default, words) if told else None
        above = []
    if last:
        yield last


def _split(rest: str) -> tuple[str, str]:
    """Value and comment of what stands behind a key."""
    found = COMMENT.search(rest)
    value = rest[: found.start()] if found else rest
    return value.strip(), found["words"].strip() if found else ""


def _listed(keys: Iterable[Key]) -> list[str]:
    """One item for each key whose file says what it means."""
    return [
        f"- `{key.name}={key.default}`: {key.words}"
        if key.default
        else f"- `{key.name}`: {key.words}"
        for key in keys
        if key.words
    ]


def generated() -> str:
    """The part between the marks."""
    text = ["## Keys of simulating programs", "", *_listed(keys_of(CONF / "base.yaml")), ""]
    text += ["## Keys of single programs", ""]
    for name in PROGRAMS:
        path = CONF / f"{name}.yaml"
        lines = _listed(keys_of(path)) if path.is_file() and name not in ELSEWHERE else []
        text += [f"### {name}", "", *lines, ""] if lines else []
    text += ["## Keys of some choices", ""]
    for name in DETAILED:
        for path in sorted((CONF / name).glob("*.yaml")):
            lines = _listed(keys_of(path))
            title = name if path.stem == "_base" else f"{name}={path.stem}"
            text += [f"### {title}", "", *lines, ""] if lines else []
    return "\n".join(text).strip() + "\n"


def page(text: str) -> str:
    """The whole page, given the one there is.

    Raises:
        ConfigError: one of the two marks is not in it.
    """
    if BEGIN not in text or END not in text:
        raise ConfigError(f"{PAGE}: needs the lines {BEGIN!r} and {END!r}")
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    return f"{head}{BEGIN}\n\n{generated()}\n{END}{tail}"


def main() -> None:
    """Write the page; exit with status 1 where it was not current and `--check` is given."""
    old = PAGE.read_text(encoding="utf-8")
    new = page(old)
    if "--check" in sys.argv and new != old:
        print(f"{PAGE}: not current; run `python -m gpuyard.documentation`", file=sys.stderr)
        sys.exit(1)
    PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
