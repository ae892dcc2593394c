"""One table and figures from the folders of a sweep: `python scripts/compare.py sweep=DIR`."""

from gpuyard.command import run

if __name__ == "__main__":
    run("compare")
