"""Train the agents: `python scripts/train.py workload=helios_venus workload.path=FILE`."""

from gpuyard.command import run

if __name__ == "__main__":
    run("train")
