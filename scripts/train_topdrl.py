"""Train TopDRL or one of its learned baselines: `python scripts/train_topdrl.py picker=topdrl`."""

import hydra
from launch import run_main, start
from omegaconf import DictConfig
from plain_rules import SEED, check_plain

RULES = {**SEED, "validation_windows": (True, 1)}


@hydra.main(version_base=None, config_path="../conf", config_name="train_topdrl")
def main(cfg: DictConfig) -> None:
    """Compose, imitate, train, keep the best policy on validation windows."""
    launch = start(cfg)
    check_plain(launch.config, RULES)
    from topdrl_training import train  # torch and ray load only once the configuration is good

    folder, best = train(launch.config, launch.folder)
    print(f"best validation throughput {best:.4g}; policy in {folder}")


if __name__ == "__main__":
    run_main(main)
