"""Train TopDRL or one of its learned baselines: `python scripts/train_topdrl.py picker=topdrl`."""

from omegaconf import DictConfig

from gpuyard.launch.build import SEED, check_plain
from gpuyard.launch.start import program, start

RULES = {**SEED, "validation_windows": (True, 1)}


@program("train_topdrl")
def main(cfg: DictConfig) -> None:
    """Compose, imitate, train, keep the best policy on validation windows."""
    launch = start(cfg)
    check_plain(launch.config, RULES)
    from gpuyard.training.topdrl_training import (
        train,  # torch and ray load only once the configuration is good
    )

    folder, best = train(launch.config, launch.folder)
    print(f"best validation throughput {best:.4g}; policy in {folder}")
