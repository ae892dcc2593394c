"""Answer over HTTP: `python scripts/serve.py topology=medium_leaf_spine scheduler=sjf`."""

from gpuyard.command import run

if __name__ == "__main__":
    run("serve")
