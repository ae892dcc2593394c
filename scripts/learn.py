"""Learn the weights of the linear score by playing: `python scripts/learn.py begin=zero`."""

import hydra
from launch import run_main, start
from learning_setting import going_on, keep, report, trainer_of
from omegaconf import DictConfig
from terminal import error_console

from gpuyard.learning.trainer import LearningStopped


@hydra.main(version_base=None, config_path="../conf", config_name="learn")
def main(cfg: DictConfig) -> None:
    """Learn, write, meet the held-out windows."""
    launch = start(cfg)
    trainer = trainer_of(launch)
    try:
        trainer.run(error_console())
    except (KeyboardInterrupt, LearningStopped):
        keep(launch, trainer, "Stopped on the way: no held-out window was played.")
        print(f"to go on: {going_on(launch)}")
        raise
    print(report(launch, trainer))


if __name__ == "__main__":
    run_main(main)
