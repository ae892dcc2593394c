"""Attaching to a Ray cluster, and building an algorithm there.

It is told of the nodes; names are shared, and each copy of an environment has a stream of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import ray
from ray.tune.registry import register_env
from ray.util import log_once

from marl.training.spec import ClusterRay, LocalRay, RayError, RaySpec

if TYPE_CHECKING:
    from ray.rllib.algorithms.ppo import PPOConfig


def built(config: Any) -> Any:
    """`config.build_algo()`, without the warning that it runs on the stack that we chose.

    RLlib warns through `log_once`: what has been said already is not said again.
    """
    log_once(f"{config.algo_class.__name__}_on_new_api_stack")
    return config.build_algo()


ENV_NAME = "gpuyard"
SHARED = "shared"  # the one policy of all agents
WHOLE_RETURN = "whole_episode_return"
RETURN_WINDOW = 16  # episodes


class OwnStream(gym.Wrapper[Any, Any, Any, Any]):
    """Begins with its own seed: RLlib gives all copies of an environment the same."""

    def __init__(self, env: gym.Env[Any, Any], seed: int) -> None:
        """`seed` of the first episode; later ones go on with the stream."""
        super().__init__(env)
        self._seed: int | None = seed

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """The next episode of this copy."""
        del seed
        first, self._seed = self._seed, None
        return self.env.reset(seed=first, options=options)


def register_copies(name: str, make_env: Callable[[], gym.Env[Any, Any]], seed: int) -> None:
    """Tell RLlib of an environment whose copies each play episodes of their own."""
    copies = count()

    def create(context: Any) -> OwnStream:
        del context
        return OwnStream(make_env(), seed * 1_000_003 + next(copies))

    register_env(name, create)


CHECKOUT = Path(__file__).resolve().parents[2]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}  # more only wait for each other


def connect(spec: RaySpec, *, trials: int = 1) -> None:
    """Start a private Ray or attach to the cluster, unless this process has one already.

    `spec.environment()` must have been set before Ray was imported. A private Ray gets the CPUs of
    `trials` trainings at once.

    Raises:
        RayError: no cluster answers at the address, or it refuses this program.
    """
    if isinstance(spec, ClusterRay):
        attach(spec)
    elif isinstance(spec, LocalRay):
        start_ray(num_cpus=trials * spec.num_cpus, object_store_bytes=spec.object_store_bytes)


def start_ray(num_cpus: int, object_store_bytes: int) -> None:
    """A private Ray on this machine, unless one is running in this process already."""
    if ray.is_initialized():
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray.init(
        address="local",  # whatever RAY_ADDRESS says
        num_cpus=num_cpus,
        object_store_memory=object_store_bytes,
        include_dashboard=False,
        configure_logging=True,
        logging_level="ERROR",
        log_to_driver=False,
    )


def attach(spec: ClusterRay) -> None:
    """Make this process a driver of the running cluster."""
    if ray.is_initialized():
        return
    spec.check_answer()
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    path = {"PYTHONPATH": str(CHECKOUT)} if spec.code == "checkout" else {}
    try:
        ray.init(
            address=spec.address,
            runtime_env={"env_vars": {**ONE_THREAD, **path}},
            configure_logging=True,
            logging_level="ERROR",
            log_to_driver=False,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise RayError(
            f"ray.address={spec.address}: the cluster could not be joined ({error}). Either its "
            "token is another one (ray.token_path, ray.token_auth), or this machine is none of "
            "its nodes, or it runs another version of Ray or Python"
        ) from error


def placed(config: PPOConfig, spec: RaySpec) -> PPOConfig:
    """`config` with env runners and learners where `spec` wants them, replaced when lost.

    How many env runners sample how many copies is PPO's own choice; it is left as it is.
    """
    told: dict[str, Any] = {
        "num_cpus_per_env_runner": spec.num_cpus_per_env_runner,
        "num_gpus_per_env_runner": spec.num_gpus_per_env_runner,
        "sample_timeout_s": spec.sample_timeout_s,
    }
    faults: dict[str, Any] = {
        "restart_failed_env_runners": True,
        "env_runner_health_probe_timeout_s": spec.probe_timeout_s,
        "env_runner_restore_timeout_s": spec.restore_timeout_s,
        "delay_between_env_runner_restarts_s": spec.restart_delay_s,
    }
    learners: dict[str, Any] = {
        "num_learners": spec.num_learners,
        "num_cpus_per_learner": spec.num_cpus_per_learner,
        "num_gpus_per_learner": spec.num_gpus_per_learner,
    }
    chosen: PPOConfig = config.env_runners(**told).fault_tolerance(**faults).learners(**learners)
    return chosen
