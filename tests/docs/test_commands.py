"""Commands in the docs name what exists, and the page of keys is current."""

import re
import shlex
from pathlib import Path

import hydra
import pytest
import yaml
from omegaconf import OmegaConf

from gpuyard.command import PROGRAMS
from gpuyard.documentation import PAGES, page
from gpuyard.launch.errors import CONF
from gpuyard.launch.helping import keys_of

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
OURS = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", DOCS / "README.md", DOCS / "quickstart.md",
    DOCS / "guide.md", DOCS / "faq.md", DOCS / "concepts.md", DOCS / "workloads.md",
    DOCS / "clusters.md", DOCS / "agents.md", DOCS / "interference.md", DOCS / "metrics.md",
    DOCS / "design.md", *sorted((DOCS / "reference").glob("*.md")),
]  # fmt: skip
MOST_WORDS = 15_000  # of these pages but the README
MOST_WORDS_README = 700
MOST_WORDS_RESULT = 500  # of an experiment; the summary is longer
FENCE = re.compile(r"^```(?:bash|sh)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
MINE = {"least_service", "largest_gang", "mine", "mine_like"}  # that a reader makes on the way
WRONG = "topology.serverz"  # an example of an error


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
def test_commands_name_what_there_is_and_are_composed(path: Path):
    """As the program would, up to where it begins to work."""
    OmegaConf.register_new_resolver("of_run", lambda: "", replace=True)
    for program, *words in commands(path):
        assert program in {*PROGRAMS, "help"}, program
        for word in words:
            key, _, value = word.lstrip("+").partition("=")
            group = CONF / key.partition("@")[0]
            if group.is_dir() and value and not re.search(r"[(\[]", value):
                for name in value.split(","):
                    assert (group / f"{name}.yaml").is_file() or name in MINE, word
        if program not in {"help", "demo"}:
            with hydra.initialize_config_dir(str(CONF), version_base=None):
                hydra.compose(program, composable(words))


def composable(words: list[str]) -> list[str]:
    """Overrides but those of Hydra; of a sweep the first value; nothing that a reader makes."""
    kept = []
    for word in words:
        key, _, value = word.partition("=")
        if not value or key.startswith(("hydra", "-")) or value in MINE or key == WRONG:
            continue
        if not re.search(r"[(\[{]", value):
            word = f"{key}={value.split(',')[0]}"
        kept.append(re.sub(r"=(?:range|glob)\(.*\)$", "=0", word))
    return [word for word in kept if word != "scheduler=0"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_reference_pages_are_current(path: Path):
    text = path.read_text(encoding="utf-8")
    assert page(text) == text, "run `python -m gpuyard.documentation`"


def test_rules_are_told_by_their_classes_and_files():
    page_of_rules = (DOCS / "reference" / "schedulers.md").read_text(encoding="utf-8")  # current
    lines = {line.split("`")[1]: line for line in page_of_rules.splitlines() if line[:3] == "| `"}
    assert lines["own"] == "| `own` | Jobs stay at home |"
    assert "| oracle | yes |" in lines["srtf"]
    assert "| predicted, profiles | no | `placer=lwf`, " in lines["ada_srsf"]
    assert "| one queue, `lease_s=3600.0`, " in lines["dally"]
    assert all(line.split(" | ")[1] for line in lines.values())


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


def test_the_page_of_schedulers_names_all_that_there_are():
    text = (DOCS / "reference" / "schedulers.md").read_text(encoding="utf-8")
    groups = ("scheduler", "placer", "sharing", "forwarding")
    names = [path.stem for group in groups for path in sorted((CONF / group).glob("*.yaml"))]
    assert len(names) > 50
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []


def test_a_page_of_results_has_at_most_500_words():
    for path in sorted((DOCS / "results").glob("*.md")):
        words = path.read_text(encoding="utf-8").split()
        assert len(words) <= MOST_WORDS_RESULT or path.stem == "README", path.name
