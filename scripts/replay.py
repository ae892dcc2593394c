"""Step through a run's event log: `python scripts/replay.py path=runs/simulate/FOLDER every=10`."""

from gpuyard.command import run

if __name__ == "__main__":
    run("replay")
