"""Train the agents: `python scripts/train.py workload=helios_venus workload.path=FILE`."""

import os

import hydra
from launch import run_main, start
from omegaconf import DictConfig
from plain_rules import check_training
from training_board import check_logger

from marl.rllib.ray_spec import RaySpec


@hydra.main(version_base=None, config_path="../conf", config_name="train")
def main(cfg: DictConfig) -> None:
    """Compose, warm-start, train, keep the best policy on validation windows."""
    launch = start(cfg)
    check_training(launch.config)
    check_logger(launch.config["logger"])
    ray: RaySpec = launch.build("ray")
    os.environ.update(ray.environment())
    ray.check_answer()
    # torch and ray load only once the configuration is known to be good
    if launch.config.get("tune") is not None:
        from training_tune import tune

        tune(launch, cfg)
        return
    from training import train

    train(launch)


if __name__ == "__main__":
    run_main(main)
