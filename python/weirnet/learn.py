"""A small learner for `weirnet.gym`: the cross-entropy method over linear policies. It is an example that works, no
library: eight numbers, found by trying some and keeping the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .gym import FEATURES, Range, Reward, VectorLinkEnv

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Policy:
    """tanh of a weighted sum of the features and a constant."""

    weights: tuple[float, ...]

    def __call__(self, observed: Array) -> Array:
        """The action for each row of observations."""
        weights = np.array(self.weights)
        action: Array = np.tanh(observed @ weights[:-1] + weights[-1])
        return action


@dataclass(frozen=True)
class Score:
    """Means over links: of the utilisation, the queueing delay in seconds, the share of packets lost, the reward."""

    utilisation: float
    queue_delay_s: float
    loss: float
    reward: float


def held_out(count: int, links: Range | None = None, seed: int = 10_007) -> list[dict[str, Any]]:
    """Links that no training with another seed has seen."""
    random = np.random.default_rng(seed)
    return [(links or Range()).draw(random) for _ in range(count)]


def evaluate(policy: Policy | str, links: Sequence[dict[str, Any]], *, steps: int = 200, warm_up: int = 50) -> Score:
    """How a policy does, or a controller of Weir's by its name, after the first `warm_up` steps on each link."""
    env = VectorLinkEnv(len(links), steps=steps + 1)
    if isinstance(policy, str):
        links = [link | {"controller": policy} for link in links]
    observed, _ = env.reset(seed=0, options={"links": list(links)})
    sums = np.zeros(4)
    for step in range(steps):
        actions = np.zeros(len(links)) if isinstance(policy, str) else policy(observed)
        observed, reward, _, _, info = env.step(actions[:, None])
        if step >= warm_up:
            means = (info["utilisation"], info["queue_delay_s"], info["loss"], reward)
            sums += [float(np.mean(value)) for value in means]
    return Score(*(float(value) for value in sums / (steps - warm_up)))


def train(
    links: Range | None = None,
    *,
    reward: Reward | None = None,
    generations: int = 12,
    population: int = 24,
    elite: int = 6,
    tasks: int = 8,
    steps: int = 120,
    seed: int = 1,
    told: Callable[[int, float, Policy], object] | None = None,
) -> Policy:
    """The best linear policy that the cross-entropy method finds. Each of `population` policies of a generation is
    tried on the same `tasks` links, all at once; mean and spread of the `elite` best are where the next generation
    is drawn. `told` is called with each generation's number, its best reward and the mean policy. The same seed
    finds the same."""
    random = np.random.default_rng(seed)
    size = len(FEATURES) + 1
    mean, spread = np.zeros(size), np.full(size, 1.0)
    env = VectorLinkEnv(population * tasks, reward=reward, steps=steps + 1)
    for generation in range(generations):
        # The mean itself is tried, too.
        drawn = np.vstack([mean, random.normal(mean, spread, (population - 1, size))])
        some = [(links or Range()).draw(random) for _ in range(tasks)]
        observed, _ = env.reset(seed=generation, options={"links": some * population})
        total = np.zeros(population)
        for _ in range(steps):
            by_policy = observed.reshape(population, tasks, -1)
            actions = np.tanh(np.einsum("ptf,pf->pt", by_policy, drawn[:, :-1]) + drawn[:, -1:])
            observed, rewards, *_ = env.step(actions.reshape(-1, 1))
            total += rewards.reshape(population, tasks).mean(axis=1)
        best = np.argsort(total)[::-1][:elite]
        mean, spread = drawn[best].mean(axis=0), drawn[best].std(axis=0) + 0.5 / (generation + 2) ** 1.5
        if told is not None:
            told(generation, float(total[best[0]] / steps), Policy(tuple(mean.tolist())))
    return Policy(tuple(mean.tolist()))
