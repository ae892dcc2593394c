"""Every relative link and anchor of the docs leads somewhere, and so do pages named in code."""

import re
import subprocess
import unicodedata
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuyard.documentation import OUTSIDE, on_page_markdown

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
NAMED = re.compile(r"docs/[\w/]+\.(?:md|yaml|csv|png)")


def short(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub and MkDocs make them: lower case, without signs, blanks as -."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    found = set()
    for heading in HEADING.findall(text):
        plain = unicodedata.normalize("NFKD", LINK.sub(lambda m: m.group()[1:], heading))
        found.add(re.sub(r"[^\w\- ]", "", plain.replace("`", "")).strip().lower().replace(" ", "-"))
    return found


def broken(page: Path) -> list[str]:
    """Links of `page` that lead nowhere; those into a folder that is not there yet are passed."""
    lost = []
    for found in LINK.finditer(FENCED.sub("", page.read_text(encoding="utf-8"))):
        target, _, anchor = found["target"].partition("#")
        if re.match(r"^[a-z]+:", target):
            continue
        path = (page.parent / target).resolve() if target else page
        if path.exists():
            if anchor and path.suffix == ".md" and anchor not in anchors(path):
                lost.append(f"{short(page)}: {found['target']}: no such heading")
        elif path.parent.is_dir():
            lost.append(f"{short(page)}: {found['target']}: no such file")
    return lost


@pytest.mark.parametrize("page", PAGES, ids=short)
def test_links_lead_somewhere(page: Path):
    assert broken(page) == []


def test_a_broken_link_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    page = tmp_path / "page.md"
    page.write_text("# One `two`\n[a](#one-two) [b](#two) [c](gone.md) [d](later/gone.md)\n")
    monkeypatch.setitem(broken.__globals__, "ROOT", tmp_path)
    assert broken(page) == ["page.md: #two: no such heading", "page.md: gone.md: no such file"]


def test_pages_that_code_names_are_there():
    """Comments, messages and docstrings; of folders that are not there yet nothing is asked."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout: the list of tracked files is not known")
    lost = set()
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix not in {".py", ".yaml", ".md", ".cfg"} or not path.is_file():
            continue
        for target in NAMED.findall(path.read_text(encoding="utf-8")):
            found = ROOT / target
            if not found.exists() and found.parent.is_dir():
                lost.add(f"{name}: {target}")
    assert sorted(lost) == []


def test_the_site_shows_pages_that_are_there():
    nav = set(re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]))
    there = {page.relative_to(ROOT / "docs").as_posix() for page in PAGES[2:]} | {OUTSIDE}
    assert {name for name in nav - there if (ROOT / "docs" / name).parent.is_dir()} == set()


def test_in_the_site_links_to_the_repository_lead_to_pages_of_it():
    page = SimpleNamespace(file=SimpleNamespace(src_uri="results/speed.md"))
    text = "[a](../../CONTRIBUTING.md#b), [`c`](../../sim/c.py), [d](../guide.md)"
    shown = "[a](../CONTRIBUTING.md#b), `c`, [d](../guide.md)"
    assert on_page_markdown(text, page) == shown


def test_every_picture_is_shown_somewhere():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    figures = (ROOT / "docs" / "figures").glob("*")
    assert [path.name for path in figures if f"figures/{path.name}" not in text] == []
