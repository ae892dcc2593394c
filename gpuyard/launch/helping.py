"""`--help` of a program, read from `conf/`: what it does, its keys and choices, each in words.

A key's words are the comment behind it in its yaml file, or above it; a program's are those that
its file begins with.
"""

import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from gpuyard.launch.errors import CONF

OF_HYDRA = ("defaults", "hydra")  # top-level keys that are no keys of a program
KEY = re.compile(r"^(?P<indent> *)(?P<name>[\w@]+):(?P<rest>.*)$")
COMMENT = re.compile(r"(?:^|\s)# ?(?P<words>.*)$")
CALL = re.compile(r"^# python scripts/(?P<name>\w+)\.py(?P<words>.*)$")
NARROWEST, WIDEST = 60, 110  # columns that are written
COMMON = ("_base", "default")  # files of a group that tell what several others set
REPRODUCES = "reproduce"  # program, and node of an experiment that is for it alone


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
        shown = dotted.split(".")[0] not in OF_HYDRA and not name.startswith("_")
        words = words or (" ".join(above) if default else "")  # above a mapping: of a section
        last = Key(dotted, default, words) if shown else None
        above = []
    if last:
        yield last


def _split(rest: str) -> tuple[str, str]:
    """Value and comment of what stands behind a key."""
    found = COMMENT.search(rest)
    value = rest[: found.start()] if found else rest
    return value.strip(), found["words"].strip() if found else ""


def help_text(
    program: str, does: str, chosen: Sequence[str], own: Mapping[str, Mapping[str, Path]]
) -> str:
    """What `gpuyard PROGRAM --help` prints.

    Args:
        program: its keys are in a file of `conf/`, if it has any.
        does: a few words, as `gpuyard help` has them.
        chosen: overrides that stand beside; the keys of files they name are told too.
        own: group -> name -> file of the user's own choices of it.
    """
    path = CONF / f"{program}.yaml"
    if not path.is_file():
        return f"gpuyard {program}: {does}; it takes no keys"
    groups: dict[str, str | None] = {}
    shared = _gather(path, groups)
    known = {key.name.partition(".")[0] for file in (path, *shared) for key in keys_of(file)}
    known |= {REPRODUCES} if program == REPRODUCES else set()
    known |= {group.rpartition("@")[2] for group in groups} | {_group(group) for group in groups}
    parts = [f"gpuyard {program} [key=value ...]: {does}", *_begins_with(path)]
    words = {
        key.name: key.words
        for group in groups
        for name in COMMON
        for key in _of_choice(group, CONF / _group(group) / f"{name}.yaml")
    }
    parts += _section("Its keys, with their defaults", _told(keys_of(path), words))
    for file in shared:
        parts += _section(f"Keys of several programs ({file.name})", _told(keys_of(file), words))
    for word in chosen:
        group, _, name = word.partition("=")
        file = own.get(_group(group), {}).get(name) or CONF / _group(group) / f"{name}.yaml"
        parts += _section(f"Keys of {word}", _told(_of_choice(group, file), words))
    parts += _section(
        "Choices (GROUP=NAME), the default first",
        [(group, ", ".join(_choices(group, groups[group], known))) for group in sorted(groups)],
    )
    parts += _section("Your own choices", [(name, ", ".join(own[name])) for name in sorted(own)])
    return "\n".join([*parts, "", *_more(program, groups)])


def _more(program: str, groups: Collection[str]) -> list[str]:
    lines = [(f"gpuyard {program} --cfg job", "prints all keys and runs nothing")]
    if groups:
        lines.insert(0, (f"gpuyard {program} GROUP=NAME --help", "tells the keys of that choice"))
    if program != REPRODUCES:
        lines.append((f"gpuyard {program} -m key=A,B", "runs once for each value"))
    width = max(len(command) for command, _ in lines)
    return [f"  {command:{width}}  {words}" for command, words in lines]


def _begins_with(path: Path) -> list[str]:
    """The comment that a program's file begins with, calls apart."""
    found: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        call = CALL.match(line)
        if call:
            found += ["", f"  gpuyard {call['name']}{call['words']}", ""]
        elif line.startswith("# "):
            found.append(line[2:])
        else:
            break
    return found


def _gather(path: Path, groups: dict[str, str | None]) -> list[Path]:
    """Files that a program's file is made of; what may be chosen goes into `groups`."""
    shared: list[Path] = []
    for entry in _defaults(path):
        if isinstance(entry, dict):
            ((key, value),) = entry.items()
            group = key.removeprefix("override ").lstrip("/")
            if group not in OF_HYDRA:
                groups[group] = value
        elif entry != "_self_":
            file = path.parent / f"{entry}.yaml"
            if not file.is_file():  # a user's own file that is made of ours
                file = CONF / path.parent.name / file.name
            if file.is_file():
                shared += [file, *_gather(file, groups)]
    return shared


def _defaults(path: Path) -> list[Any]:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    found: list[Any] = (content or {}).get("defaults", [])
    return found


def _of_choice(group: str, path: Path) -> list[Key]:
    """Keys of a file of a group, and of those that it is made of, as a user writes them."""
    found: dict[str, Key] = {}
    if path.is_file():
        whole = "# @package _global_" in path.read_text(encoding="utf-8")
        head = "" if whole else f"{group.lstrip('+').rpartition('@')[2]}."
        for key in (each for file in (path, *_gather(path, {})) for each in keys_of(file)):
            found.setdefault(head + key.name, replace(key, name=head + key.name))
    return list(found.values())


def _told(keys: Iterable[Key], words: Mapping[str, str]) -> list[tuple[str, str]]:
    """(key=default, words), the words of another file where its own has none."""
    told = [(key, key.words or words.get(key.name, "")) for key in keys]
    return [
        (f"{key.name}={key.default}" if key.default else key.name, said)
        for key, said in told
        if key.default or said
    ]


def _group(word: str) -> str:
    """The folder of a group that may stand elsewhere: `gpu_table@gpus`."""
    return word.lstrip("+").partition("@")[0]


def _choices(group: str, default: str | None, known: Set[str]) -> list[str]:
    """Names of its files that fit a program of these keys and groups, the default before others."""
    paths = sorted((CONF / _group(group)).glob("[!_]*.yaml"))
    if group == "experiment":
        asked = [(path, set(_asked(path))) for path in paths]
        wanted = REPRODUCES in known  # by that program, which checks the other keys itself
        paths = [path for path, keys in asked if (REPRODUCES in keys if wanted else keys <= known)]
    return sorted((path.stem for path in paths), key=lambda name: name != default)


def _asked(path: Path) -> Iterator[str]:
    """Top-level keys that an experiment sets, and groups in which it chooses."""
    groups: dict[str, str | None] = {}
    for file in (path, *_gather(path, groups)):
        yield from (key.name.partition(".")[0] for key in keys_of(file))
    yield from map(_group, groups)


def _section(title: str, lines: Sequence[tuple[str, str]]) -> list[str]:
    return ["", f"{title}:", *_columns(lines)] if lines else []


def _columns(lines: Sequence[tuple[str, str]]) -> list[str]:
    """Two columns that fit the terminal, the second one wrapped."""
    from rich.console import Console
    from rich.table import Table

    width = min(max(shutil.get_terminal_size((WIDEST, 24)).columns, NARROWEST), WIDEST)
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column(max_width=width // 2, overflow="fold")
    table.add_column(overflow="fold")
    for name, words in lines:
        table.add_row(name, words)
    console = Console(width=width - 2, no_color=True, highlight=False, markup=False, emoji=False)
    with console.capture() as written:
        console.print(table)
    return [f"  {line.rstrip()}".rstrip() for line in written.get().splitlines()]
