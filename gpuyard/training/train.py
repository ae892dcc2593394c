"""Programs that train: `python scripts/train.py`, `train_topdrl.py` and `train_worl.py`.

Torch and Ray load only once the configuration is known to be good.
"""

import logging
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from gpuyard.launch.build import SEED, Rules, build_as, check_kinds, check_plain
from gpuyard.launch.errors import heed_ctrl_c
from gpuyard.launch.start import Launch, program, start
from gpuyard.training.setting import check_all
from marl.rllib.checkpoint import FOLDER as CHECKPOINT
from marl.rllib.checkpoint import (
    OLD,
    check_setting,
    note_setting,
    only_checkpoint,
    replace_checkpoint,
)
from sim.files import write_atomically

if TYPE_CHECKING:
    from marl.env.plan_env import TrainingProblems
    from marl.rllib.dqn import PlanDqnSpec  # torch and Ray, which take seconds

log = logging.getLogger(__name__)


@program("train")
def train_agents(cfg: DictConfig) -> None:
    """Compose, warm-start, train, keep the best policy on validation windows."""
    launch = start(cfg)
    check_all(launch)
    if launch.config.get("tune") is not None:
        from gpuyard.training.tune import tune

        tune(launch, cfg)
        return
    from gpuyard.training.session import train

    train(launch)
    if launch.config["page"]:
        from gpuyard.pages.comparison_page import write_folder_page

        write_folder_page(launch.folder, launch.record, launch.config, title="training")


PICKER_RULES = {**SEED, "validation_windows": (True, 1)}


@program("train_topdrl")
def train_picker(cfg: DictConfig) -> None:
    """Compose, imitate, train, keep the best policy on validation windows."""
    launch = start(cfg)
    check_plain(launch.config, PICKER_RULES)
    check_kinds(launch.config, Path | None, "resume")
    launch.begin()
    from gpuyard.training.topdrl_training import train

    folder, best = train(launch.config, launch.folder)
    print(f"best validation throughput {best:.4g}; policy in {folder}")


PLAN_RULES: Rules = SEED | {"checkpoint_every": (True, 1), "gap_weight": (False, 0)}
POLICY, CURVE = "policy", "training.csv"
RAY_STORE_BYTES = 100_000_000


@program("train_worl")
def train_plans(cfg: DictConfig) -> None:
    """Train, or go on."""
    launch = start(cfg)
    config, folder = launch.config, launch.folder
    check_plain(config, PLAN_RULES)
    check_kinds(config, bool, "fresh")
    if not config["fresh"]:
        check_setting(folder, _plan_setting(config), "fresh=true to forget that one")
    problems = launch.build("problems")
    from marl.rllib.dqn import PlanDqnSpec

    spec = build_as(PlanDqnSpec, config, "dqn")
    launch.begin()
    if config["fresh"]:
        for name in (CHECKPOINT, OLD, POLICY):
            shutil.rmtree(folder / name, ignore_errors=True)
        (folder / CURVE).unlink(missing_ok=True)
    _train_plans(launch, problems, spec)
    print(f"policy in {folder / POLICY}")


def _plan_setting(config: Mapping[str, Any]) -> dict[str, Any]:
    """What decides the weights after so many steps."""
    dqn = {key: value for key, value in config["dqn"].items() if key != "steps"}
    return {"dqn": dqn, **{key: config[key] for key in ("seed", "problems", "gap_weight")}}


def _train_plans(launch: Launch, problems: "TrainingProblems", spec: "PlanDqnSpec") -> None:
    from marl.env.plan_env import PlanEnv, save_plan_policy
    from marl.rllib.cluster import start_ray
    from marl.rllib.dqn import PlanTrainer

    config, folder = launch.config, launch.folder
    start_ray(num_cpus=1, object_store_bytes=RAY_STORE_BYTES)
    trainer = PlanTrainer(
        make_env=lambda: PlanEnv(draw=problems, gap_weight=config["gap_weight"]),
        spec=spec,
        seed=config["seed"],
    )
    curve = _resumed_plans(trainer, folder)
    steps = int(curve[-1].split(",")[0]) if len(curve) > 1 else 0

    def save() -> None:
        save_plan_policy(folder / POLICY, trainer.weights(), spec.hidden)
        write_atomically(folder / CURVE, ("\n".join(curve) + "\n").encode())
        replace_checkpoint(folder, trainer.save)  # last: the curve may have more, never less
        note_setting(folder, _plan_setting(config))

    try:
        while steps < spec.steps:
            heed_ctrl_c()
            done = trainer.iterate()
            steps = done.steps
            curve.append(f"{steps},{done.return_mean:.6g},{done.loss:.6g}")
            words = f"mean return {_number(done.return_mean)}, loss {_number(done.loss)}"
            log.info("%d of %d steps, %s", steps, spec.steps, words)
            if (len(curve) - 1) % config["checkpoint_every"] == 0 or steps >= spec.steps:
                save()
    except KeyboardInterrupt:
        if len(curve) > 1:
            save()
        raise
    finally:
        trainer.close()


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4g}"


def _resumed_plans(trainer: Any, folder: Path) -> list[str]:
    """Lines of the curve so far, after going back to the last checkpoint."""
    kept = only_checkpoint(folder)
    if not (kept.is_dir() and (folder / CURVE).is_file()):
        return ["steps,return_mean,loss"]
    trainer.restore(kept)
    log.info("going on from %s", kept)
    lines = (folder / CURVE).read_text(encoding="utf-8").splitlines()
    return lines[: 1 + trainer.iterations_done]
