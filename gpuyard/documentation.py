"""Reference pages, read from `conf/` and docstrings: `python -m gpuyard.documentation`.

It writes the parts of the pages between their marks anew; what stands outside is written by hand.
What a rule does is the first sentence of its class. MkDocs takes its hooks from here, too:
CONTRIBUTING.md is a page of the site.
"""

import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir

from gpuyard.command import PROGRAMS
from gpuyard.launch.build import build, resolve
from gpuyard.launch.errors import CONF
from gpuyard.launch.helping import Key, keys_of
from sim.report.table_text import markdown_table

REFERENCE = CONF.parent / "docs" / "reference"
PAGES = (REFERENCE / "configuration.md", REFERENCE / "schedulers.md")
PART = re.compile(
    r"(<!-- generated from conf/(\w*) -->\n).*?(<!-- end of what is generated -->)", re.S
)
DETAILED = ("agents", "rules")  # groups whose keys are told too
ELSEWHERE = (  # one study each, told on its page
    "compare_traces", "fit_generator", "fit_interference", "generate_trace", "judge_mixes",
    "measure_colocation", "train_worl",
)  # fmt: skip


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
    keys = {name: _listed(keys_of(CONF / f"{name}.yaml")) for name in PROGRAMS
            if name not in ELSEWHERE and (CONF / f"{name}.yaml").is_file()}  # fmt: skip
    count = Counter(line for lines in keys.values() for line in lines)
    text += ["## Keys of several programs", "", *(line for line in count if count[line] > 1), ""]
    text += ["## Keys of single programs", ""]
    for name, lines in keys.items():
        own = [line for line in lines if count[line] == 1]
        text += [f"### {name}", "", *own, ""] if own else []
    text += ["## Keys of some choices", ""]
    for name in DETAILED:
        for path in sorted((CONF / name).glob("*.yaml")):
            lines = _listed(keys_of(path))
            title = name if path.stem == "_base" else f"{name}={path.stem}"
            text += [f"### {title}", "", *lines, ""] if lines else []
    return "\n".join(text).strip() + "\n"


BY_POLICY = ("marl", "served")  # what it is given suspends jobs or not
OF_A_RUN = ("placer", "sharing", "name", "checkpoint", "weights", "observation")


def table(group: str) -> str:
    """What there is to choose from in a group of rules: what each does, reads and can be told."""
    rows = [_row(group, path) for path in sorted((CONF / group).glob("*.yaml"))]
    heads = [head for head in rows[0] if any(row[head] for row in rows)]
    cells = ([row[head] for head in heads] for row in rows)
    return "\n".join(markdown_table(heads, cells, texts=len(heads))) + "\n"


def _row(group: str, path: Path) -> dict[str, str]:
    text = path.read_text(encoding="utf-8")
    module, _, name = text.partition("_target_: ")[2].split()[0].rpartition(".")
    rule = getattr(import_module(module), name)
    own = re.findall(r"override /(\w+): (\w+)", text)
    keys = [f"`{key}={value}`" for key, value in [*own, *_own_keys(path)]]
    return {
        f"`{group}=`": f"`{path.stem}`",
        "what it does": _first_sentence(rule),
        "reads": _reads(group, path.stem, rule) if group != "forwarding" else "",
        "preempts": _preempts(path.stem, rule) if group == "scheduler" else "",
        "keys": ", ".join([*(["one queue"] if getattr(rule, "one_queue", False) else []), *keys]),
    }


def _own_keys(path: Path) -> Iterator[tuple[str, str]]:
    for key in keys_of(path):
        name = key.name.removeprefix("scheduler.")
        if key.default and name.split(".")[0] not in OF_A_RUN:
            yield name, key.default


def _first_sentence(rule: type) -> str:
    paragraph = " ".join((inspect.getdoc(rule) or "").partition("\n\n")[0].split())
    return paragraph.removesuffix(".")


def _reads(group: str, name: str, rule: Any) -> str:
    """What it is told of durations, and whether it is told of co-location."""
    needs = getattr(rule, "order_needs", getattr(rule, "needs", None))
    if needs is None and name in BY_POLICY:
        return "as what is served"
    if needs is None:
        with initialize_config_dir(str(CONF), version_base=None):
            config = resolve(compose("simulate", [f"{group}={name}"]))
        needs = build(config, group).needs
    words = {"DURATION": "oracle", "PREDICTION": "predicted", "PROFILE": "profiles"}
    return ", ".join(words[signal.name] for signal in needs if signal.name in words)


def _preempts(name: str, rule: Any) -> str:
    found = getattr(rule, "preempts", False)
    if isinstance(found, property) or name in BY_POLICY:
        return "by what it is given"
    return "yes" if found else "no"


def page(text: str) -> str:
    """The whole page, given the one there is."""
    return PART.sub(
        lambda part: f"{part[1]}\n{table(part[2]) if part[2] else generated()}\n{part[3]}", text
    )


def main() -> None:
    """Write the pages; exit with status 1 where one was not current and `--check` is given."""
    for path in PAGES:
        old = path.read_text(encoding="utf-8")
        new = page(old)
        if "--check" in sys.argv and new != old:
            print(f"{path}: not current; run `python -m gpuyard.documentation`", file=sys.stderr)
            sys.exit(1)
        path.write_text(new, encoding="utf-8")


OUTSIDE = "CONTRIBUTING.md"  # in the site, though not in docs/
TO_OUTSIDE = re.compile(r"\]\((?:\.\./)+" + re.escape(OUTSIDE))
OUT_OF_SITE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?!docs/)\w[^)]*\.py\)")


def on_files(files: Any, config: Any) -> Any:
    """Add what stands outside docs/ (hook of MkDocs)."""
    from mkdocs.structure.files import File  # of the site alone

    text = (CONF.parent / OUTSIDE).read_text(encoding="utf-8")
    text = re.sub(r"\]\(docs/", "](", text)
    text = re.sub(r"\[([^\]]+)\]\((?!https?:|#)[A-Z]+\.md\)", r"\1", text)
    files.append(File.generated(config, OUTSIDE, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links to the repository lead into the site, or be plain text (hook of MkDocs)."""
    up = "../" * page.file.src_uri.count("/")
    return OUT_OF_SITE.sub(r"\1", TO_OUTSIDE.sub(f"]({up}{OUTSIDE}", markdown))


if __name__ == "__main__":
    main()
