"""The command `gpuyard PROGRAM [overrides]`, and the same as `python scripts/PROGRAM.py`."""

import signal
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

PROGRAMS = {  # name: (module:function, what it does); without a function it is `main`
    "simulate": ("gpuyard.evaluation.simulate", "Replay a trace"),
    "evaluate": ("gpuyard.evaluation.evaluate", "Compare schedulers on paired windows"),
    "advise": ("gpuyard.advice.advise", "Which scheduler suits a cluster and its jobs"),
    "compare": ("gpuyard.evaluation.compare", "One table and figures from the folders of a sweep"),
    "replay": ("gpuyard.evaluation.simulate:replay_log", "Step through a run's event log"),
    "train": ("gpuyard.training.train:train_agents", "Train the agents"),
    "learn": ("gpuyard.training.learn", "Learn a score or a network by playing whole windows"),
    "reproduce": ("gpuyard.reproduction.reproduce", "Runs the tables and figures of papers again"),
    "train_topdrl": (
        "gpuyard.training.train:train_picker",
        "Train TopDRL or one of its learned baselines",
    ),
    "train_worl": ("gpuyard.training.train:train_plans", "Train the plan generator of WORL-RTGS"),
    "generate_trace": (
        "gpuyard.studies.generated_traces:generate_trace",
        "Write a generated trace",
    ),
    "fit_generator": ("gpuyard.studies.generated_traces:fit_generator", "Fit the generator"),
    "compare_traces": ("gpuyard.studies.compare_traces", "Compare traces"),
    "fit_interference": (
        "gpuyard.studies.interference_models:fit_interference",
        "Fit and judge co-location models",
    ),
    "judge_mixes": (
        "gpuyard.studies.interference_models:judge_mixes",
        "Models on mixes of up to seven jobs",
    ),
    "measure_colocation": (
        "gpuyard.studies.measure_colocation",
        "Measure co-location on this machine",
    ),
    "serve": ("gpuyard.serving.serve", "Answer over HTTP: what next, for any scheduler"),
    "demo": ("gpuyard.demo", "The main job from end to end, small"),
}
GONE = {  # what is no program, or no longer one -> what does it
    "tune_linear_score": "learn",
    "tune_baselines": "reproduce experiment=baselines",
    "tune": "train tune=random",
}
BESIDE = ("sim", "gnn", "marl", "interference")  # the packages beside this one
HELP_OF_ONE = {"-h", "--help"}
HELP = (*HELP_OF_ONE, "help")


def main() -> None:
    """What the installed command `gpuyard` runs; exits with status 2 where no program is named."""
    name, *words = sys.argv[1:] or ["help"]
    if name in PROGRAMS:
        sys.argv = [f"gpuyard {name}", *words]
        run(name)
    elif name == "--version":
        from gpuyard import __version__

        print(__version__)
    elif name in HELP:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # no error where `head` has left
        print(_help())
    else:
        from gpuyard.launch.errors import nearest

        hint = GONE.get(name) or nearest(name, PROGRAMS)
        fix = f"did you mean {hint}?" if hint else "`gpuyard help` lists them"
        print(f"error: gpuyard has no program {name!r}; {fix}", file=sys.stderr)
        sys.exit(2)


def run(name: str) -> None:
    """Run one program with the overrides of the command line, and leave the process after it."""
    if message := foreign_package():
        print(f"error: {message}", file=sys.stderr)
        sys.exit(2)
    try:
        from gpuyard.launch.start import run_main
    except KeyboardInterrupt:  # before anything has begun
        print("interrupted", file=sys.stderr)
        sys.exit(130)

    module, _, function = PROGRAMS[name][0].partition(":")

    def start() -> None:
        if HELP_OF_ONE.intersection(sys.argv[1:]):
            _tell(name)
        else:
            getattr(import_module(module), function or "main")()

    run_main(start)


def _tell(name: str) -> None:
    from gpuyard.launch.helping import help_text
    from gpuyard.launch.own import folder_started_in, own_choices

    chosen = [word for word in sys.argv[1:] if not word.startswith("-")]
    print(help_text(name, PROGRAMS[name][1], chosen, own_choices(folder_started_in())))


def foreign_package() -> str:
    """Why `sim` or `marl` would be a file of the user's, and what to do; empty where none is."""
    ours = Path(__file__).resolve().parents[1]
    for name in BESIDE:
        try:
            spec = find_spec(name)
        except ValueError:  # a module that was made by hand
            spec = None
        found = Path(spec.origin or "?").resolve() if spec else Path("?")
        if found.parent.parent != ours:
            where = f"{found} comes first" if spec else "it is not installed"
            return (
                f"GPUYard's package {name!r} cannot be imported: {where}; rename that file, "
                f"or start from another folder"
            )
    return ""


def _help() -> str:
    width = max(map(len, PROGRAMS))
    return "\n".join(
        [
            "usage: gpuyard PROGRAM [key=value ...]    its keys: gpuyard PROGRAM --help",
            "",
            *(f"  {name:{width}}  {words}" for name, (_, words) in PROGRAMS.items()),
        ]
    )
