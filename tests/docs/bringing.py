"""What a reader has who tries the docs: files of jobs, descriptions, public traces, a policy."""

import re
import shutil
from pathlib import Path

from tests.docs.told import DOCS, ROOT
from tests.traces.trace_samples import OPENB, SAMPLES

SACCT = "JobID|User|Partition|State|Submit|Start|End|ElapsedRaw|Timelimit|AllocTRES"
PUBLIC = {  # where docs/workloads.md says that a trace lies -> the sample
    "philly_jobs.csv": "philly",
    "trace-data/cluster_job_log": "philly_json",
    "data/Venus/cluster_log.csv": "helios_log",
    "pai_task_table.csv": "alibaba_pai",
    "csv/openb_pod_list_default.csv": "alibaba_openb",
    "data/job.csv": "alibaba_lingjun",
    "part.csv": "alibaba_dag_2018",
    "sia-simulator/workloads/newtrace/workload-1.csv": "sia",
}
BESIDE = {"jobs.csv": "pai_job_table.csv", "tags.csv": "pai_group_tag_table.csv"}
CHANGES = "time_s,server,change\n3600,0,fail\n7200,0,open\n"


def bring_files(folder: Path) -> None:
    """Write everything that commands of the docs name into a folder."""
    (folder / "docs").symlink_to(DOCS)
    _bring_jobs(folder)
    _bring_traces(folder)
    shutil.copy(DOCS / "examples" / "cluster.yaml", folder / "mine.yaml")
    (folder / "changes.csv").write_text(CHANGES)
    runs = folder / "runs"
    shutil.copytree(ROOT / "marl" / "pretrained", runs / "mine" / "policy")
    (runs / "fit").mkdir()
    shutil.copy(ROOT / "interference" / "shipped" / "shipped.json", runs / "fit" / "model.json")
    (runs / "F").mkdir()
    shutil.copy(ROOT / "conf" / "linear_weights" / "eight_partitions.yaml", runs / "F/mine.yaml")
    _bring_scheduler(folder)


def _bring_jobs(folder: Path) -> None:
    """`jobs.csv` and `jobs.txt`, with a job called JOB."""
    rows = [f"j{at},{60 * at},{1 + at % 4},{300 + 37 * at % 900},u{at % 3}" for at in range(120)]
    head = "job_id,submit_s,num_gpus,duration_s,user"
    (folder / "jobs.csv").write_text("\n".join([head, *rows]).replace("j7,", "JOB,") + "\n")
    day, slurm = "2025-01-02T03", [SACCT]
    for at in range(40):
        times = f"{day}:{at:02}:00|{day}:{at:02}:30|{day}:59:00|{600 + at}|01:00:00"
        slurm.append(f"{at}|u{at % 3}|gpu|COMPLETED|{times}|cpu=8,gres/gpu={1 + at % 4}")
    (folder / "jobs.txt").write_text("\n".join(slurm) + "\n")


def _bring_traces(folder: Path) -> None:
    for name, kind in PUBLIC.items():
        sample, path = SAMPLES[kind], folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(sample.text)
        for other, text in sample.beside.items():
            (path.parent / BESIDE.get(other, other)).write_text(text)
    late = re.sub(r"(?<=,)(\d+),(\d*),(\d*)(\.\d)?$", _later, OPENB, flags=re.MULTILINE)
    (folder / "csv" / "openb_pod_list_default.csv").write_text(late)


def _later(found: re.Match[str]) -> str:
    """Times of a pod, moved into the window that the page names."""
    moved = [str(int(text) + 9_300_000) if text else "" for text in found.groups()[:3]]
    return ",".join(moved)


def _bring_scheduler(folder: Path) -> None:
    """The order and the placer that CONTRIBUTING shows, in files of the reader's own."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(python|yaml)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    shown = dict(reversed(blocks))  # the first of each
    (folder / "largest_gang.py").write_text(shown["python"])
    (folder / "mine" / "scheduler").mkdir(parents=True)
    text = shown["yaml"].replace("sim.schedulers.largest_gang.", "largest_gang.")
    (folder / "mine" / "scheduler" / "largest_gang.yaml").write_text(text)
    (folder / "mine" / "placer").mkdir()
    (folder / "my_placers.py").write_text(dict(blocks)["python"])  # the last
    (folder / "mine" / "placer" / "tightest_rack.yaml").write_text(
        "_target_: my_placers.TightestRack\n"
    )
    (folder / "gpuyard.yaml").write_text("search_path: [mine]\n")
