"""How large the house is, counted from the sources: `make census`.

    python benchmarks/census.py [--json]

Rooms are folders of modules; an arrow is a pair of rooms of which one imports the other.
"""

import argparse
import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from signal import SIG_DFL, SIGPIPE, signal

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("sim", "interference", "gnn", "marl", "gpuyard")
CODE = (*PACKAGES, "scripts")


def sources(*folders: str) -> list[Path]:
    """Python files below some folders of the project."""
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def lines(paths: list[Path]) -> int:
    """Lines of some files, blank ones and comments included."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def room_of(path: Path) -> str:
    """The folder, as `sim/engine`."""
    return path.relative_to(ROOT).parent.as_posix()


@cache
def arrows() -> frozenset[tuple[str, str]]:
    """(importing room, imported room), no room to itself; imports inside functions count."""
    rooms = {room_of(path) for path in sources(*PACKAGES)}
    found = set()
    for path in sources(*PACKAGES):
        for module in _imported(path):
            whole = module.replace(".", "/")  # a room, where its own file is imported
            room, imported = room_of(path), whole if whole in rooms else whole.rpartition("/")[0]
            if imported in rooms and imported != room:
                found.add((room, imported))
    return frozenset(found)


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def longest_function() -> int:
    """Lines of the longest function of the packages and scripts."""
    functions = (
        node
        for path in sources(*CODE)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return max((node.end_lineno or node.lineno) - node.lineno + 1 for node in functions)


def words(*pages: Path) -> int:
    """Words of some pages, as `wc -w` counts them: signs of tables and lists, too."""
    return sum(len(page.read_text(encoding="utf-8").split()) for page in pages)


def census() -> dict[str, int]:
    """Every figure, by name."""
    code, tests = sources(*CODE), sources("tests")
    positional = re.compile(r"# noqa: PLR0917")
    return {
        "python_lines": lines(code),
        "python_files": len(code),
        "test_lines": lines(tests),
        "test_files": len(tests),
        "rooms": len({room_of(path) for path in sources(*PACKAGES)}),
        "arrows": len(arrows()),
        "arrows_in_sim": len({pair for pair in arrows() if all(r.startswith("sim") for r in pair)}),
        "longest_function": longest_function(),
        "noqa_positional_in_engine": sum(
            len(positional.findall(path.read_text(encoding="utf-8")))
            for path in sources("sim/engine")
        ),
        "readme_words": words(ROOT / "README.md"),
        "docs_words": words(*sorted((ROOT / "docs").rglob("*.md"))),
        "conf_files": len(list((ROOT / "conf").rglob("*.yaml"))),
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    found = census()
    if parser.parse_args().json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:26} {value:>8,}")


if __name__ == "__main__":
    signal(SIGPIPE, SIG_DFL)  # who reads may have seen enough, like `head`
    main()
