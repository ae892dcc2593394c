"""Every benchmark in turn, and the table of docs/results/speed.md from what they measured.

    python benchmarks/speed_page.py FOLDER [--into docs/results/speed.md]

Eight minutes on two idle cores. What has left its numbers in FOLDER is not run again.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from setup_run import ROOT

from sim.report.page_table import with_table
from sim.report.table_text import markdown_table

NAMES = ("simulator", "first_run", "scale", "training", "decisions", "serving")
TABLE = "speed"  # its name in the page
TRACES = ("S", "M", "L", "H")


class Line(NamedTuple):
    """One line of the table."""

    what: str
    keys: tuple[str, ...]
    shown: str  # how each number is written
    unit: str = ""
    aim: str = ""


LINES = (
    Line("Philly, 79,515 jobs on 2,496 GPUs, over a bare loop: FIFO",
         ("simulator/fifo_over_floor",), "{:.1f}", "times", "5"),
    Line("LAS; SRTF, preemptive",
         ("simulator/las_over_floor", "simulator/srtf_over_floor"), "{:.1f}", "times", "20"),
    Line("sharing and links", ("simulator/physics_over_floor",), "{:.1f}", "times", "60"),
    Line("jobs/s over the fastest published simulator, traces S, M, L, H: FIFO",
         tuple(f"simulator/{trace}_fifo_consolidated_over_peer" for trace in TRACES), "{:,.0f}"),
    Line("LAS",
         tuple(f"simulator/{trace}_las_consolidated_over_peer" for trace in TRACES), "{:,.0f}"),
    Line("an own order: one queue; 8 partitions",
         ("simulator/cliff_own_order", "simulator/cliff_own_order_stealing"), "{:.1f}", "times",
         "3"),
    Line("own preemption, 8 partitions: by keys; a priority; one that reads the time",
         tuple(f"simulator/cliff_own_preemption{x}_stealing" for x in ("_by_keys", "", "_aged")),
         "{:.1f}", "times", "3"),
    Line("a priority asked at each decision",
         ("simulator/cliff_own_preemption_asked",
          "simulator/cliff_own_preemption_asked_stealing"), "{:.1f}", "times", "3"),
    Line("the largest of the other extras", ("largest_cliff",), "{:.1f}", "times", "3"),
    Line("first run ever, compiling", ("first_run/first_sjf_cold_s",), "{:.1f}", "s", "20"),
    Line("then partitions that steal, share, wait; the linear score; the agents",
         tuple(f"first_run/first_{kind}_cold_s" for kind in ("stealing", "linear_score", "marl")),
         "{:.1f}", "s", "8"),
    Line("a million jobs on 100,000 GPUs: FIFO, LAS, SRTF",
         tuple(f"scale/{policy}/rows/-1/loop_s" for policy in ("fifo", "las", "srtf")), "{:.1f}",
         "s"),
    Line("time grows as jobs to the",
         tuple(f"scale/{policy}/exponent" for policy in ("fifo", "las", "srtf")), "{:.2f}"),
    Line("PPO through RLlib over a bare loop, 4 agents; 16",
         ("training/agents4_rllib_over_bare", "training/agents16_rllib_over_bare"), "{:.2f}",
         "times", "1.0; 0.9"),
    Line("turns of agents played, one core: a small network; the main job's",
         ("training/played_small_turns_per_s", "training/played_main_turns_per_s"), "{:,.0f}",
         "/s", "75,000; 10,000"),
    Line("a decision at 512 GPUs: shipped agents, linear score, SJF that shares and steals",
         tuple(f"decisions/{name}/512" for name in
               ("agents", "linear score", "SJF, sharing, stealing")), "{:.3f}", "ms"),
    Line("shipped agents at 128; at 8,192", ("decisions/agents/128", "decisions/agents/8192"),
         "{:.3f}", "ms", "0.3; 1"),
    Line("`pretrained_alone`, whose network was trained",
         ("decisions/agents, trained network/128", "decisions/agents, trained network/8192"),
         "{:.3f}", "ms", "0.3; 1"),
    Line("`serve`, 512 GPUs, 50 waiting, one core with its client: SJF; agents",
         ("serving/sjf/requests_per_s", "serving/agents/requests_per_s"), "{:.0f}", "requests/s",
         "100"),
)  # fmt: skip


def run(name: str, folder: Path) -> Any:
    """The numbers of one benchmark, measured now if they are not there."""
    path = folder / f"{name}.json"
    if not path.is_file():
        print(f"{name}.py", flush=True)
        words = [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), "--json", str(path)]
        subprocess.run(words, check=True, cwd=ROOT)
    return json.loads(path.read_text(encoding="utf-8"))


def flat(found: Any, place: str = "") -> Iterator[tuple[str, float]]:
    """Every number with its place; the last of a list is -1."""
    if isinstance(found, Mapping):
        for key, value in found.items():
            yield from flat(value, f"{place}/{key}" if place else key)
    elif isinstance(found, list):
        for at, value in enumerate(found):
            yield from flat(value, f"{place}/{at - len(found)}")
    else:
        yield place, float(found)


def table(numbers: Mapping[str, float]) -> str:
    """The lines as markdown."""
    named = {key for line in LINES for key in line.keys}
    others = [
        value
        for key, value in numbers.items()
        if key.startswith("simulator/cliff_") and not key.endswith("_s") and key not in named
    ]
    known = {**numbers, "largest_cliff": max(others)}
    rows = [
        (each.what, f"{'; '.join(each.shown.format(known[key]) for key in each.keys)} {each.unit}",
         each.aim)
        for each in LINES
    ]  # fmt: skip
    return "\n".join(markdown_table(("what", "measured", "aim"), rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of the numbers")
    parser.add_argument("--into", type=Path, help="a page whose table is replaced")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    text = table(dict(flat({name: run(name, options.folder) for name in NAMES})))
    print(text)
    if options.into is not None:
        page = with_table(options.into.read_text(encoding="utf-8"), TABLE, text)
        if page is None:
            raise SystemExit(f"{options.into} has no table named {TABLE}")
        options.into.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
