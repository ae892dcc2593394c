"""A training on a cluster as a program of its own, so that it can be killed; writes what it did.

python cluster_driver.py HOST:PORT TOKEN_FILE FOLDER ITERATIONS
"""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from marl.training.spec import ClusterRay
from tests.marl.trainings import shipped

RUNNERS, COPIES, EVERY = 2, 2, 2  # env runners, environments of each, iterations a checkpoint


def cluster_ray(address: str, token: str) -> ClusterRay:
    """The shipped values, with a patience that suits a test."""
    test = {"num_env_runners": RUNNERS, "num_envs_per_env_runner": COPIES, "sample_timeout_s": 30.0,
            "restore_timeout_s": 30.0, "address": address, "token_path": token}  # fmt: skip
    return ClusterRay(**shipped("ray/_base.yaml", "ray/cluster.yaml") | test)


def main(address: str, token: str, folder: Path, iterations: int) -> None:
    """Train on; a line of `steps.jsonl` an iteration, `result.json` at the end."""
    ray = cluster_ray(address, token)
    os.environ.update(ray.environment())
    from marl.rllib.algorithm import Setup
    from marl.rllib.checkpoint import add_checkpoint, checkpoints, last_whole
    from marl.rllib.cluster import connect
    from marl.rllib.trainer import Trainer, build_algorithm
    from tests.marl import test_learning as toy

    connect(ray)
    ppo = replace(toy.PPO, env_runners=RUNNERS, envs_per_runner=COPIES)
    start = toy.fresh(0).state_dict()
    setup = Setup(make_env=toy.make_env, policy=toy.POLICY, weights=start, seed=0, ray=ray)
    algorithm = build_algorithm(setup, ppo)
    trainer = Trainer(algorithm, average_decay=ppo.average_decay)
    if checkpoints(folder):
        trainer.restore(last_whole(folder))
    learnt = counted(algorithm)
    while trainer.iterations_done < iterations:
        done = trainer.iterate()
        line = {"iteration": done.number, "agent_steps": done.agent_steps, "learnt": learnt.pop(),
                "env_runners": done.env_runners, "restarts": done.restarts}  # fmt: skip
        with (folder / "steps.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        if done.number % EVERY == 0:
            add_checkpoint(folder, done.number, trainer.save, keep=2)
    over_best = toy.over_best(trainer.policy(), folder / "policy")
    (folder / "result.json").write_text(json.dumps({"over_best": over_best}))
    trainer.close()


def counted(algorithm: Any) -> list[int]:
    """A list that gets the agent steps of each batch as the learner receives it."""
    learnt: list[int] = []
    update = algorithm.learner_group.update

    def counting(*rest: Any, episodes: list[Any], **more: Any) -> Any:
        learnt.append(sum(episode.agent_steps() for episode in episodes))
        return update(*rest, episodes=episodes, **more)

    algorithm.learner_group.update = counting
    return learnt


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
