"""A benchmark run as its users run it, and the numbers that it writes."""

import json
from pathlib import Path

from tests.forking import run_program

ROOT = Path(__file__).resolve().parents[2]


def run_benchmark(name: str, *options: str, folder: Path) -> tuple[dict[str, float], str]:
    """The numbers of `benchmarks/<name>.py --quick`, and what it printed."""
    path = folder / f"{name}.json"
    words = [f"benchmarks/{name}.py", *options, "--quick", "--json", str(path)]
    done = run_program(words, timeout=900.0)
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text()), done.stdout
