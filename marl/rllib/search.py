"""Hyper-parameter search by Ray Tune: trials of one function, judged by one number, lower first."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, nextafter
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search.basic_variant import BasicVariantGenerator

from marl.training.spec import RaySpec
from sim.errors import GpuYardError

# type -> what it needs beside its key
TYPES = {
    "grid": ("values",),
    "choice": ("values",),
    "uniform": ("low", "high"),
    "loguniform": ("low", "high"),
    "randint": ("low", "high"),
}


class SearchError(GpuYardError):
    """A search cannot be made as configured; the message names key, value and fix."""


@dataclass(frozen=True, kw_only=True)
class SearchSpec:
    """A space of dotted keys, and how many of its points are tried for how long."""

    space: list[Any]  # {key, type, values} or {key, type, low, high} each
    samples: int
    max_concurrent: int | None  # trials at once; None: as many as Ray has CPUs for
    grace_iterations: int | None  # nobody is stopped before; None: nobody is stopped early
    reduction_factor: int  # one in so many goes on

    def __post_init__(self) -> None:
        """Check the space and the numbers; SearchError names the entry or number."""
        if not self.space:
            raise SearchError("tune.space is empty; give it at least one {key, type, ...}")
        for place, entry in enumerate(self.space):
            _check(f"tune.space[{place}]", entry)
        for key, count in Counter(self.keys).items():
            if count > 1:
                raise SearchError(f"tune.space has the key {key} {count} times; keep one")
        least = {"samples": 1, "max_concurrent": 1, "grace_iterations": 1, "reduction_factor": 2}
        for name, lowest in least.items():
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise SearchError(f"tune.{name} is {value!r}; it must be at least {lowest}")

    @property
    def keys(self) -> list[str]:
        """Dotted keys that the search sets."""
        return [str(entry["key"]) for entry in self.space]

    @property
    def ends(self) -> dict[str, list[Any]]:
        """Key -> all of its values, of a range the least and the greatest that may be drawn."""
        return {key: _ends(entry) for key, entry in zip(self.keys, self.space, strict=True)}


def _ends(entry: Mapping[str, Any]) -> list[Any]:
    if "values" in entry:
        return list(entry["values"])
    low, high = entry["low"], entry["high"]  # which is never drawn
    return [low, high - 1 if entry["type"] == "randint" else nextafter(high, low)]


def _check(place: str, entry: object) -> None:
    """Raise SearchError if an entry of the space is not complete."""
    if not isinstance(entry, Mapping) or "key" not in entry or entry.get("type") not in [*TYPES]:
        raise SearchError(
            f"{place} is {entry!r}; it must have a key and a type, one of {', '.join(TYPES)}"
        )
    needed = {"key", "type", *TYPES[entry["type"]]}
    if set(entry) != needed:
        raise SearchError(
            f"{place} has {', '.join(sorted(entry))}; type {entry['type']} takes "
            f"{', '.join(sorted(needed))}"
        )
    if "low" in needed:
        low, high = entry["low"], entry["high"]
        numbers = isinstance(low, int | float) and isinstance(high, int | float)
        if not (numbers and low < high < inf and (low > 0 or entry["type"] != "loguniform")):
            raise SearchError(f"{place}: low is {low!r}, high {high!r}; low must be smaller, of a "
                              "loguniform positive")  # fmt: skip
        if entry["type"] == "randint" and not (isinstance(low, int) and isinstance(high, int)):
            raise SearchError(f"{place}: low is {low!r}, high {high!r}; randint takes whole ones")
    elif not isinstance(entry["values"], list) or not entry["values"]:
        raise SearchError(f"{place}.values is {entry['values']!r}; it must be a list of values")


JUDGED = "best_jct_s"
ITERATION = "iteration"
ENDED = ("TERMINATED", "ERROR")
STORE = "tune"  # folder of Tune's own files
Trial = Callable[[dict[str, Any]], None]  # trains with the values given; reports on its way


@dataclass(frozen=True)
class TrialResult:
    """How one trial ended."""

    name: str
    values: Mapping[str, Any]  # key -> value tried
    best_jct_s: float | None  # None: nothing was judged
    iterations: int
    wall_s: float
    error: str | None
    ended: bool  # False: the search was interrupted before it or in it


def report(iteration: int, best_jct_s: float) -> None:
    """Tell Tune how far the trial of this process is; it may end the process here."""
    tune.report({ITERATION: iteration, JUDGED: best_jct_s})


def trial_name() -> str:
    """Of the trial that this process runs; the same after a restart."""
    return str(tune.get_context().get_trial_id())


def search(
    trial: Trial, spec: SearchSpec, *, ray: RaySpec, folder: Path, iterations: int, seed: int,
    resume: bool,
) -> list[TrialResult]:  # fmt: skip
    """Run the trials, best first; those without a result last.

    Args:
        trial: run in a process of its own for each point of the space.
        spec: the space and how it is searched.
        ray: what one trial may use.
        folder: where Tune keeps its files.
        iterations: that a trial makes at most.
        seed: of the points drawn.
        resume: go on with the search in `folder`: finished trials are kept, others begin again.
    """
    trainable = tune.with_resources(trial, _resources(ray))
    path = str((folder / STORE).resolve())
    if resume and tune.Tuner.can_restore(path):
        tuner = tune.Tuner.restore(path, trainable, resume_unfinished=True, restart_errored=True)
    else:
        tuner = tune.Tuner(
            trainable,
            param_space={str(entry["key"]): _domain(entry) for entry in spec.space},
            tune_config=tune.TuneConfig(
                metric=JUDGED,
                mode="min",
                num_samples=spec.samples,
                max_concurrent_trials=spec.max_concurrent,
                search_alg=BasicVariantGenerator(random_state=seed),
                scheduler=_scheduler(spec, iterations),
            ),
            run_config=tune.RunConfig(name=STORE, storage_path=str(folder.resolve()), verbose=0),
        )
    grid = tuner.fit()
    status = {trial.trial_id: trial.status for trial in tune.ExperimentAnalysis(path).trials}
    found = [_result(each, status) for each in grid]
    return sorted(
        found, key=lambda each: (each.best_jct_s is None, each.best_jct_s or 0.0, each.name)
    )


def _resources(ray: RaySpec) -> tune.PlacementGroupFactory:
    """What a trial holds while it runs: its own process, env runners and learners."""
    runner = {"CPU": ray.num_cpus_per_env_runner, "GPU": ray.num_gpus_per_env_runner}
    learner = {"CPU": ray.num_cpus_per_learner, "GPU": ray.num_gpus_per_learner}
    parts = [{"CPU": 1.0}] + [runner] * ray.num_env_runners + [learner] * ray.num_learners
    return tune.PlacementGroupFactory([{k: v for k, v in part.items() if v} for part in parts])


def _scheduler(spec: SearchSpec, iterations: int) -> ASHAScheduler | None:
    """Successive halving (Li et al., MLSys 2020), if trials may be stopped early."""
    if spec.grace_iterations is None:
        return None
    return ASHAScheduler(
        time_attr=ITERATION,
        max_t=iterations + 1,  # who comes to its last iteration ends by itself, with its summary
        grace_period=min(spec.grace_iterations, iterations),
        reduction_factor=spec.reduction_factor,
    )


def _domain(entry: Mapping[str, Any]) -> Any:
    """Tune's form of one dimension of the space."""
    kind = entry["type"]
    if kind == "grid":
        return tune.grid_search(list(entry["values"]))
    if kind == "choice":
        return tune.choice(list(entry["values"]))
    draw = {"uniform": tune.uniform, "loguniform": tune.loguniform, "randint": tune.randint}[kind]
    return draw(entry["low"], entry["high"])


def _result(found: Any, status: Mapping[str, str]) -> TrialResult:
    """`status` is Tune's of each trial."""
    metrics = found.metrics or {}
    name = str(metrics.get("trial_id") or Path(found.path).name)
    return TrialResult(
        name=name,
        values=dict(found.config or {}),
        best_jct_s=metrics.get(JUDGED),
        iterations=int(metrics.get(ITERATION, 0)),
        wall_s=float(metrics.get("time_total_s", 0.0)),
        error=None if found.error is None else str(found.error).strip().splitlines()[-1],
        ended=status.get(name) in ENDED,
    )
