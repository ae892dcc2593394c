"""One table and figures from the folders of a sweep: `python scripts/compare.py sweep=DIR`."""

import logging
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from omegaconf import DictConfig

from gpuyard.evaluation.again import Again, Seen, best_first, best_two, run_recorded, seen_again
from gpuyard.evaluation.assumed import DURATIONS_UNKNOWN
from gpuyard.launch.build import check_confidence, check_kinds
from gpuyard.launch.errors import CONF, ConfigError
from gpuyard.launch.start import program, start
from gpuyard.launch.sweeps import CONFIG
from gpuyard.launch.terminal import table_console
from gpuyard.pages.comparison_page import sweep_sections, write_comparison_page
from sim.arrays import FloatArray
from sim.errors import amount
from sim.files import ComparisonRow, Labels, ReportError, read_comparison_csv, with_swept
from sim.report.comparison_report import write_comparison
from sim.report.figures import Run, jct_cdf
from sim.report.run_folder import AGAIN, METRICS_FILE, RECORD, read_jct_s, read_json, read_row
from sim.report.run_tables import read_parquet
from sim.report.standings import WHOLE

log = logging.getLogger(__name__)

RESULT_FILES = ("comparison.csv", "comparison.md", "jct_bars.png", "jct_cdf.png", "sweep.png")
MOST_CURVES = 14  # of the distribution figure
OURS = "marl"

OF_SCHEDULERS = {"hydra", "seed", "belief", "estimator"}  # of base.yaml: what each is told
COLUMNS = ("topology", "workload", "workload.load", "agents.count", "gpus")
COMPARISON = "comparison.csv"
EXPERIMENT = "experiment"
PLAYING = ("simulate", "evaluate")  # programs of which every folder should hold a result
RESUMED = "resume="  # says how a run went on, not what it was
NO_RULE = {  # keys that make no other scheduler, but other units, columns or files
    "seed", "window", "windows", "part", "role", *COLUMNS, "page", "figures", "figure_at_s",
    "perfetto", "log_decisions", "explain", "compiled", "logger", "keep_checkpoints",
}  # fmt: skip


@dataclass(frozen=True)
class Given:
    """What a run or an evaluation was given, and what held then."""

    folder: Path
    said: Mapping[str, str]  # key -> value, without quotes

    @cached_property
    def config(self) -> Any:
        """The resolved configuration."""
        path = self.folder / CONFIG
        if not path.is_file():
            return {}
        with path.open(encoding="utf-8") as file:  # an error names the file
            return yaml.safe_load(file) or {}

    @cached_property
    def world(self) -> dict[str, Any]:
        """The sections that make jobs, cluster and physics, without what columns tell."""
        columns = {name for name in COLUMNS if "." not in name}
        return {key: self.config.get(key) for key in _shared_keys() - columns}

    def value(self, key: str) -> str:
        """What held for a key, said or not; one value is one text, however it was said."""
        at = self.config
        for name in key.lstrip("+").split("."):
            if not isinstance(at, dict) or name not in at:
                return self.said.get(key, "")
            at = at[name]
        return str(at)


@dataclass(frozen=True)
class Found:
    """Results in one folder."""

    folder: Path
    rows: list[ComparisonRow]
    given: Given
    single: bool  # of one scheduler; else an evaluation
    assumed: tuple[str, ...] = ()  # what its runs took for granted
    plain: tuple[str, ...] = ()  # (rows,) the schedulers as their folder names them


def gather(folders: Sequence[Path], *, leave_out: Path) -> list[Found]:
    """Every comparison and every finished run in or below `folders`, in order of their paths.

    A folder with a comparison is read as that, and nothing else in it. Folders that this program
    wrote before, and `leave_out`, are passed over: they repeat others' rows. Runs that differ only
    in what no column tells get it into their scheduler's name (`named_apart`).

    Raises:
        ReportError: a folder is not there or holds no result, a file cannot be read, or two
            results have the same labels.
    """
    found: dict[Path, Found] = {}
    for top in folders:
        if not top.is_dir():
            raise ReportError(f"{top} is no folder; give one that a program wrote or a sweep's")
        here = 0
        for folder in _recorded(top):
            result = None if folder.resolve() == leave_out.resolve() else _read(folder)
            if result is not None:
                found[folder.resolve()] = result
                here += 1
        if here == 0:
            raise ReportError(f"{top}: no finished run in it or below; give the folder of a sweep")
    results = _named(list(found.values()))
    _check_distinct(results)
    return results


def pooled_jct_s(results: Sequence[Found]) -> tuple[dict[str, FloatArray], dict[str, Run]]:
    """Curve -> completion times of measured jobs, where per-job tables are there; curve -> whose.

    A curve is a scheduler and as much of its setting as differs between the results.
    """
    runs = [each for result in results for each in _times(result)]
    parts: dict[str, list[FloatArray]] = {}
    lines: dict[str, Run] = {}
    for (labels, times), curve in zip(runs, _curves([labels for labels, _ in runs]), strict=True):
        parts.setdefault(curve, []).append(times)
        lines[curve] = (labels.scheduler, labels.role)
    joined = {name: np.concatenate(times) for name, times in parts.items()}
    return {name: times for name, times in joined.items() if len(times)}, lines


def _curves(labels: Sequence[Labels]) -> list[str]:
    """What each run's curve is called."""
    settings = [_setting(each) for each in labels]
    differs = [len(set(values)) > 1 for values in zip(*settings, strict=True)]
    return [
        ", ".join([each.scheduler, *compress(setting, differs)])
        for each, setting in zip(labels, settings, strict=True)
    ]


def _seen(results: Sequence[Found], ours: str | None) -> list[Seen]:
    """A run of ours and one of its best rival, of one setting, played again."""
    rows = [row for result in results for row in result.rows]
    here = next(
        (_setting(row.labels) for row in rows if row.labels.scheduler == ours),
        _setting(rows[0].labels),
    )
    titles, found = iter(_curves([row.labels for row in rows])), defaultdict[str, list[Again]](list)
    roles: dict[str, str] = {}
    for result in results:
        for row, name in zip(result.rows, result.plain, strict=True):
            labels, title = row.labels, next(titles)
            if _setting(labels) == here:
                title = f"{title}, seed {labels.seed}, window {labels.window}"
                then = replace(labels, scheduler=name)
                play = partial(run_recorded, result.given.config, then, single=result.single)
                again = Again(title, labels.scheduler, play, row.metrics)
                found[labels.scheduler].append(again)
                roles[labels.scheduler] = labels.role
    times_s = {name: [each.metrics["jct_mean_s"] for each in found[name]] for name in roles}
    best = best_two({name: roles[name] for name in best_first(times_s)}, ours)
    return seen_again([found[name][0] for name in best], processes=1)


def _recorded(top: Path) -> list[Path]:
    """The folders with a record in or below `top`, 2_x before 10_x, through links, each once."""
    found, seen = [], set[str]()
    for place, below, names in os.walk(top, followlinks=True):
        real = os.path.realpath(place)
        if real in seen:
            below.clear()
        elif RECORD in names:
            found.append(Path(place))
        seen.add(real)
    return sorted(found, key=lambda each: [
        int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", str(each))
    ])  # fmt: skip


def _read(folder: Path) -> Found | None:
    record = read_json(folder / RECORD)
    if record.get("program") == "compare":
        return None
    assumed = tuple(map(str, record.get("assumed", ())))
    words = map(str, record.get("overrides", ()))
    pairs = (word.partition("=") for word in words if not word.startswith(RESUMED))
    said = {key: value.strip("'\"") for key, _, value in pairs}
    if (folder / COMPARISON).is_file():
        rows = _of_part(read_comparison_csv(folder / COMPARISON), Given(folder, said))
        # Its other words made the line-up and the windows, which rows tell.
        kept = {key: said[key] for key in said if _of_world(key) or _of_all(key)}
        return Found(folder, rows, Given(folder, kept), single=False, assumed=assumed)
    if (folder / METRICS_FILE).is_file() and "scheduler" in record:
        given = Given(folder, said)
        rows = _of_part([read_row(folder)], given)
        return Found(folder, rows, given, single=True, assumed=assumed)
    if record.get("program") in PLAYING:
        log.warning("%s holds no result: its run failed or goes on, and is in no table", folder)
    return None


def _of_part(rows: list[ComparisonRow], given: Given) -> list[ComparisonRow]:
    """The rows with the part they are of, which files of earlier versions tell in their words."""
    part = given.value("part")
    if part in {"", "None"}:
        return rows
    return [replace(row, labels=replace(row.labels, part=row.labels.part or part)) for row in rows]


def _named(results: Sequence[Found]) -> list[Found]:
    """The results, told apart by what was swept."""
    runs = [(row.labels, each.given) for each in results for row in each.rows]
    labels = iter(named_apart(runs))
    return [
        replace(
            each, rows=[replace(row, labels=next(labels)) for row in each.rows],
            plain=tuple(row.labels.scheduler for row in each.rows),
        )
        for each in results
    ]  # fmt: skip


def _check_distinct(results: Sequence[Found]) -> None:
    """Refuse two results of the same thing, naming both folders."""
    seen: dict[Labels, Path] = {}
    for result in results:
        for row in result.rows:
            other = seen.setdefault(row.labels, result.folder)
            if other != result.folder:
                raise ReportError(
                    f"{other} and {result.folder} hold the same run: {row.labels.scheduler} on "
                    f"{row.labels.topology}, seed {row.labels.seed}, window {row.labels.window}; "
                    f"compare folders that differ in a column of comparison.csv"
                )


def _times(result: Found) -> list[tuple[Labels, FloatArray]]:
    path = result.folder / "jobs.parquet"
    if not path.is_file():
        return []
    if result.single:
        return [(result.rows[0].labels, read_jct_s(result.folder))]
    columns = ["scheduler", "agents", "window", "jct_s"]
    frame = pd.DataFrame(read_parquet(path, columns, fix=AGAIN)).dropna()
    by_run = {key: part["jct_s"].to_numpy(float) for key, part in frame.groupby(columns[:3])}
    empty: FloatArray = np.empty(0)
    named = zip((row.labels for row in result.rows), result.plain, strict=True)
    return [
        (labels, by_run.get((plain, labels.agents, labels.window), empty))
        for labels, plain in named
    ]


def _setting(labels: Labels) -> tuple[str, ...]:
    """What tells apart the curves of one scheduler."""
    load = "load as it is" if labels.load is None else f"load {labels.load:g}"
    agents = amount(labels.agents, "agent")
    return labels.topology, labels.workload, load, agents, labels.physics, labels.part or WHOLE


def named_apart(runs: Sequence[tuple[Labels, Given]]) -> list[Labels]:
    """Labels whose scheduler says what was swept, where several runs would have the same.

    `marl` in a sweep over learning rates becomes `marl [algo.learning_rate=0.0003]`. So do runs of
    all schedulers where jobs, cluster or physics differ in what no column tells. Runs of one
    configuration stay equal, and so do runs that differ in their seed alone.
    """
    alike: dict[Labels, list[Given]] = defaultdict(list)
    pooled: dict[Labels, list[Given]] = defaultdict(list)  # a table's row, whatever seed and window
    settings: dict[tuple[str, ...], list[Given]] = defaultdict(list)
    for labels, given in runs:
        alike[labels].append(given)
        unit = replace(labels, seed=0, window=0, stretch=None, interference_info="")
        pooled[unit].append(given)
        settings[_setting(labels)].append(given)
    worlds = {setting: _worlds_apart(found) for setting, found in settings.items()}
    keys: dict[str, set[str]] = defaultdict(set)  # scheduler -> keys that tell its runs apart
    for labels, found in alike.items():
        keys[labels.scheduler] |= _differing(found) | worlds[_setting(labels)]
    for labels, found in pooled.items():
        keys[labels.scheduler] |= _differing(found) - NO_RULE
    swept = [(labels, given, sorted(keys.get(labels.scheduler, ()))) for labels, given in runs]
    words = {
        (key, given.value(key)): f"{key}={given.said[key]}"
        for _, given, unlike in swept
        for key in unlike
        if key in given.said
    }
    named = []
    for labels, given, unlike in swept:
        shown = " ".join(filter(None, (words.get((key, given.value(key))) for key in unlike)))
        named.append(replace(labels, scheduler=with_swept(labels.scheduler, shown)))
    return named


def _worlds_apart(given: Sequence[Given]) -> set[str]:
    """Keys in which jobs, cluster or physics differ, in what no column tells."""
    every = list({each.folder: each for each in given}.values())
    unlike = {key for key in _differing(every) if _of_world(key)}
    if unlike or all(each.world == every[0].world for each in every):
        return unlike
    return {EXPERIMENT} & _differing(every)


def _of_world(key: str) -> bool:
    """Whether a key makes the jobs, the cluster or the physics, and is in no column."""
    head = key.lstrip("+").partition("@")[0]
    return head.partition(".")[0] in _shared_keys() and head not in COLUMNS


def _of_all(key: str) -> bool:
    """Whether a key says what all schedulers are told, or all of the setting."""
    head = key.lstrip("+").partition("@")[0].partition(".")[0]
    return head in {"belief", "estimator", EXPERIMENT}


@cache
def _shared_keys() -> frozenset[str]:
    """Sections and keys of `conf/base.yaml` that all schedulers of a table have to share."""
    base = yaml.safe_load((CONF / "base.yaml").read_text(encoding="utf-8"))
    groups = [name for each in base.pop("defaults") if each != "_self_" for name in each]
    sections = {name.rpartition("@")[2] for name in groups}
    return frozenset((sections | base.keys()) - OF_SCHEDULERS)


def _differing(given: Iterable[Given]) -> set[str]:
    """Keys that were not said alike, and did not come to the same."""
    given = list({each.folder: each for each in given}.values())
    every = set[str]().union(*(each.said for each in given))
    unlike = {key for key in every if len({each.said.get(key) for each in given}) > 1}
    return {key for key in unlike if len({each.value(key) for each in given}) > 1}


def all_assumed(each: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """What any of several runs assumed; who is told nothing of durations, its row says."""
    lines = dict.fromkeys(line for lines in each for line in lines)
    if any(line.startswith("durations: ") for line in lines):
        lines.pop(DURATIONS_UNKNOWN, None)
    return tuple(lines)


@program("compare")
def main(cfg: DictConfig) -> None:
    """Gather, write, print."""
    launch = start(cfg)
    check_confidence(launch.config)
    check_kinds(launch.config, bool, "page")
    sweep = launch.config["sweep"]
    if sweep in ([], ""):
        raise ConfigError(f"sweep is {sweep!r}; name a folder at least")
    folders = [Path(str(name)) for name in (sweep if isinstance(sweep, list) else [sweep])]
    results = gather(folders, leave_out=launch.folder)
    rows = [row for result in results for row in result.rows]
    known = {row.labels.scheduler for row in rows}
    ours = launch.config["ours"]
    ours = OURS if ours is None and OURS in known else ours
    confidence = launch.config["confidence"]
    assumed = all_assumed(result.assumed for result in results)
    launch.begin(RESULT_FILES)
    tables = write_comparison(
        launch.folder, rows, ours=ours, confidence=confidence, sweeps=True, assumed=assumed
    )
    curves, lines = pooled_jct_s(results)
    if 0 < len(curves) <= MOST_CURVES:
        jct_cdf(curves, path=launch.folder / "jct_cdf.png", runs=lines)
    else:  # nothing, or more than can be told apart
        log.info("jct_cdf.png left out: %d curves, it holds 1 to %d", len(curves), MOST_CURVES)
    if launch.config["page"]:
        record = replace(launch.record, assumed=assumed)
        seen = _seen(results, ours)
        write_comparison_page(
            launch.folder, rows, record, ours=ours, confidence=confidence,
            whose={line: scheduler for line, (scheduler, _) in lines.items()}
            | {each.name: each.scheduler for each in seen},
            jct_s=curves, timelines={each.name: each.timeline for each in seen}, timelines_of="",
            first=sweep_sections(rows, confidence=confidence),
            more=[section for each in seen for section in each.sections],
        )  # fmt: skip
    table_console().print(tables)
    told = f"{amount(len(rows), 'run')} from {amount(len(results), 'folder')}"
    print(f"{told}; results in {launch.folder}")
