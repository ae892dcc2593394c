"""Generated traces: `scripts/generate_trace.py` writes one, `fit_generator.py` fits their spec."""

import gzip
import logging
import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig

from gpuyard.launch.build import SEED, build, check_kinds, check_plain, misfit
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.start import program, start
from gpuyard.launch.terminal import table_console
from gpuyard.studies.compare_traces import is_generated, jobs_and_clock
from sim.errors import amount, check_numbers, override
from sim.files import write_atomically
from sim.jobs import JobTable
from sim.report.table_text import RichTable
from sim.times import HOUR_S
from sim.traces.csv_reader import TRAITS, trace_csv
from sim.traces.fit_parts import OutcomeShares, fit_owners, shares_in
from sim.traces.fit_spec import fit_spec
from sim.traces.likeness import JobSample
from sim.traces.prepare import offered_load, scale_load, works_gpu_s
from sim.traces.spec import WorkloadSpec, workload_yaml
from sim.traces.streams import whole_streams
from sim.traces.trace import Trace

NO_LIMIT = 1 << 60  # GPUs where no cluster is named
SUFFIXES = (".csv", ".csv.gz")
CLASSES = ("1", "2-4", "5-8", "9 and more")
LEAST_JOBS = 2  # for shares and gaps
OWNERS = {"vcs": "1 or more", "users_per_vc": "1 or more", "zipf_exponent": "0 or more"}
SIZE_EDGES = (1, 4, 8)  # classes 1, 2-4, 5-8, more


@dataclass(frozen=True)
class Shape:
    """Sizes, durations and arrivals of J jobs."""

    jobs: int
    jobs_per_h: float
    mean_gang: float
    size_shares: tuple[float, ...]  # share of jobs with 1, 2-4, 5-8, more GPUs
    work_shares: tuple[float, ...]  # share of GPU-seconds of the same classes
    duration_s: tuple[float, ...]  # p50, p90, p99, mean
    gap_cv: float  # coefficient of variation of inter-arrival times
    zero_gap_frac: float
    dispersion: float  # variance over mean of the hourly counts; NaN within one hour
    demand_gpus: float  # sum(gang * duration) / span, parts of a GPU as parts


def shape(trace: Trace) -> Shape:
    """Summary figures of a trace of two jobs or more at two times or more."""
    gaps_s = np.diff(trace.submit_s)
    span_s = float(gaps_s.sum())
    work_gpu_s = works_gpu_s(trace)
    size = np.searchsorted(SIZE_EDGES, trace.num_gpus)
    classes = len(SIZE_EDGES) + 1
    hours = ((trace.submit_s - trace.submit_s[0]) // HOUR_S).astype(np.int64)
    counts = np.bincount(hours)
    return Shape(
        jobs=len(trace),
        jobs_per_h=len(trace) / span_s * HOUR_S,
        mean_gang=float(trace.num_gpus.mean()),
        size_shares=tuple(np.bincount(size, minlength=classes) / len(trace)),
        work_shares=tuple(np.bincount(size, work_gpu_s, classes) / work_gpu_s.sum()),
        duration_s=(
            *np.quantile(trace.duration_s, (0.5, 0.9, 0.99)).tolist(),
            float(trace.duration_s.mean()),
        ),
        gap_cv=float(gaps_s.std() / gaps_s.mean()),
        zero_gap_frac=float(np.mean(gaps_s == 0)),
        dispersion=float(counts.var() / counts.mean()) if len(counts) > 1 else math.nan,
        demand_gpus=float(work_gpu_s.sum()) / span_s,
    )


@program("generate_trace")
def generate_trace(cfg: DictConfig) -> None:
    """Generate, write, print."""
    launch = start(cfg)
    config = launch.config
    check_plain(config, SEED if config["gpus"] is None else {**SEED, "gpus": (True, 1)})
    check_kinds(config, Path | None, "out")
    out = Path(config["out"] or launch.folder / "trace.csv")
    if not out.name.endswith(SUFFIXES):
        raise ConfigError(f"out is {out}; its name must end in {' or '.join(SUFFIXES)}")
    trace = trace_of(config)
    launch.begin()
    out.parent.mkdir(parents=True, exist_ok=True)
    text = trace_csv(trace)
    data = text.encode()
    write_atomically(out, gzip.compress(data, mtime=0) if out.suffix == ".gz" else data)
    if len(trace) >= LEAST_JOBS and trace.submit_s[-1] > trace.submit_s[0]:
        table_console().print(*_tables(shape(trace)))
    if config["gpus"] is not None:
        print(
            f"offered load on {amount(config['gpus'], 'GPU')}: "
            f"{offered_load(trace, config['gpus']):.3f}"
        )
    print(
        f"{amount(len(trace), 'job')} written to {out}; play them with "
        f"{_reading(out, text, config)}"
    )


def _reading(path: Path, text: str, config: Mapping[str, Any]) -> str:
    """Overrides that read all columns of a trace, by the rules that it was generated for."""
    header = text.partition("\n")[0].split(",")
    optional = [f"workload.columns.{name}={name}" for name in header if name in TRAITS]
    if "gpu_types" in header:
        rules = config["workload"]["rules"]
        names = ",".join(f"{theirs}:{own}" for theirs, own in rules["gpu_type_names"].items())
        optional.append(f"+workload.rules.gpu_type_names={{{names}}}")
        optional.append(f"workload.rules.unknown_gpu_types={rules['unknown_gpu_types']}")
    return shlex.join(["workload=csv", override("workload.path", path), *optional])


def trace_of(config: Mapping[str, Any]) -> Trace:
    """Generate `num_jobs` jobs, then cap, thin and scale as the keys of `workload` say.

    Raises:
        GpuYardError: a key is out of range, or one that needs `gpus` is set without it.
    """
    options, gpus = config["workload"], config["gpus"]
    if "spec" not in options:
        raise ConfigError("workload has no spec: it is read from a file; use a generated workload")
    if gpus is None and (options["load"] is not None or options["drop_too_large"]):
        raise ConfigError("gpus is null; workload.load and drop_too_large need it: add gpus=N")
    workload = build(config, "workload")
    _, trace = workload.drawn(whole_streams(seed=config["seed"]), gpus or NO_LIMIT)
    return trace if options["load"] is None else scale_load(trace, options["load"], gpus)


def _tables(found: Shape) -> tuple[RichTable, RichTable]:
    shares = {"of jobs": found.size_shares, "of GPU time": found.work_shares}
    sizes = tuple((name, *(f"{share:.1%}" for share in of)) for name, of in shares.items())
    lasting = zip(("p50", "p90", "p99", "mean"), found.duration_s, strict=True)
    uneven = "-" if math.isnan(found.dispersion) else f"{found.dispersion:.1f}"
    figures = (
        *((f"duration {name} [s]", f"{value:,.0f}") for name, value in lasting),
        ("mean gang [GPUs]", f"{found.mean_gang:.2f}"),
        ("jobs an hour", f"{found.jobs_per_h:.1f}"),
        ("variance / mean of hourly jobs", uneven),
        ("variation of gaps", f"{found.gap_cv:.2f}"),
        ("gaps of 0 s", f"{found.zero_gap_frac:.1%}"),
        ("mean demand [GPUs]", f"{found.demand_gpus:.1f}"),
    )
    return (
        RichTable(("GPUs a job", *CLASSES), "shares", sizes, texts=1),
        RichTable(("", "value"), "figures", figures, texts=1),
    )


RULES = {**SEED, "duration_parts": (True, 1), "default_jobs": (True, 1)}
FITTED = ("user", "vc", "outcome")  # of the columns that a trace need not have
log = logging.getLogger(__name__)


@program("fit_generator")
def fit_generator(cfg: DictConfig) -> None:
    """Read, fit, write."""
    launch = start(cfg)
    config = launch.config
    check_plain(config, RULES)
    if is_generated(config, "workload"):
        raise ConfigError("workload has a spec: it is generated; fit one that is read from a file")
    out = _file_of(config, launch.folder)
    _check_given(config)
    jobs, clock = jobs_and_clock(config, "workload", part=config["part"], seed=config["seed"])
    spec = spec_of(config, jobs, clock)
    columns = config["workload"].get("columns", {})
    dropped = [each for each in TRAITS if columns.get(each) is not None and each not in FITTED]
    if dropped:
        log.warning("not fitted: %s", ", ".join(dropped))
    factors = {"hour of the day": spec.hour_factors, "day of the week": spec.weekday_factors}
    even = [name for name, each in factors.items() if min(each) == max(each)]
    if even:
        log.warning("submissions are taken to be even by %s: the trace is too short to tell",
                    " and ".join(even))  # fmt: skip
    launch.begin()
    part = f", part {config['part']}" if config["part"] else ""
    heading = (
        f"Generated jobs with the figures of {len(jobs):,} jobs of {config['workload']['name']}"
        f"{part}, fitted by scripts/fit_generator.py."
    )
    text = workload_yaml(
        spec, name=config["name"], heading=(heading,), num_jobs=config["default_jobs"]
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, text.encode())
    print(f"{amount(len(jobs), 'job')} fitted; parameters written to {out}")
    print(f"use: put it into workload/ of your own folder (gpuyard.yaml); workload={out.stem}")


def _file_of(config: Mapping[str, Any], folder: Path) -> Path:
    """Where the parameters go; what could not be chosen as `workload=NAME` is no name."""
    name = config["name"]
    if not (isinstance(name, str) and re.fullmatch(r"[\w.-]+", name)):
        raise ConfigError(f"name is {name!r}; it must be one word, like mine_like")
    check_kinds(config, Path | None, "out")
    out = Path(config["out"] or folder / f"{name}.yaml")
    if out.suffix != ".yaml":
        raise ConfigError(f"out is {out}; its name must end in .yaml")
    return out


def _check_given(config: Mapping[str, Any]) -> None:
    """Refuse owners and outcomes of the wrong kind by their keys."""
    for key, rule in OWNERS.items():
        check_numbers("owners", f"null, or {rule}", ConfigError, **{key: config["owners"][key]})
    for key, value in config["outcomes"].items():
        if asked := misfit(value, list[float] | None):
            raise ConfigError(f"outcomes.{key} is {value!r}; it must be {asked}")


def spec_of(config: Mapping[str, Any], jobs: JobTable, clock: datetime | None) -> WorkloadSpec:
    """Parameters fitted to the jobs, with the owners and outcomes that the user gives.

    `clock` is the first job's where the file has dates.

    Raises:
        ConfigError: a key is illegal.
        TraceError: there are too few jobs, or no odds give the outcomes.
    """
    workload = config["workload"]
    given = {key: value for key, value in config["owners"].items() if value is not None}
    return fit_spec(
        JobSample.of(jobs, str(workload.get("path", workload["name"])), "a fit"),
        first_hour=_first_hour(config["first_submit"], clock),
        duration_parts=config["duration_parts"],
        owners=replace(fit_owners(jobs.identity), **given),
        outcomes=_outcomes(config["outcomes"], jobs),
        rng=np.random.default_rng(config["seed"]),
    )


def _first_hour(text: str | None, clock: datetime | None) -> float:
    """Hours from Monday 0:00 to the wall clock given, else to that of the file, else 0."""
    if text is not None:
        try:
            clock = datetime.fromisoformat(str(text))
        except ValueError as error:
            raise ConfigError(
                f"first_submit is {text!r}; it must be like '2020-03-18 04:01:39'"
            ) from error
    if clock is None:
        return 0.0
    return clock.weekday() * 24.0 + clock.hour + (clock.minute * 60 + clock.second) / HOUR_S


def _outcomes(given: Mapping[str, Any], jobs: JobTable) -> OutcomeShares | None:
    """The user's shares, else the trace's."""
    if (given["of_jobs"] is None) != (given["of_work"] is None):
        raise ConfigError("outcomes needs both of_jobs and of_work, or neither")
    if given["of_jobs"] is not None:
        return OutcomeShares(of_jobs=given["of_jobs"], of_work=given["of_work"])
    if jobs.fates is None:
        return None
    return shares_in(jobs.fates.outcome, jobs.gang_gpus * np.maximum(jobs.duration_s, 1.0))
