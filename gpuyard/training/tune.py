"""A search for hyper-parameters inside one run: `python scripts/train.py tune=random`."""

import logging
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console
from rich.progress import Progress

from gpuyard.launch.build import resolve, yaml_text
from gpuyard.launch.errors import ConfigError, explain, nearest
from gpuyard.launch.start import Launch
from gpuyard.launch.sweeps import CONFIG
from gpuyard.launch.terminal import table_console
from gpuyard.pages.comparison_page import write_folder_page
from gpuyard.training.session import Training, learn
from gpuyard.training.setting import AUTO, check_all
from marl.rllib.cluster import connect
from marl.rllib.search import STORE, SearchSpec, TrialResult, report, search, trial_name
from marl.training.spec import RaySpec, TrainingError
from sim.errors import GpuYardError, override
from sim.files import csv_text, write_atomically
from sim.report.table_text import TableText, rich_tables

log = logging.getLogger(__name__)

TRIALS = "trials"  # a folder a trial, like that of any training
TABLE = "tune.csv"


def tune(launch: Launch, cfg: DictConfig) -> None:
    """Search, write tune.csv and its page, print the table and the best values.

    Raises:
        ConfigError: a key or value of the space is none of the configuration, or `resume` names a
            folder.
        TrainingError: a trial failed.
        KeyboardInterrupt: the search was interrupted; Tune keeps that to itself.
    """
    spec: SearchSpec = launch.build("tune")
    _check(spec, cfg)
    base = OmegaConf.to_container(cfg)
    _check_values(spec, launch, base)
    _check_earlier(launch.folder, cfg)
    ray: RaySpec = launch.build("ray")
    connect(ray, trials=spec.max_concurrent or 1)
    _begin(launch)
    trial = partial(_trial, launch=launch, base=base)
    heard = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:  # Tune ends its trials at SIGINT alone
        results = search(
            trial,
            spec,
            ray=ray,
            folder=launch.folder,
            iterations=launch.config["algo"]["iterations"],
            seed=launch.config["seed"],
            resume=launch.config["resume"] == AUTO,
        )
    finally:
        signal.signal(signal.SIGTERM, heard)
    _conclude(launch, _text(results, spec.keys), results)


def _conclude(launch: Launch, text: TableText, results: Sequence[TrialResult]) -> None:
    """Write and print the table, best first, and the best values; errors as `tune`."""
    write_atomically(launch.folder / TABLE, csv_text(text.headers, text.settings[0][1]).encode())
    if launch.config["page"]:
        write_folder_page(launch.folder, launch.record, launch.config, title="search")
    table_console().print(rich_tables(text))
    ended = sum(each.ended for each in results)
    if ended < len(results):
        log.warning("%d of %d trials ended; resume=auto goes on", ended, len(results))
        raise KeyboardInterrupt
    best = results[0]
    if best.best_jct_s is None:
        raise TrainingError(f"every trial failed; that of {best.values}: {best.error}")
    words = " ".join(_overrides(best.values))
    print(f"best validation JCT {best.best_jct_s:,.0f} s with {words}")
    print(f"policy in {launch.folder / TRIALS / best.name / 'policy'}; {TABLE} in {launch.folder}")
    failed = [each.name for each in results if each.error is not None]
    if failed:
        raise TrainingError(
            f"{len(failed)} of {len(results)} trials failed: {', '.join(failed)}; {TABLE} says "
            "why, resume=auto begins them again"
        )


def _trial(values: dict[str, Any], *, launch: Launch, base: Any) -> None:
    """One training with `values`, in a folder of its own, from where it was if it ran before."""
    folder = launch.folder / TRIALS / trial_name()
    folder.mkdir(parents=True, exist_ok=True)
    one = _launched(values, launch, base, folder)
    run = Training(one)
    with Progress(console=Console(stderr=True, quiet=True)) as quiet:
        learn(run, quiet, partial(_tell, run))
    run.summarise(one.record)


def _launched(values: Mapping[str, Any], launch: Launch, base: Any, folder: Path) -> Launch:
    """A training with `values`, from where it was if it ran in this folder before."""
    cfg = OmegaConf.create(base)
    for key, value in values.items():
        OmegaConf.update(cfg, key, value)
    overrides = (*launch.record.overrides, *_overrides(values))
    record = replace(launch.record, overrides=overrides, config_yaml=yaml_text(cfg))
    return Launch(folder=folder, config={**resolve(cfg), "resume": AUTO}, record=record)


def _tell(run: Training, iteration: int, judged: float | None) -> None:
    if judged is not None:
        report(iteration, run.best_s)


def _check(spec: SearchSpec, cfg: DictConfig) -> None:
    """Raise ConfigError if the search sets what nobody reads, or is to go on with another one."""
    if cfg["resume"] not in {None, AUTO}:
        folder = override("hydra.run.dir", cfg["resume"])
        raise ConfigError(f"a search goes on in its own folder: use resume={AUTO} {folder}")
    for key in spec.keys:
        parent, _, name = key.rpartition(".")
        around = OmegaConf.select(cfg, parent) if parent else cfg
        if not isinstance(around, DictConfig) or name not in around:
            inside, prefix = (around, f"{parent}.") if around else (cfg, "")
            known = [f"{prefix}{other!s}" for other in inside]
            hint = nearest(key, known)
            raise ConfigError(
                f"tune.space has the key {key}, which the configuration has not"
                + (f"; did you mean {hint}?" if hint else "")
            )
        if isinstance(around[name], DictConfig):
            raise ConfigError(f"tune.space has the key {key}, a section; name a key of it")


def _check_values(spec: SearchSpec, launch: Launch, base: Any) -> None:
    """Raise ConfigError for a value with which no training can be made.

    The other keys are as they are, or all at one of their ends: a minibatch may suit those alone.
    """
    others = [{}, *({key: ends[at] for key, ends in spec.ends.items()} for at in (0, -1))]
    for key, ends in spec.ends.items():
        for value in ends:
            faults = (_fault({**more, key: value}, launch, base) for more in others)
            told = list(takewhile(bool, faults))
            if len(told) == len(others):
                raise ConfigError(f"tune.space has {key}={_value(value)}, but {told[0]}")


def _fault(values: Mapping[str, Any], launch: Launch, base: Any) -> str:
    """Why no training can be made with `values`; empty where one can."""
    try:
        one = _launched(values, launch, base, launch.folder / TRIALS)
        check_all(one)
        Training(one)
    except (GpuYardError, OmegaConfBaseException) as error:
        return explain(error)
    return ""


def _check_earlier(folder: Path, cfg: DictConfig) -> None:
    """Raise ConfigError if resume=auto finds another search: Tune would go on with that one."""
    path = folder / CONFIG
    if cfg["resume"] != AUTO or not (folder / STORE).is_dir() or not path.is_file():
        return
    earlier = OmegaConf.load(path)
    for key in cfg["tune"]:
        if OmegaConf.select(earlier, f"tune.{key}") != cfg["tune"][key]:
            raise ConfigError(
                f"{folder} holds a search with another tune.{key}; repeat the words of that one, "
                "or give this one a folder of its own (hydra.run.dir=DIR)"
            )


def _begin(launch: Launch) -> None:
    """Begin; without resume=auto what an earlier search left is removed, like its trials."""
    folder = launch.folder
    if launch.config["resume"] != AUTO and (folder / STORE).is_dir():
        log.warning("%s holds a search, which is dropped; resume=auto would go on", folder)
        for name in (STORE, TRIALS):
            shutil.rmtree(folder / name, ignore_errors=True)
        (folder / TABLE).unlink(missing_ok=True)
    launch.begin()


def _overrides(values: Any) -> list[str]:
    """`key=value` of each, as on the command line."""
    return [f"{key}={_value(value)}" for key, value in sorted(values.items())]


def _value(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _text(results: Sequence[TrialResult], keys: Sequence[str]) -> TableText:
    rows = tuple(
        (each.name, *(_value(each.values.get(key, "")) for key in keys),
         "" if each.best_jct_s is None else f"{each.best_jct_s:.1f}", str(each.iterations),
         f"{each.wall_s:.0f}", each.error or "")
        for each in results
    )  # fmt: skip
    headers = ("trial", *keys, "best_jct_s", "iterations", "wall_s", "error")
    return TableText(headers, (("Trials", rows),), "")
