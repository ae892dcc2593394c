"""The quickstart, done by its words alone in an empty folder."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CALL = [sys.executable, "-m", "gpuyard"]


def run(line: str, folder: Path) -> str:
    """What a command prints; `gpuyard` is the one of this checkout."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    done = subprocess.run(
        [*CALL, *shlex.split(line, comments=True)[1:]], cwd=folder, env=environment,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, f"{line}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
def test_the_quickstart_does_what_it_says(tmp_path: Path):
    told = ""
    yamls = iter(["mine/scheduler/least_service.yaml", "gpuyard.yaml"])
    for language, text in BLOCK.findall((ROOT / "docs" / "quickstart.md").read_text("utf-8")):
        if language in {"python", "yaml"}:
            path = tmp_path / ("my_orders.py" if language == "python" else next(yamls))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        for line in text.replace("\\\n", " ").splitlines():
            if line.startswith("gpuyard "):
                told += run(line, tmp_path)
            elif re.match(r" +(?:jct_mean_s|queue_delay_mean_s|gpu_util_frac)|#\d+ ", line):
                assert line in told
            elif match := re.match(
                r" (\w+\+consolidated) .* (\S+) +\S+ +\S+ +\S+ +\S+ +\S+$", line
            ):
                assert re.search(rf"{re.escape(match[1])} .* {re.escape(match[2])} ", told)
    assert (tmp_path / "runs" / "look" / "gantt.png").is_file()
    assert "least_service+consolidated" in told
