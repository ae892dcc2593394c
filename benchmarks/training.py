"""Trained environment steps a second, through RLlib and by a bare PyTorch PPO loop.

    python benchmarks/training.py [--json FILE] [--agents 4 16] [--runners N] [--gpu]

Both train the main job's network on the main job's environment with its knobs, in one process on
one thread, taking turns iteration by iteration; the ratio of their speeds is what counts.
`--runners N` adds RLlib with N processes that sample, on cores of their own. `--gpu` adds it with
its learner on a CUDA device (and so many runners), and is passed over where there is none. Beside
them, agent turns a second that one core plays greedily in compiled code (`marl.policy`), which is
how evolution strategies would learn: the main job's network, and a small one; `--played`: only
these.

PPO with nothing around it: the reference that training through RLlib is measured against. One file
in the manner of CleanRL: the same environment, network and loss, no connectors, actors, checkpoints
or metrics. Agents act at different times, so each keeps a track of its own; values are taken from
the forward pass that chose the action.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from ray.rllib.algorithms.ppo import PPO
from setup_run import compose_config, experiment_of

from marl.env.layout import NEEDS, CodecRules
from marl.env.world import DelayReward
from marl.policy.build import PolicySpec, build_network
from marl.policy.from_torch import net_of
from marl.policy.network import NetLoop
from marl.policy.pair_score import PairScorePolicy, stack
from marl.rllib.algorithm import ALL, RllibSchedulingEnv, Setup, build_ppo
from marl.rllib.cluster import connect
from marl.training.episodes import Episodes, Windows
from marl.training.spec import LocalRay, PpoSpec
from sim.kernel.step import FULL, PAUSE
from sim.scoring.weights import ScoreWeights, score_weights_of

Tensors = dict[str, torch.Tensor]


def episodes_of(config: dict[str, Any]) -> Episodes:
    """What `scripts/train.py` would train on."""
    experiment = experiment_of(config)
    return Episodes(
        world=experiment.world,
        rules=CodecRules(**config["rules"]),
        reward=DelayReward(own_weight=0.3, scale_s=1000.0),
        windows=Windows(experiment, "train"),
        max_rounds=config["max_rounds"],
    )


@dataclass
class Track:
    """One agent's turns in one copy of the environment, since the last batch."""

    seen: list[Any] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    log_p: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)  # until the agent's next turn


@dataclass
class Batch:
    """Turns of all agents, in any order."""

    seen: list[Any] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    log_p: list[float] = field(default_factory=list)
    advantages: list[float] = field(default_factory=list)
    targets: list[float] = field(default_factory=list)

    def add(self, track: Track, turns: int, next_value: float, ppo: PpoSpec) -> None:
        """The first `turns` of a track, judged backwards from what follows them."""
        values = [*track.values[:turns], next_value]
        advantage, judged = 0.0, []
        for t in reversed(range(turns)):
            delta = track.rewards[t] + ppo.gamma * values[t + 1] - values[t]
            advantage = delta + ppo.gamma * ppo.gae_lambda * advantage
            judged.append(advantage)
        self.seen += track.seen[:turns]
        self.actions += track.actions[:turns]
        self.log_p += track.log_p[:turns]
        self.advantages += judged[::-1]
        self.targets += [a + v for a, v in zip(judged[::-1], values, strict=False)]


class BarePpo:
    """Samples and learns in this process, with one forward pass for all copies a step."""

    def __init__(self, policy: PairScorePolicy, ppo: PpoSpec, envs: list[RllibSchedulingEnv]):
        """Start every copy's first episode."""
        self.policy, self.ppo, self.envs = policy, ppo, envs
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=ppo.learning_rate)
        self.tracks: list[dict[str, Track]] = [{} for _ in envs]
        self.waiting = [env.reset()[0] for env in envs]

    def iterate(self) -> tuple[int, int]:
        """One batch sampled and learnt from; its steps of the environment and of agents."""
        batch, steps = Batch(), 0
        while len(batch.actions) + self._complete() < self.ppo.batch_agent_steps:
            self._act()
            for copy in range(len(self.envs)):
                self._step(copy, batch)
                steps += 1
        self._cut(batch)
        self._learn(batch)
        return steps, len(batch.actions)

    def _complete(self) -> int:
        return sum(
            len(track.actions) - (agent not in waiting)
            for tracks, waiting in zip(self.tracks, self.waiting, strict=True)
            for agent, track in tracks.items()
        )

    def _judge(self, observations: list[Any]) -> tuple[torch.Tensor, list[float]]:
        with torch.no_grad():
            scores = self.policy(stack(observations))
            return torch.log_softmax(scores.logits, -1), self.policy.values(scores.state).tolist()

    def _act(self) -> None:
        """Choose for everybody who has to."""
        who = [(c, agent) for c, waiting in enumerate(self.waiting) for agent in waiting]
        log_p, values = self._judge([self.waiting[c][agent] for c, agent in who])
        drawn = torch.multinomial(log_p.exp(), 1)
        of_drawn = log_p.gather(-1, drawn).squeeze(-1).tolist()
        rows = zip(who, drawn.squeeze(-1).tolist(), of_drawn, values, strict=True)
        for (c, agent), action, its_log_p, value in rows:
            track = self.tracks[c].setdefault(agent, Track())
            track.seen.append(self.waiting[c][agent])
            track.actions.append(action)
            track.log_p.append(its_log_p)
            track.values.append(value)
            track.rewards.append(0.0)

    def _step(self, copy: int, batch: Batch) -> None:
        env, tracks = self.envs[copy], self.tracks[copy]
        actions = {agent: tracks[agent].actions[-1] for agent in self.waiting[copy]}
        seen, rewards, ended, cut, _ = env.step(actions)
        for agent, reward in rewards.items():
            if agent in tracks:
                tracks[agent].rewards[-1] += reward
        if ended[ALL] or cut[ALL]:
            last = {a: o for a, o in seen.items() if a in tracks}
            values = [0.0] * len(last) if ended[ALL] else self._judge(list(last.values()))[1]
            for agent, value in zip(last, values, strict=True):
                batch.add(tracks[agent], len(tracks[agent].actions), value, self.ppo)
            self.tracks[copy] = {}
            seen = env.reset()[0]
        self.waiting[copy] = seen

    def _cut(self, batch: Batch) -> None:
        """Take the complete turns of episodes that go on; what hangs stays."""
        who = [(c, agent) for c, waiting in enumerate(self.waiting) for agent in waiting]
        values = self._judge([self.waiting[c][agent] for c, agent in who])[1]
        following = dict(zip(who, values, strict=True))
        for c, tracks in enumerate(self.tracks):
            for agent, track in tracks.items():
                if (c, agent) in following:
                    turns, value = len(track.actions), following[c, agent]
                else:  # its last turn hangs, and its value is what the turns before it lead to
                    turns, value = len(track.actions) - 1, track.values[-1]
                batch.add(track, turns, value, self.ppo)
                for name in ("seen", "actions", "log_p", "values", "rewards"):
                    del getattr(track, name)[:turns]

    def _learn(self, batch: Batch) -> None:
        seen, n = stack(batch.seen), len(batch.actions)
        actions, log_p = torch.tensor(batch.actions), torch.tensor(batch.log_p)
        advantages, targets = torch.tensor(batch.advantages), torch.tensor(batch.targets)
        advantages = (advantages - advantages.mean()) / advantages.std().clamp(min=1e-4)
        size = self.ppo.minibatch_agent_steps
        for _ in range(self.ppo.epochs):
            for rows in torch.tensor_split(torch.randperm(n), n // size):
                part = {key: value[rows] for key, value in seen.items()}
                loss = self._loss(part, actions[rows], log_p[rows], advantages[rows], targets[rows])
                self.optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.ppo.grad_clip)
                self.optimizer.step()

    def _loss(
        self, seen: Tensors, actions: torch.Tensor, log_p: torch.Tensor,
        advantages: torch.Tensor, targets: torch.Tensor,
    ) -> torch.Tensor:  # fmt: skip
        ppo, scores = self.ppo, self.policy(seen)
        now = torch.log_softmax(scores.logits, -1)
        ratio = torch.exp(now.gather(-1, actions[:, None]).squeeze(-1) - log_p)
        clipped = ratio.clamp(1.0 - ppo.clip, 1.0 + ppo.clip)
        surrogate = torch.minimum(ratio * advantages, clipped * advantages).mean()
        errors = (self.policy.values(scores.state) - targets).square().clamp(max=ppo.value_clip)
        entropy = -(now.exp() * now).sum(-1).mean()
        return ppo.value_weight * errors.mean() - surrogate - ppo.entropy * entropy


SEED, SERVERS_PER_AGENT, JOBS = 0, 4, 600


def specs(config: dict[str, Any]) -> tuple[PpoSpec, PolicySpec]:
    """The main job's knobs and network."""
    knobs = {key: value for key, value in config["algo"].items() if key != "_target_"}
    sizes = {key: config["encoder"][key] for key in ("gpu_dim", "hidden_dim", "rounds")}
    return PpoSpec(**knobs), PolicySpec(
        **sizes,
        head_dim=config["policy"]["head_dim"],
        prior_scale=float(config["policy"]["prior_scale"]),
    )


def bare(episodes: Episodes, ppo: PpoSpec, policy: PolicySpec) -> BarePpo:
    """The reference, on copies as RLlib's runner has them."""
    envs = [
        RllibSchedulingEnv(
            episodes.env(), seed=copy, first_cut_frac=(copy + 0.5) / ppo.envs_per_runner
        )
        for copy in range(ppo.envs_per_runner)
    ]
    return BarePpo(build_network(policy), ppo, envs)


def through_rllib(
    episodes: Episodes, config: dict[str, Any], *, runners: int = 0, gpus: int = 0
) -> PPO:
    """What `scripts/train.py` trains with; the copies are divided among the runners."""
    ppo, policy = specs(config)
    copies = max(1, ppo.envs_per_runner // max(1, runners))
    ppo = replace(ppo, env_runners=runners, envs_per_runner=copies)
    given = {key: value for key, value in config["ray"].items() if key != "_target_"}
    ray = LocalRay(**given | {"num_env_runners": runners, "num_gpus_per_learner": gpus})
    connect(ray)
    env = partial(Episodes.env, episodes)
    return build_ppo(Setup(make_env=env, policy=policy, weights=None, seed=SEED, ray=ray), ppo)


def played(episodes: Episodes, policy: PolicySpec, prior: ScoreWeights, windows: int) -> float:
    """Agent turns a second of a network as training begins with it, whole windows, compiled."""
    network = build_network(policy)
    assert network.prior is not None
    network.prior.take(prior)
    with torch.no_grad():  # its last weights begin as zeros, and what adds nothing is not computed
        network.key.weight.add_(1e-6)
    net = net_of(network, episodes.layout)
    assert net is not None
    turns, took_s = 0, 0.0
    for window in range(-1, windows):  # the first compiles and warms
        simulator = episodes.world.simulator(episodes.windows(max(window, 0)))
        loop = NetLoop(simulator.views(NEEDS), episodes.layout, episodes.rules, net)
        began, acted = time.perf_counter(), 0
        while (verdict := loop.play(loop.decisions + 1)) in {PAUSE, FULL}:
            acted += verdict == PAUSE
            if verdict == FULL:
                simulator.flush()
        if window >= 0:
            turns, took_s = turns + acted, took_s + time.perf_counter() - began
    return turns / took_s


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returns, and its seconds."""
    began = time.perf_counter()
    return call(), time.perf_counter() - began


def speeds(agents: int, iterations: int, *, runners: int, gpu: bool) -> dict[str, list[float]]:
    """Environment steps a second of each contestant, in iterations that take turns."""
    config = compose_config("train", f"topology.servers={agents * SERVERS_PER_AGENT}",
                            f"agents.count={agents}", f"workload.num_jobs={JOBS}",
                            "workload.max_gang=16", f"seed={SEED}")  # fmt: skip
    episodes = episodes_of(config)
    reference = bare(episodes, *specs(config))
    algorithms = {}
    if runners:  # first: it starts a Ray with room for them
        algorithms[f"rllib_{runners}_runners"] = through_rllib(episodes, config, runners=runners)
    algorithms["rllib"] = through_rllib(episodes, config)
    if gpu:
        algorithms["rllib_gpu"] = through_rllib(episodes, config, runners=runners, gpus=1)
    found: dict[str, list[float]] = {name: [] for name in ("bare", *algorithms)}
    for _ in range(iterations + 1):
        (steps, _), took_s = timed(reference.iterate)
        found["bare"].append(steps / took_s)
        for name, algorithm in algorithms.items():
            result, took_s = timed(algorithm.train)
            found[name].append(result["env_runners"]["num_env_steps_sampled"] / took_s)
    for algorithm in algorithms.values():
        algorithm.stop()
    return {name: each[1:] for name, each in found.items()}  # the first compiles and warms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    parser.add_argument("--agents", type=int, nargs="+", default=(4, 16))
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--runners", type=int, default=0, help="also sample in so many processes")
    parser.add_argument("--played", action="store_true", help="only what compiled code plays")
    parser.add_argument("--gpu", action="store_true", help="also learn on a CUDA device")
    options = parser.parse_args()
    torch.set_num_threads(1)
    gpu = options.gpu and torch.cuda.is_available()
    if options.gpu and not gpu:
        print("--gpu: skipped, torch sees no CUDA device")
    numbers: dict[str, float] = {}
    print("agents  trainer          env steps/s  over the bare loop")
    for agents in () if options.played else options.agents:
        found = speeds(agents, options.iterations, runners=options.runners, gpu=gpu)
        for name, each in found.items():
            pairs = zip(each, found["bare"], strict=True)
            median, ratio = statistics.median(each), statistics.median(a / b for a, b in pairs)
            print(f"{agents:6}  {name:15} {median:12,.0f}  {ratio:18.2f}", flush=True)
            numbers |= {f"agents{agents}_{name}_steps_per_s": median}
            numbers |= {f"agents{agents}_{name}_over_bare": ratio}
    config = compose_config("train", "agents.count=8", f"workload.num_jobs={JOBS}", f"seed={SEED}")
    episodes, spec = episodes_of(config), specs(config)[1]
    print("network   agent turns/s played, one core")
    prior = score_weights_of(config["policy"]["prior"], "policy.prior")
    small = replace(spec, gpu_dim=4, hidden_dim=8, head_dim=8)
    for name, sizes in (("main", spec), ("small", small)):
        numbers[f"played_{name}_turns_per_s"] = played(episodes, sizes, prior, windows=10)
        print(f"{name:8} {numbers[f'played_{name}_turns_per_s']:12,.0f}", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
