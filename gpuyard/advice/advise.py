"""Which scheduler suits a cluster: `python scripts/advise.py workload=csv workload.path=FILE`."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from joblib import cpu_count
from omegaconf import DictConfig

from gpuyard.advice.aims import AIMS, large_gang, users_of
from gpuyard.advice.answer import (
    FILES,
    MISSING,
    Advice,
    advice_of,
    printed,
    write_advice,
    write_advice_page,
)
from gpuyard.advice.learning import Learned, check_learning, judging, learned, playing
from gpuyard.advice.playing import (
    KNOWS,
    LEARNED,
    WHAT_HAPPENED,
    Candidate,
    Played,
    Scenario,
    candidates_of,
    happened,
    jobs_of,
    known_of,
    play,
    run_of,
    waits_and_limits,
)
from gpuyard.advice.sentences import of_learned, runnable
from gpuyard.advice.stretches import JUDGED
from gpuyard.evaluation.again import Again, seen_again
from gpuyard.evaluation.assumed import assumptions
from gpuyard.evaluation.experiment import opened
from gpuyard.evaluation.physics import physics_name
from gpuyard.launch.build import (
    check_confidence,
    check_count,
    check_kinds,
    check_plain,
    check_texts,
)
from gpuyard.launch.errors import CONF, ConfigError, instead
from gpuyard.launch.start import program, start
from gpuyard.launch.sweeps import in_processes, processes_of
from gpuyard.launch.terminal import RunCount, table_console
from sim.arrays import FloatArray
from sim.errors import amount
from sim.files import physics_words

log = logging.getLogger(__name__)

FEWEST_BLOCKS = 2
MOST_BLOCKS = 20  # of a short trace
JOBS_OF_A_BLOCK = 20  # of a longer one: intervals over single jobs know nothing of queues
SHOWN = 2  # rows with pictures of their runs
FEW_JOBS = 5  # in a block; fewer are warned of
STRETCHED = f"{WHAT_HAPPENED}: workload.load stretches times; it had another load"
SHIPPED = {"limit": "limit", "predicted": "group_median", "oracle": "oracle"}  # as in the yaml file
ADVISE_ONLY = (
    "aim", "large_gang", "leave_out", "blocks", "confidence", "jobs", "slow_jobs",
    "slow_kept", "learn_minutes", "learn_frac", "learn_jobs", "checkpoint", "agent_counts",
    "lineup", "knows", "page",
)  # fmt: skip


@program("advise")
def main(cfg: DictConfig) -> None:
    """Play, rank, write, print."""
    launch = start(cfg)
    check_kinds(launch.config, bool, "page")
    advice = advise(launch.config, folder=launch.folder, overrides=launch.record.overrides)
    record = launch.begin(FILES, assumed=advice.notes)
    write_advice(launch.folder, advice)
    if launch.config["page"]:
        processes = processes_of(launch.config["jobs"], cpu_count())
        write_advice_page(
            launch.folder, advice, record, seen_again(advice.shown, processes=processes)
        )
    table_console().print(printed(advice))
    print()
    for sentence in advice.said:
        print(f"- {sentence}")
    for words in advice.left_out:
        print(f"left out: {words}")
    if advice.learned is not None:
        print(f"weights in {advice.learned}; play them with")
        for words in advice.plays_learned:
            print(f"  {words}")
    print(f"results in {launch.folder}")


def advise(
    config: Mapping[str, Any], *, folder: Path | None = None, overrides: Sequence[str] = ()
) -> Advice:
    """Play every scheduler of the line-up on the jobs of `config`, and rank them.

    `config` is `conf/advise.yaml` with a user's choices, resolved, in plain containers. What is
    learned goes to `folder`, and `overrides` of the command line into the command that plays it.

    Raises:
        GpuYardError: the trace cannot be read, a job fits nowhere, or a key has a wrong value.
    """
    _check(config)
    config = _without_too_large(config)
    check_learning(config, folder)
    learns = config["learn_minutes"] is not None
    if learns:
        config = judging(config, jobs_of(_scenario(config, None))[0].submit_s)
    scenario = _scenario(config, JUDGED if learns else None)
    jobs, misfits = jobs_of(scenario)
    _check_aim(config["aim"], scenario)
    _check_blocks(config["blocks"], int(jobs.measured.sum()))
    notes = _notes(config, scenario)
    log.info("%s; assumes %s", amount(len(jobs), "job"), "; ".join(notes))
    waited_s, limits = waits_and_limits(scenario)
    mine, choices, first = None, _choices(config, overrides), _first_known(config, limits=limits)
    with _composing():
        if folder is not None and learns:
            mine = learned(config, config["knows"][first], folder / LEARNED)
        own = [] if mine is None else [mine.contender]
        found = candidates_of(config, scenario, limits=limits, choices=choices, own=own)
    candidates, left_out = found
    for words in left_out:
        log.info("left out: %s", words)
    rows = _counted(candidates, processes_of(config["jobs"], cpu_count()))
    past, why = _past(config, scenario, waited_s)
    gone = [f"{amount(misfits, 'job')} that fit nowhere on the cluster"] if misfits else []
    advice = advice_of(
        [*rows, *past], aim=config["aim"], confidence=config["confidence"],
        left_out=[*left_out, *gone, *why], notes=notes,
    )  # fmt: skip
    advice = replace(advice, shown=_shown(advice, rows, candidates))
    if mine is None:
        return advice
    work_s = float(jobs.duration_s[jobs.measured].mean())
    plays = playing(mine, overrides, ADVISE_ONLY, choices[_best_known(advice) or first])
    return _with_learned(advice, mine, rows, work_s, plays)


def _shown(
    advice: Advice, rows: Sequence[Played], candidates: Sequence[Candidate]
) -> tuple[Again, ...]:
    """The best two rows that a cluster can run, and how they are played once more."""
    candidate_of = {each.name: each for each in candidates}
    row_of = {row.name: row for row in rows if runnable(row)}
    best = [row_of[name] for name in advice.frame["scheduler"] if name in row_of][:SHOWN]
    return tuple(
        Again(
            row.name, row.name, partial(run_of, candidate_of[row.name]),
            {"jct_mean_s": float(row.draws["jct_mean_s"][0]), "loop_wall_s": row.seconds},
        )
        for row in best
    )  # fmt: skip


def _past(
    config: Mapping[str, Any], scenario: Scenario, waited_s: FloatArray | None
) -> tuple[list[Played], list[str]]:
    """The row of what happened, where the file says; or why there is none."""
    if waited_s is None:
        return [], []
    if config["workload"].get("load") is not None:
        return [], [STRETCHED]
    row = happened(scenario, waited_s)
    return ([] if row is None else [row]), []


def _best_known(advice: Advice) -> str | None:
    """What the best row of the learned weights that a user can play is told of durations."""
    rows = advice.frame[advice.frame["scheduler"].str.startswith(LEARNED)]
    return next((name for name in rows["information"] if name in KNOWS and name != "oracle"), None)


def _with_learned(
    advice: Advice, mine: Learned, rows: Sequence[Played], work_s: float, plays: tuple[str, ...]
) -> Advice:
    """With what became of the policy that was learned."""
    about = of_learned(
        rows, advice.aim, advice.confidence, mine.history(), waited_frac=mine.waited_frac,
        work_s=work_s,
    )  # fmt: skip
    return replace(advice, learned=mine.path, about_learned=about, plays_learned=plays)


def _without_too_large(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """With `leave_out` readers leave out gangs larger than the cluster, for every row alike."""
    workload = config["workload"]
    if not config["leave_out"] or "drop_too_large" not in workload:
        return config
    return {**config, "workload": {**workload, "drop_too_large": True}}


def _scenario(config: Mapping[str, Any], part: str | None) -> Scenario:
    return Scenario(
        setting=json.dumps({**config, "estimator": config["knows"]["oracle"]}),
        part=part,
        leave_out=config["leave_out"],
        large=config["large_gang"],
        blocks=config["blocks"],
    )


def _first_known(config: Mapping[str, Any], *, limits: bool) -> str:
    """The first of `knows` that these jobs have."""
    return next(name for name in KNOWS if name in config["knows"] and (name != "limit" or limits))


def _choices(config: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, str]:
    """What `estimator=` calls each entry of `knows`."""
    found = {name: SHIPPED[name] for name in config["knows"] if name in SHIPPED}
    for word in overrides:
        key, _, choice = word.partition("=")
        name = key.removeprefix("estimator@knows.")
        if name in found and name != key:
            found[name] = choice
    return found


@contextmanager
def _composing() -> Iterator[None]:
    """A context in which line-ups are composed: the program's own, else that of `conf/`."""
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    if GlobalHydra.instance().is_initialized():
        yield
        return
    with initialize_config_dir(str(CONF), version_base=None):
        yield


def _counted(candidates: Sequence[Candidate], processes: int) -> list[Played]:
    """All rows, once they are there. What takes longest begins first."""
    rows: list[Played] = []
    ordered = sorted(candidates, key=lambda each: not each.slow)
    names = [each.name for each in ordered]
    with RunCount("advising", len(names), ahead=names, at_once=processes) as count:
        for row in in_processes(play, ordered, processes):
            rows.append(row)
            count.tell(row.name)
            if row.failed:
                log.warning("%s fails here: %s", row.name, row.failed)
    return rows


def _notes(config: Mapping[str, Any], scenario: Scenario) -> tuple[str, ...]:
    """What is taken for granted; what is told of durations the rows say."""
    experiment = opened(scenario.setting)
    assumed = assumptions({**config, "estimator": config["knows"]["oracle"]}, experiment, "oracle")
    large = large_gang(jobs_of(scenario)[0], experiment.world.topology, scenario.large)
    return (
        *assumed[1:],
        *physics_words(physics_name(experiment.world.physics), experiment.load),
        f"gangs are large from {large} GPUs on",
    )


def _check_aim(aim: str, scenario: Scenario) -> None:
    """Raise ConfigError, before anything is played, if these jobs can have no value of the aim."""
    jobs, _ = jobs_of(scenario)
    large = large_gang(jobs, opened(scenario.setting).world.topology, scenario.large)
    lacking = {
        "user_fairness": not (users_of(jobs) >= 0).any(),
        "large_gang_wait_s": int(jobs.num_gpus.max()) < large,
    }
    if lacking.get(aim, False):
        raise ConfigError(f"aim is {aim}, of which no scheduler has a value: {MISSING[aim]}")


def _check_blocks(blocks: int, counted: int) -> None:
    """Raise ConfigError for intervals over next to single jobs; warn where there are no more."""
    most = max(counted // JOBS_OF_A_BLOCK, MOST_BLOCKS)
    if blocks > most:
        raise ConfigError(
            f"blocks is {blocks}, too many with {amount(counted, 'job')} counted; set "
            f"blocks={most} or less"
        )
    if counted < FEW_JOBS * blocks:
        log.warning(
            "%s counted, in %s: intervals over next to single jobs tell little",
            amount(counted, "job"), amount(min(blocks, counted), "block"),
        )  # fmt: skip


def _check(config: Mapping[str, Any]) -> None:
    """Raise ConfigError for what would fail late."""
    check_confidence(config)
    known_of(config)
    check_plain(config, {"blocks": (True, FEWEST_BLOCKS), "slow_jobs": (True, 0)})
    if config["aim"] not in [*AIMS]:
        raise ConfigError(f"aim is {config['aim']!r}; {instead(config['aim'], AIMS)}")
    check_count("large_gang", config["large_gang"], null=True)
    check_kinds(config, bool, "leave_out")
    check_texts("slow_kept", config["slow_kept"], "like [easy]")
