"""Commands in the docs name what exists, and the page of keys is current."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from gpuyard.command import PROGRAMS
from gpuyard.documentation import PAGE, keys_of, page
from gpuyard.folders import CONF

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
OURS = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", DOCS / "README.md", DOCS / "quickstart.md",
    DOCS / "guide.md", DOCS / "faq.md", DOCS / "concepts.md", DOCS / "workloads.md",
    DOCS / "clusters.md", DOCS / "agents.md", DOCS / "interference.md", DOCS / "metrics.md",
    DOCS / "design.md", *sorted((DOCS / "reference").glob("*.md")),
]  # fmt: skip
MOST_WORDS = 17_500  # of these pages but the README
MOST_WORDS_README = 700
FENCE = re.compile(r"^```(?:bash|sh)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
MINE = {"least_service", "largest_gang", "mine", "mine_like"}  # that a reader makes on the way


def commands(path: Path) -> list[list[str]]:
    """The words of each command `gpuyard PROGRAM ...` in the fenced blocks of a page."""
    found = []
    for block in FENCE.findall(path.read_text(encoding="utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            line = line.removeprefix("$ ")
            if line.startswith("gpuyard ") and "..." not in line:
                found.append(shlex.split(line, comments=True)[1:])
    return found


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_name_what_there_is(path: Path):
    for program, *words in commands(path):
        assert program in {*PROGRAMS, "help"}, program
        for word in words:
            key, _, value = word.lstrip("+").partition("=")
            group = CONF / key.partition("@")[0]
            if group.is_dir() and value and not re.search(r"[(\[]", value):
                for name in value.split(","):
                    assert (group / f"{name}.yaml").is_file() or name in MINE, word


def test_the_page_of_keys_is_current():
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "run `python -m gpuyard.documentation`"


def test_keys_have_their_defaults_and_comments(tmp_path: Path):
    path = tmp_path / "x.yaml"
    path.write_text(
        "# A file.\ndefaults:\n  - base\n\n# of what is below\nouter:\n  inner: 3  # GPUs\n"
        "    # of a gang\n# above\nlist: [1, 2]\nplain: null\n_target_: a.b\n"
    )
    found = [(key.name, key.default, key.words) for key in keys_of(path)]
    assert found == [
        ("outer", "", ""), ("outer.inner", "3", "GPUs of a gang"),
        ("list", "[1, 2]", "above"), ("plain", "null", ""),
    ]  # fmt: skip


def test_keys_are_those_of_the_file():
    told = {key.name for key in keys_of(CONF / "evaluate.yaml")}
    values = yaml.safe_load((CONF / "evaluate.yaml").read_text())
    assert {name for name in told if "." not in name} == set(values) - {"defaults"}


def test_the_docs_stay_short():
    words = {path: len(path.read_text(encoding="utf-8").split()) for path in OURS}
    assert words[ROOT / "README.md"] <= MOST_WORDS_README
    assert sum(n for path, n in words.items() if DOCS in path.parents) <= MOST_WORDS


def test_the_glossary_has_at_most_40_terms():
    text = (DOCS / "concepts.md").read_text().partition("## Glossary")[2]
    assert 20 <= len(re.findall(r"^- \*\*", text, re.MULTILINE)) <= 40
