"""The gymnasium environments."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import weirnet as weir
from weirnet import gym, learn

LINK = {"rate_bps": 20e6, "rtt_s": 0.04, "qdisc": "pfifo limit 66p", "interval_s": 0.04, "seed": 3, "loss": 0.0}


def test_gymnasiums_checker_has_nothing_to_say() -> None:
    env = gymnasium.make("weirnet/Link-v0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # A Box of normalised actions is symmetric already, and nothing is drawn.
        check_env(env.unwrapped, skip_render_check=True)
    vector = gymnasium.make_vec("weirnet/Link-v0", num_envs=3)
    observed, info = vector.reset(seed=1)
    assert observed.shape == (3, 7) and observed in vector.observation_space
    assert info["utilisation"].shape == (3,)


def test_the_same_seed_gives_the_same_episode() -> None:
    def episode(seed: int) -> list[float]:
        env = gym.LinkEnv(steps=30)
        env.reset(seed=seed)
        rewards, ended = [], False
        while not ended:
            _, reward, _, ended, _ = env.step(np.array([0.2]))
            rewards.append(reward)
        return rewards

    assert episode(5) == episode(5) != episode(6)
    assert len(episode(5)) == 30


def test_many_links_are_as_many_of_one() -> None:
    rng = np.random.default_rng(1)
    links = [gym.Range().draw(rng) for _ in range(4)]
    actions = rng.uniform(-1, 1, (20, 4))
    vector = gym.VectorLinkEnv(4, steps=20)
    observed = [vector.reset(options={"links": links})[0]]
    observed += [vector.step(action)[0] for action in actions]
    for place, link in enumerate(links):
        env = gym.LinkEnv(steps=20)
        alone = [env.reset(options={"link": link})[0]]
        alone += [env.step(action[place : place + 1])[0] for action in actions]
        assert np.array_equal(np.array(observed)[:, place], np.array(alone))


def test_an_episode_that_ended_begins_anew_in_the_next_step() -> None:
    env = gym.VectorLinkEnv(2, steps=3)
    env.reset(seed=1)
    ends = [env.step(np.ones(2))[1:4] for _ in range(5)]
    assert [list(truncated) for _, _, truncated in ends] == [[False] * 2] * 2 + [[True] * 2] + [[False] * 2] * 2
    assert list(ends[3][0]) == [0.0, 0.0] and not any(terminated.any() for _, terminated, _ in ends)


def test_a_window_that_grows_fills_the_queue_and_one_that_shrinks_the_pipe_not() -> None:
    def end(action: float) -> dict[str, float]:
        env = gym.LinkEnv(steps=60)
        env.reset(seed=1, options={"link": LINK})
        return [env.step(np.array([action]))[4] for _ in range(40)][-1]

    large, small = end(1.0), end(-1.0)
    assert large["utilisation"] > 0.7 and large["queue_delay_s"] > 0.02
    assert small["utilisation"] < 0.1 and small["queue_delay_s"] < 0.001
    assert small["cwnd"] == 2


def test_a_controller_by_its_name_does_as_it_does_in_a_scenario() -> None:
    cubic = learn.evaluate("cubic", [LINK], steps=500, warm_up=100)
    run = weir.run(
        {
            "bottleneck": {"rate": "20mbit", "rtt": "40ms", "qdisc": "pfifo limit 66p"},
            "flow": [{"stack": "tcp", "controller": "cubic", "duration": "20s"}],
            "measure": {"from": "4s"},
        }
    )
    assert cubic.queue_delay_s == pytest.approx(run.queues["sojourn_mean_ms"][0] / 1e3, rel=0.15)
    # Goodput: payload over wire bytes is 0.956.
    assert cubic.utilisation == pytest.approx(run.flows["goodput_bps"][0] / 20e6, rel=0.05)


def test_what_cannot_be_is_refused() -> None:
    env = gym.LinkEnv()
    for link, words in [
        ({"qdisc": "pfifu"}, "did you mean 'pfifo'"),
        ({"rate_bps": 0.0}, "rate_bps: 0"),
        ({"loss": 1.5}, "loss: 1.5"),
        ({"rivals": ["qubic"]}, "did you mean 'cubic'"),
        ({"controller": "qubic"}, "did you mean 'cubic'"),
    ]:
        with pytest.raises(weir.ScenarioError, match=words):
            env.reset(options={"link": LINK | link})
    with pytest.raises(ValueError, match="reset each link"):
        gym.VectorLinkEnv(2)._links.links.step([0.0, 0.0])


def test_a_policy_learns_to_beat_cubics_delay_on_links_that_it_has_not_seen() -> None:
    rewards: list[float] = []
    slow = gym.Range(rate_bps=(1e6, 4e6), rtt_s=(0.03, 0.1), buffer_bdp=(1.0, 4.0))
    policy = learn.train(slow, generations=8, tasks=6, steps=60, told=lambda _, reward, __: rewards.append(reward))
    assert rewards[-1] > rewards[0]
    links = learn.held_out(12, slow)
    learned, cubic = (learn.evaluate(one, links, steps=120, warm_up=40) for one in (policy, "cubic"))
    assert learned.queue_delay_s < 0.6 * cubic.queue_delay_s, (learned, cubic)
    assert learned.utilisation > 0.9 * cubic.utilisation, (learned, cubic)
    assert learn.train(slow, generations=1, tasks=2, steps=5) == learn.train(slow, generations=1, tasks=2, steps=5)
