"""Learn the weights of the linear score by playing: `python scripts/learn.py begin=zero`."""

from gpuyard.command import run

if __name__ == "__main__":
    run("learn")
