"""Learning by playing, judged over training seeds: `reproduce.py experiment=learn_climb`.

Learns from every seed that is not done yet, in a folder of its own and from where it was stopped;
then one table, with an interval over seeds, and one figure of all curves. Where a node has `arms`
(name -> overrides), every arm learns from every seed, and has a table of its own, with ratios to
the first arm on the same windows; the page's table has a row an arm, over seeds.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from gpuyard.launch.build import check_keys, resolve, yaml_text
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.own import composed_of
from gpuyard.launch.start import Launch
from gpuyard.launch.terminal import error_console, table_console
from gpuyard.reproduction.ahead import check_words
from gpuyard.reproduction.node import PAGE_FILE, asked, last_of_each, write_page
from gpuyard.reproduction.runs import begin_training, forget_stored, write_frame
from gpuyard.training.learn import (
    CONFIDENCE,
    METRICS,
    draw_curves,
    ratios_of,
    read_curve,
    report,
    show,
)
from gpuyard.training.setting import trainer_of
from gpuyard.training.strategies import CHECKPOINT
from sim.report.job_times import Interval, mean_interval, percent
from sim.report.table_text import TableText, ratio_text, rich_tables, write_markdown

log = logging.getLogger(__name__)

LEARNED = "learned"
TABLE, TEXT, FIGURE = "seeds.csv", "seeds.md", "curves.png"
NODE_KEYS = ("program", "title", "seeds", "begin", "minutes", "updates", "training", "quick")
ARMS = "arms"  # a key that a node may have
PAIRED = "paired"  # another; false: arms play in settings of their own, and are not compared
QUICK_SEEDS = 2
NONE = Interval(float("nan"), float("nan"), float("nan"), 0)


@dataclass(frozen=True)
class Learned:
    """What came of one seed."""

    arm: str  # empty where there is only one
    seed: int
    folder: Path
    begin: str
    reference: str
    metrics: Mapping[str, Any]
    config: Mapping[str, Any]  # of `learn.yaml`, resolved

    def ratio(self, rival: str) -> Interval:
        """Of mean JCT on held-out windows, learned / rival, over windows."""
        return _interval(self.metrics["ratio_of_mean_jct"][rival])

    def ratio_to(self, other: Self) -> Interval:
        """The same, over what another arm learned; none over itself or on other windows."""
        logs, *windows = (
            [each.metrics["held_out"].get(key) for each in (self, other)]
            for key in ("ln_mean_jct_s", "part", "first", "windows")
        )
        if other is self or None in logs or any(mine != its for mine, its in windows):
            return NONE
        mine, its = map(np.array, logs)
        times = self.metrics["held_out"].get("time_of") or range(len(mine))  # older files: none
        return _interval(ratios_of(mine, {other.arm: its}, times)[other.arm])


def _interval(entry: Mapping[str, Any]) -> Interval:
    return Interval(entry["ratio"], entry["low"], entry["high"], entry["windows"])


def run(launch: Launch) -> None:
    """Learn what is missing, compare; GpuYardError: the node is wrong, or a seed failed."""
    node = launch.config["reproduce"]
    words, debug = _words(node), asked().debug
    parts = {f"reproduce.{ARMS}.{arm}": more for arm, more in (node.get(ARMS) or {}).items()}
    parts = {place: last_of_each([*words, *more]) for place, more in parts.items()}
    check_words(launch, "learn", parts or {"reproduce": last_of_each(words)})
    launch.begin((TABLE, TEXT, FIGURE, PAGE_FILE))
    forget_stored(launch, LEARNED)
    seeds = node["seeds"][:QUICK_SEEDS] if debug else node["seeds"]
    arms, confidence = node.get(ARMS) or {"": []}, launch.config["confidence"]
    found: dict[str, list[Learned]] = {arm: [] for arm in arms}
    for place, seed in enumerate(seeds):
        for arm, more in arms.items():
            log.info("seed %s, %d of %d%s", seed, place + 1, len(seeds), f", {arm}" if arm else "")
            found[arm].append(_learned(launch, arm, seed, [*words, *more]))
    rows = {arm: _rows(each, next(iter(found.values())), confidence) for arm, each in found.items()}
    write_frame(launch.folder / TABLE, [_plain(row) for each in rows.values() for row in each])
    paired = bool(node.get(ARMS)) and bool(node.get(PAIRED, True))
    text = _text(str(node["title"]), found, rows, confidence, paired)
    write_markdown(launch.folder / TEXT, text)
    page = _over_seeds(text) if node.get(ARMS) else text
    write_page(launch.folder, page, [arm.replace("_", " ") for arm in rows if arm])
    every = [one for each in found.values() for one in each]
    curves = {
        ", ".join(filter(None, (one.arm, f"seed {one.seed}"))): read_curve(one.folder)
        for one in every
    }
    draw_curves(launch.folder / FIGURE, curves, every[0].begin, every[0].reference)
    if launch.config["page"]:
        show(launch.folder, every[0].folder, every[0].config)
    table_console().print(rich_tables(text))
    print(f"results in {launch.folder}")


def _words(node: Mapping[str, Any]) -> list[str]:
    """Overrides of `learn.py` for every seed, the command line's cluster and jobs among them."""
    check_keys("reproduce", node, (*NODE_KEYS, ARMS, PAIRED), needed=NODE_KEYS)
    if not isinstance(node.get(ARMS) or {}, Mapping):
        raise ConfigError(f"reproduce.arms is {node[ARMS]!r}; give names and their overrides")
    if not isinstance(node["seeds"], list) or not node["seeds"]:
        raise ConfigError(f"reproduce.seeds is {node['seeds']!r}; list some, like [0, 1, 2]")
    own = [
        f"{key}={'null' if node[key] is None else node[key]}"
        for key in ("begin", "minutes", "updates")
    ]
    return asked().of_training([*own, *node["training"]], node["quick"])


def _learned(launch: Launch, arm: str, seed: int, words: Sequence[str]) -> Learned:
    """What was learned from one seed by these words; learned now if it is not there."""
    folder = launch.folder / LEARNED / arm / f"seed_{seed}"
    overrides = last_of_each([*words, f"seed={seed}"])
    begin_training(folder, overrides)
    cfg = composed_of("learn", overrides)
    config, text = resolve(cfg), yaml_text(cfg)
    if not (folder / METRICS).is_file():
        begun = (folder / CHECKPOINT).is_file()
        config |= {"jobs": launch.config["jobs"], "resume": str(folder) if begun else None}
        record = replace(launch.record, overrides=tuple(overrides), seed=seed, config_yaml=text)
        one = Launch(folder=folder, config=config, record=record)
        trainer = trainer_of(one)
        trainer.run(error_console())
        log.info("%s", report(one, trainer))
    metrics = json.loads((folder / METRICS).read_text("utf-8"))
    names = str(config["begin"]), str(config["reference"])
    return Learned(arm, seed, folder, *names, metrics, config)


def _rows(
    found: Sequence[Learned], first: Sequence[Learned], confidence: float
) -> list[dict[str, Any]]:
    """A row a seed, intervals over windows; then one of all, intervals over seeds.

    `first` has what the first arm learned from these seeds.
    """
    rows = [
        {
            "arm": each.arm,
            "seed": each.seed,
            "updates": each.metrics["updates"],
            "minutes": each.metrics["minutes"],
            "to_begin": each.ratio(each.begin),
            "to_reference": each.ratio(each.reference),
            "to_first": each.ratio_to(like),
            "gap_closed": _single(each.metrics.get("share_of_gap_closed")),
        }
        for each, like in zip(found, first, strict=True)
    ]
    gaps = [row["gap_closed"].centre for row in rows]
    return [
        *rows,
        {
            "arm": found[0].arm,
            "seed": "all",
            "updates": sum(row["updates"] for row in rows),
            "minutes": sum(row["minutes"] for row in rows),
            **{key: mean_interval(np.log([row[key].centre for row in rows]), confidence).exp()
               for key in ("to_begin", "to_reference", "to_first")},
            "gap_closed": mean_interval(gaps, confidence),
        },
    ]  # fmt: skip


def _single(value: float | None) -> Interval:
    return NONE if value is None else replace(NONE, centre=value, count=1)


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the CSV file, an interval as three numbers."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Interval):
            found |= {key: value.centre, f"{key}_low": value.low, f"{key}_high": value.high}
        else:
            found[key] = value
    return found


def _text(
    title: str,
    found: Mapping[str, Sequence[Learned]],
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    confidence: float,
    paired: bool,
) -> TableText:
    """A table an arm; `paired`: with ratios to the first arm."""
    first, *others = next(iter(found.values()))
    same = first.begin == first.reference
    gap = "" if same else f" Gap: from {first.begin} to {first.reference}, in ln mean JCT."
    headers = ["seed", "updates", "minutes", f"to {first.begin}"]
    headers += [f"to {first.reference}", "share of the gap closed"] if gap else []
    headers += [f"to {first.arm}"] if paired else []
    groups = tuple(
        (f"{title}: {arm}" if arm else title,
         tuple(_texts_of(row, bool(gap), paired) for row in (each if others else each[:1])))
        for arm, each in rows.items()
    )  # fmt: skip
    note = (
        f"Ratios of mean JCT on {first.ratio(first.begin).count} held-out windows a seed, each "
        f"seed with windows of its own; below 1 is better. Rows of seeds: {percent(CONFIDENCE)} t "
        "intervals over windows, by stretch of time where several windows are of one."
    )
    if others:
        note += (
            f" Last row: {percent(confidence)} t intervals over the {1 + len(others)} seeds, "
            "of the logarithms for ratios."
        )
    return TableText(tuple(headers), groups, note + gap)


def _over_seeds(text: TableText) -> TableText:
    """The last row of each arm, which is over its seeds, without seed and updates."""
    last = tuple((arm, (each[-1][2:],)) for arm, each in text.settings)
    return replace(text, headers=text.headers[2:], settings=last)


def _texts_of(row: Mapping[str, Any], gap: bool, paired: bool) -> tuple[str, ...]:
    texts = [str(row["seed"]), str(row["updates"]), f"{row['minutes']:.1f}"]
    shown = ["to_begin", *(["to_reference", "gap_closed"] if gap else []),
             *(["to_first"] if paired else [])]  # fmt: skip
    return (*texts, *("-" if np.isnan(row[key].centre) else ratio_text(row[key]) for key in shown))
