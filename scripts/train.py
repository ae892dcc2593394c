"""Train the agents: `python scripts/train.py workload=helios_venus workload.path=FILE`."""

import hydra
from launch import run_main, start
from omegaconf import DictConfig
from plain_rules import check_training


@hydra.main(version_base=None, config_path="../conf", config_name="train")
def main(cfg: DictConfig) -> None:
    """Compose, warm-start, train, keep the best policy on validation windows."""
    launch = start(cfg)
    check_training(launch.config)
    from training import train  # torch and ray load only once the configuration is known to be good

    train(launch)


if __name__ == "__main__":
    run_main(main)
