"""Train the agents: `python scripts/train.py workload=helios_venus workload.path=FILE`."""

import os

from omegaconf import DictConfig

from gpuyard.launch.build import check_flags, check_training
from gpuyard.launch.start import program, start
from gpuyard.pages.page import PAGE_FILE
from gpuyard.training.board import check_logger
from marl.training.spec import RaySpec


@program("train")
def main(cfg: DictConfig) -> None:
    """Compose, warm-start, train, keep the best policy on validation windows."""
    launch = start(cfg)
    check_training(launch.config)
    check_flags(launch.config, "page")
    (launch.folder / PAGE_FILE).unlink(missing_ok=True)
    check_logger(launch.config["logger"])
    ray: RaySpec = launch.build("ray")
    os.environ.update(ray.environment())
    ray.check_answer()
    # torch and ray load only once the configuration is known to be good
    if launch.config.get("tune") is not None:
        from gpuyard.training.tune import tune

        tune(launch, cfg)
        return
    from gpuyard.training.session import train

    train(launch)
    if launch.config["page"]:
        from gpuyard.pages.comparison_page import write_folder_page

        write_folder_page(launch.folder, launch.record, launch.config, title="training")
