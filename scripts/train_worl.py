"""Train the plan generator of WORL-RTGS: `python scripts/train_worl.py`."""

from gpuyard.command import run

if __name__ == "__main__":
    run("train_worl")
