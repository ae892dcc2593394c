"""Learn the weights of the linear score by playing: `python scripts/learn.py begin=zero`."""

from contextlib import suppress

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
        print(f"to go on: {going_on(launch)}")
        with suppress(OSError):  # a full disk is told already
            keep(launch, trainer, "Stopped on the way: no held-out window was played.")
        raise
    print(report(launch, trainer))


if __name__ == "__main__":
    run_main(main)
