"""Learn the weights of the linear score by playing: `python scripts/learn.py begin=zero`."""

import sys
from contextlib import suppress

from omegaconf import DictConfig

from gpuyard.launch.start import going_on, program, start
from gpuyard.launch.terminal import error_console
from gpuyard.learning.report import keep, report
from gpuyard.learning.setting import trainer_of
from gpuyard.learning.trainer import LearningStopped


@program("learn")
def main(cfg: DictConfig) -> None:
    """Learn, write, meet the held-out windows."""
    launch = start(cfg)
    trainer = trainer_of(launch)
    try:
        trainer.run(error_console())
    except (KeyboardInterrupt, LearningStopped) as error:
        if isinstance(error, LearningStopped):  # after Ctrl-C every program is told
            print(going_on(launch.record, launch.folder, sys.argv))
        with suppress(OSError):  # a full disk is told already
            keep(launch, trainer, "Stopped on the way: no held-out window was played.")
        raise
    print(report(launch, trainer))
