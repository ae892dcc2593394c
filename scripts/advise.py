"""Which scheduler suits a cluster: `python scripts/advise.py workload=csv workload.path=FILE`."""

from gpuyard.command import run

if __name__ == "__main__":
    run("advise")
