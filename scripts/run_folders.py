"""Names of run folders: `${of_run:}` of `conf/hydra/default.yaml` says what was run."""

from typing import Any

from omegaconf import OmegaConf

GROUPS = ("experiment", "lineup", "scheduler", "workload")


def of_run(*, _root_: Any) -> str:
    """`_sjf_venus_like`: the experiment or line-up, scheduler and workload that were chosen."""
    choices = OmegaConf.select(_root_, "hydra.runtime.choices") or {}
    chosen = (choices.get(group) for group in GROUPS)
    return "".join(f"_{name}" for name in chosen if name not in {None, "null"})


def name_run_folders() -> None:
    """Let configurations use `${of_run:}`."""
    OmegaConf.register_new_resolver("of_run", of_run, replace=True)
