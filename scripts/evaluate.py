"""Compare schedulers on paired windows: `python scripts/evaluate.py checkpoint=DIR windows=5`."""

from gpuyard.command import run

if __name__ == "__main__":
    run("evaluate")
