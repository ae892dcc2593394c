"""One Ray for all tests of the agents."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def one_ray() -> Iterator[None]:
    """A small private Ray, started when the first test asks."""
    import ray

    from marl.rllib.cluster import start_ray

    start_ray(num_cpus=1, object_store_bytes=100_000_000)
    yield
    ray.shutdown()


@pytest.fixture
def ppo_of(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Builds algorithms as `algorithm_of` does, and stops them after the test."""
    from tests.marl.trainings import algorithm_of

    request.getfixturevalue("one_ray")
    built = []

    def build(**given: Any) -> Any:
        built.append(algorithm_of(**given))
        return built[-1]

    yield build
    for algorithm in built:
        algorithm.stop()


@pytest.fixture(scope="session")
def fragments(request: pytest.FixtureRequest) -> list[Any]:
    """Chunks of episodes, cut every 100 agent steps, of two environments from their beginning."""
    from tests.marl.test_rllib import arguments, sampled
    from tests.marl.trainings import algorithm_of

    request.getfixturevalue("one_ray")
    algorithm = algorithm_of(**arguments())
    found = sampled(algorithm, 10, 100)
    algorithm.stop()
    return found


@pytest.fixture
def trainer_of(ppo_of: Callable[..., Any]) -> Callable[..., Any]:
    """Builds trainers from the arguments of `build_ppo`."""
    from marl.rllib.trainer import Trainer

    def build(**given: Any) -> Any:
        return Trainer(ppo_of(**given), average_decay=given["ppo"].average_decay)

    return build
