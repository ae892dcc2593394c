"""Commands of the docs that take seconds are run; of the others it is known why they are not."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_commands import DOCS, FENCE, MINE, OURS, WRONG

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*OURS, *(DOCS / f"{name}.md" for name in ("advise", "explain", "page", "serve"))]
TIME = re.compile(r"\b(?:seconds?|minutes?|hours?)\b|\b(?:minutes|algo\.time_budget_s)=\d")
THEIRS = re.compile(  # what a reader has: a file, a folder, a cluster, an own module
    r"\b(?:FILE|FOLDER|RUN|DIR|HEAD)\b|runs/(?:trained|mine|F)\b|mine\.yaml|changes\.csv|\+makers\.|"
    r"data_dir=|runs/fit/|workload=(?:philly|philly_json|helios_log|alibaba_\w+|sia) "
)
LONG = re.compile(  # minutes to hours; how long is said where their results are
    r"^(?:train|learn|tune_linear_score|fit_interference|measure_colocation|judge_mixes|serve)\b|"
    r"^demo\b|"
    r"^(?:reproduce|evaluate) experiment=|=glob\(|resume=|scheduler=served"
)
SMALL = {"evaluate": ["windows=1", "workload.num_jobs=40"], "advise": []}
GENERATED = ["workload.num_jobs=60"]
SACCT = "JobID|User|Partition|State|Submit|Start|End|ElapsedRaw|Timelimit|AllocTRES"


def lines() -> list[tuple[str, str]]:
    """(page, command after `gpuyard`, with its comment) in order, each command once."""
    found: dict[str, str] = {}
    for path in PAGES:
        for block in FENCE.findall(path.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith("gpuyard ") and "..." not in line and WRONG not in line:
                    words = re.sub(r" +", " ", line.removeprefix("gpuyard "))
                    found.setdefault(words, path.relative_to(ROOT).as_posix())
    return [(page, words) for words, page in found.items()]


def is_run(line: str) -> bool:
    """Whether the command takes seconds, once it is made small, and needs nothing of a reader's."""
    command = line.partition("#")[0].strip()
    kept = not any(f"={name}" in command for name in MINE)
    return kept and not any((TIME.search(line), THEIRS.search(command), LONG.search(command)))


def small(line: str) -> list[str]:
    """The words of a command on few jobs."""
    program, *words = shlex.split(line, comments=True)
    if program == "evaluate":
        words = [word for word in words if not word.startswith("windows=")]
    more = SMALL.get(program, GENERATED if program == "simulate" else [])
    own = any(word.startswith(("workload=", "workload.num_jobs=")) for word in words)
    return [program, *words, *([] if own else more)]


def bring_files(folder: Path) -> None:
    """`jobs.csv` and `jobs.txt`, which the commands name, and what they find beside them."""
    rows = [f"j{at},{60 * at},{1 + at % 4},{300 + 37 * at % 900},u{at % 3}" for at in range(120)]
    head = "job_id,submit_s,num_gpus,duration_s,user"
    (folder / "jobs.csv").write_text("\n".join([head, *rows]).replace("j7,", "JOB,") + "\n")
    day, slurm = "2025-01-02T03", [SACCT]
    for at in range(40):
        times = f"{day}:{at:02}:00|{day}:{at:02}:30|{day}:59:00|{600 + at}|01:00:00"
        slurm.append(f"{at}|u{at % 3}|gpu|COMPLETED|{times}|cpu=8,gres/gpu={1 + at % 4}")
    (folder / "jobs.txt").write_text("\n".join(slurm) + "\n")
    if not (folder / "docs").exists():
        (folder / "docs").symlink_to(DOCS)


def test_of_every_command_it_is_known_whether_it_runs():
    """A quarter at least are run: the rules above do not grow until they take in everything."""
    runs = [line for _, line in lines() if is_run(line)]
    assert len(runs) >= 20, runs
    programs = {line.split()[0] for line in runs}
    assert programs >= {"simulate", "evaluate", "advise", "compare", "reproduce", "generate_trace"}


@pytest.mark.slow
def test_short_commands_run(tmp_path: Path):
    """In order and in one folder, as somebody would who reads on."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    failed, last = [], ""
    for page, line in lines():
        if is_run(line):
            if page != last:  # the quickstart makes a jobs.csv of its own
                bring_files(tmp_path)
            last = page
            done = subprocess.run(
                [sys.executable, "-m", "gpuyard", *small(line)], cwd=tmp_path, env=environment,
                capture_output=True, text=True, timeout=600,
            )  # fmt: skip
            if done.returncode != 0:
                failed.append(f"{page}: {line}\n{done.stderr[-400:]}")
    assert not failed, "\n".join(failed)
