"""House rules that no linter checks; each failure names the file and the rule."""

import ast
import importlib
import re
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("sim", "interference", "gnn", "marl", "gpuyard")
CODE = (*PACKAGES, "scripts", "tests", "benchmarks")
LONGEST_FILE = 400
LONGEST_FUNCTION = 50
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|home|root|Users|opt|mnt)/\w+")


def python_files(*folders: str) -> list[Path]:
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in files if "__pycache__" not in path.parts]


def tracked_text() -> list[tuple[Path, str]]:
    """Files that git tracks or would track, with their text; all of them outside a repository."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("not a git checkout: the list of tracked files is not known")
    found = []
    for name in done.stdout.splitlines():
        path = ROOT / name
        if path.is_file():
            found.append((path, path.read_bytes().decode("utf-8", errors="ignore")))
    return found


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def short(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_no_catch_all_modules():
    names = {"utils.py", "util.py", "helpers.py", "misc.py", "common.py"}
    assert [short(path) for path in python_files(*CODE) if path.name in names] == []


def test_files_fit_a_sitting():
    lengths = {short(p): len(p.read_text().splitlines()) for p in python_files(*CODE)}
    assert {name: n for name, n in lengths.items() if n > LONGEST_FILE} == {}


def test_functions_fit_a_screen():
    long = {}
    for path in python_files(*PACKAGES, "scripts"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
                lines = node.end_lineno - node.lineno + 1
                if lines > LONGEST_FUNCTION:
                    long[f"{short(path)}:{node.name}"] = lines
    assert long == {}


SHORT = 8  # lines of a function whose docstring says why of its only loop


def _unexplained(path: Path) -> Iterator[str]:
    """Loops of kernels without a comment at their head, or right above it."""
    lines = path.read_text().splitlines()
    functions = (each for each in ast.walk(parsed(path)) if isinstance(each, ast.FunctionDef))
    for function in functions:
        if not any("kernel" in ast.unparse(each) for each in function.decorator_list):
            continue
        loops = [each for each in ast.walk(function) if isinstance(each, ast.For | ast.While)]
        told = ast.get_docstring(function) is not None
        body = function.body[told] if told and len(function.body) > 1 else function.body[0]
        if len(loops) == 1 and told and function.end_lineno - body.lineno < SHORT:
            continue
        for loop in loops:
            above, *head = lines[loop.lineno - 2 : loop.body[0].lineno - 1]
            if not (above.strip().startswith("#") or any("#" in line for line in head)):
                yield f"{short(path)}:{loop.lineno}"


def test_loops_of_kernels_say_why():
    assert [each for path in python_files(*PACKAGES) for each in _unexplained(path)] == []


def test_no_modules_import_in_a_circle():
    """Imports within functions and for types count, too."""
    modules = {short(path)[:-3].replace("/", "."): path for path in python_files(*PACKAGES)}
    left = {name: _imported(path, modules) - {name} for name, path in modules.items()}
    while loose := [
        name
        for name, needs in left.items()
        if not needs & set(left) or not any(name in others for others in left.values())
    ]:
        for name in loose:
            del left[name]
    assert sorted(left) == []


def _imported(path: Path, modules: Mapping[str, Path]) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names & set(modules)


def test_no_star_and_no_relative_imports():
    found = [
        f"{short(path)}:{node.lineno}"
        for path in python_files(*PACKAGES, "scripts")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom)
        and (node.level > 0 or any(alias.name == "*" for alias in node.names))
    ]
    assert found == []


def test_no_path_of_a_machine():
    found = [
        f"{short(path)}: {match.group()}"
        for path, text in tracked_text()
        if path != Path(__file__)
        for match in MACHINE_PATH.finditer(text)
    ]
    assert found == []


def test_tests_are_no_package():
    assert [short(p) for p in (ROOT / "tests").rglob("__init__.py")] == []


def config_files() -> list[Path]:
    return sorted((ROOT / "conf").rglob("*.yaml"))


def test_configuration_files_parse_and_hold_no_dead_options():
    for path in config_files():
        yaml.safe_load(path.read_text())
        commented = re.findall(r"^\s*#\s*[a-z_]+:\s*\S+$", path.read_text(), re.MULTILINE)
        assert commented == [], f"{short(path)}: an option that is commented out"


def test_experiments_start_with_their_command():
    """`# python scripts/X.py ... experiment=NAME ...` and then `# @package _global_`."""
    for path in (ROOT / "conf" / "experiment").rglob("*.yaml"):
        lines = path.read_text().splitlines()
        name = path.relative_to(ROOT / "conf" / "experiment").with_suffix("").as_posix()
        commands = [line for line in lines[:2] if re.match(r"# python scripts/\w+\.py ", line)]
        assert len(commands) == 1, f"{short(path)}: the first comment must be its command"
        assert f"experiment={name}" in commands[0], f"{short(path)}: command names another file"
        script = commands[0].split()[2]
        assert (ROOT / script).is_file(), f"{short(path)}: {script} does not exist"


def test_every_target_exists():
    """A `_target_` that cannot be imported fails here, not in a user's run."""
    for path in config_files():
        for target in re.findall(r"_target_:\s*([\w.]+)", path.read_text()):
            module, _, name = target.rpartition(".")
            assert hasattr(importlib.import_module(module), name), f"{short(path)}: {target}"
