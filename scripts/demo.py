"""The main job from end to end, small: `make demo` (look, fit, learn, compare)."""

from gpuyard.command import run

if __name__ == "__main__":
    run("demo")
