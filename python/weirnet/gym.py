"""Learned congestion control (`pip install weirnet[gym]`): a flow over a simulated bottleneck as a gymnasium
environment, one or many side by side.

A step is one monitor interval: a round trip without queues, 5 ms at least. The action, from -1 to 1, changes the
window by up to one and a half times or two thirds. What is observed is what a sender knows; the reward is what the
network knows: utilisation, less the delay that the queue adds and the share of packets lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ._weirnet import Links

Array = np.ndarray[Any, Any]

#: What an observation holds, in this order.
FEATURES = (
    "queueing delay over the shortest round trip",
    "change of the round-trip time in the interval",
    "share of packets lost",
    "share of packets marked",
    "throughput over the most that was seen",
    "rate of sending over that of delivery, less 1",
    "the last action",
)
_LOW = np.array([0, -1, 0, 0, 0, -1, -1], dtype=np.float32)
_HIGH = np.array([10, 1, 1, 1, 1, 4, 1], dtype=np.float32)


@dataclass(frozen=True)
class Range:
    """Of what kind links are: each quantity is drawn anew for each episode, rate, delay and buffer by their
    logarithms."""

    rate_bps: tuple[float, float] = (5e6, 50e6)
    rtt_s: tuple[float, float] = (0.01, 0.1)
    #: The buffer in bandwidth-delay products.
    buffer_bdp: tuple[float, float] = (0.5, 4.0)
    #: The share of packets that is lost before the queue.
    loss: tuple[float, float] = (0.0, 0.0)
    #: Controllers of other flows that share the link.
    rivals: tuple[str, ...] = ()
    #: In place of a drop-tail queue of the buffer.
    qdisc: str | None = None

    def draw(self, random: np.random.Generator) -> dict[str, Any]:
        """A link of this kind, as `reset(options={"link": ...})` takes it."""
        rate, rtt, buffer = (_logarithmic(random, ends) for ends in (self.rate_bps, self.rtt_s, self.buffer_bdp))
        packets = max(4, round(rate * rtt / 8 / 1514 * buffer))
        return {
            "rate_bps": rate,
            "rtt_s": rtt,
            "qdisc": self.qdisc or f"pfifo limit {packets}p",
            "loss": float(random.uniform(*self.loss)),
            "interval_s": max(rtt, 0.005),
            "seed": int(random.integers(1 << 32)),
            "rivals": list(self.rivals),
            "controller": None,
        }


def _logarithmic(random: np.random.Generator, ends: tuple[float, float]) -> float:
    low, high = np.log(ends[0]), np.log(ends[1])
    return float(np.exp(random.uniform(low, high)))


@dataclass(frozen=True)
class Reward:
    """Utilisation, less `delay` times the mean queueing delay over the round trip without queues, less `loss` times
    the share of packets lost."""

    delay: float = 0.3
    loss: float = 2.0

    def of(self, numbers: Array, rtt_s: Array) -> Array:
        """Of each link's numbers after a step."""
        utilisation = np.minimum(numbers[:, 0] / numbers[:, 8], 1.0)
        return utilisation - self.delay * np.minimum(numbers[:, 9] / rtt_s, 10.0) - self.loss * numbers[:, 5]


class _Links:
    """Some links, and what has to be remembered of each."""

    def __init__(self, count: int, links: Range, reward: Reward, steps: int) -> None:
        self.links, self.range, self.reward, self.steps = Links(count), links, reward, steps
        self.most = np.zeros(count)
        self.rtt_s = np.ones(count)
        self.step_number = np.zeros(count, dtype=np.int64)

    def reset(self, index: int, random: np.random.Generator, link: dict[str, Any] | None) -> None:
        spec = self.range.draw(random) | (link or {})
        self.links.reset(index, spec)
        self.most[index], self.rtt_s[index], self.step_number[index] = 0.0, spec["rtt_s"], 0

    def observe(self, numbers: Array, actions: Array, at: Any = slice(None)) -> Array:
        throughput, sent, rtt, min_rtt, gradient, lost, marked = numbers[:, :7].T
        self.most[at] = np.maximum(self.most[at], throughput)
        most = np.maximum(self.most[at], 1.0)
        observed = np.stack(
            [
                np.where(min_rtt > 0, rtt / np.maximum(min_rtt, 1e-9) - 1, 0.0),
                gradient,
                lost,
                marked,
                throughput / most,
                sent / np.maximum(throughput, 1.0) - 1,
                actions,
            ],
            axis=1,
        )
        clipped: Array = np.clip(observed, _LOW, _HIGH).astype(np.float32)
        return clipped


def _info(numbers: Array, rtt_s: Array) -> dict[str, Array]:
    return {
        "throughput_bps": numbers[:, 0],
        "utilisation": np.minimum(numbers[:, 0] / numbers[:, 8], 1.0),
        "queue_delay_s": numbers[:, 9],
        "loss": numbers[:, 5],
        "cwnd": numbers[:, 7],
        "rtt_s": rtt_s,
    }


class LinkEnv(gymnasium.Env[Array, Array]):
    """One link. An episode is `steps` intervals long; it is truncated then, for no link ends by itself.

    `reset(options={"link": {...}})` makes a link of one's own: any of `rate_bps`, `rtt_s`, `qdisc`, `loss`,
    `interval_s`, `seed`, `rivals` and `controller`; the latter names one of Weir's that then decides in place of the
    actions.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, links: Range | None = None, reward: Reward | None = None, steps: int = 200) -> None:
        self._links = _Links(1, links or Range(), reward or Reward(), steps)
        self.observation_space = spaces.Box(_LOW, _HIGH, dtype=np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, shape=(1,), dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self._links.reset(0, self.np_random, (options or {}).get("link"))
        numbers = np.array([self._links.links.step_one(0, 0.0)])
        return self._links.observe(numbers, np.zeros(1))[0], self._told(numbers)

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        links = self._links
        chosen = float(np.asarray(action).reshape(-1)[0])
        numbers = np.array([links.links.step_one(0, chosen)])
        links.step_number[0] += 1
        observed = links.observe(numbers, np.array([chosen]))[0]
        reward = float(links.reward.of(numbers, links.rtt_s)[0])
        return observed, reward, False, bool(links.step_number[0] >= links.steps), self._told(numbers)

    def _told(self, numbers: Array) -> dict[str, Any]:
        return {key: float(value[0]) for key, value in _info(numbers, self._links.rtt_s).items()}


class VectorLinkEnv(VectorEnv[Array, Array, Array]):
    """Many links at once, in one call of the simulator: what training takes. A link whose episode has ended begins
    anew in the next step, which has no reward then (gymnasium's NEXT_STEP)."""

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self, num_envs: int, links: Range | None = None, reward: Reward | None = None, steps: int = 200
    ) -> None:
        super().__init__()
        self.num_envs = num_envs
        self._links = _Links(num_envs, links or Range(), reward or Reward(), steps)
        self.single_observation_space = spaces.Box(_LOW, _HIGH, dtype=np.float32)
        self.single_action_space = spaces.Box(-1.0, 1.0, shape=(1,), dtype=np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._ended = np.zeros(num_envs, dtype=bool)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """`options={"links": [...]}` has a link for each, as LinkEnv has one."""
        super().reset(seed=seed if isinstance(seed, int) else None)
        given = (options or {}).get("links") or [None] * self.num_envs
        for index, link in enumerate(given):
            self._links.reset(index, self.np_random, link)
        self._ended[:] = False
        actions = np.zeros(self.num_envs)
        numbers = self._step(actions)
        return self._links.observe(numbers, actions), _info(numbers, self._links.rtt_s)

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        links = self._links
        chosen = np.where(self._ended, 0.0, np.asarray(actions, dtype=float).reshape(self.num_envs))
        for index in np.flatnonzero(self._ended):
            links.reset(int(index), self.np_random, None)
        links.step_number += ~self._ended
        numbers = self._step(chosen)
        observed = links.observe(numbers, chosen)
        reward = np.where(self._ended, 0.0, links.reward.of(numbers, links.rtt_s))
        self._ended = links.step_number >= links.steps
        terminated = np.zeros(self.num_envs, dtype=bool)
        return observed, reward, terminated, self._ended.copy(), _info(numbers, links.rtt_s)

    def _step(self, actions: Array) -> Array:
        return np.array(self._links.links.step(actions.tolist())).reshape(self.num_envs, Links.NUMBERS)


gymnasium.register("weirnet/Link-v0", entry_point="weirnet.gym:LinkEnv", vector_entry_point="weirnet.gym:VectorLinkEnv")
