"""Two cooks of JaxMARL's Overcooked share a task, and a small IPPO learns it; everything is compiled by JAX.

Cook 0 takes an onion and puts it into the pot; then cook 1, which knows this event, takes a plate. The reward machines
run inside the compiled loop, as arrays with a row for each copy of the kitchen; only `machines.step` is added to it.

    pip install jaxmarl ".[gym]"
    python examples/overcooked.py
"""

import time
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import jaxmarl
import optax
from jaxmarl.environments.overcooked.common import OBJECT_TO_INDEX

import hocket as hk

COPIES, LENGTH, UPDATES, EPOCHS, BATCHES = 64, 64, 40, 4, 4
DISCOUNT, TRACE, CLIP, ENTROPY, RATE = 0.98, 0.95, 0.2, 0.02, 1e-3

WAY = {("start", "onion"): "carried", ("carried", "pot"): "cooking", ("cooking", "plate"): "ready"}
MACHINE = hk.RewardMachine(initial="start", transitions=WAY, final={"ready"})
KNOWS = {"agent_0": {"onion", "pot"}, "agent_1": {"pot", "plate"}}
SPLIT = hk.decompose(MACHINE, KNOWS, control={"onion": ["agent_0"], "pot": ["agent_0"], "plate": ["agent_1"]})


def conditions(kitchen, info):
    """Compute which conditions hold: [agents, events], in the order onion, pot, plate."""
    onion, plate = (kitchen.agent_inv == OBJECT_TO_INDEX[thing] for thing in ("onion", "plate"))
    pot = jnp.array([info["shaped_reward"]["agent_0"] == 3, False])  # the reward for an onion in the pot
    return jnp.stack([onion, pot, plate], axis=-1)


class Cook(nn.Module):
    """The network that both cooks share: the policy and the values."""

    @nn.compact
    def __call__(self, seen):
        hidden = nn.tanh(nn.Dense(64)(nn.tanh(nn.Dense(128)(seen))))
        return nn.Dense(6)(hidden), nn.Dense(1)(hidden)[..., 0]


class Moment(NamedTuple):
    seen: jax.Array
    action: jax.Array
    chance: jax.Array
    value: jax.Array
    reward: jax.Array
    done: jax.Array
    completed: jax.Array


def make_training():
    env, machines, cook = jaxmarl.make("overcooked", max_steps=LENGTH), hk.gym.batched(SPLIT), Cook()
    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(RATE))

    def see(seen, state):
        flat = jnp.stack([seen[agent].reshape(COPIES, -1) / 5.0 for agent in env.agents], axis=1)
        return machines.observe(flat, state)  # [copies, agents, features], with the machine states appended

    def act(carry, key):
        params, kitchen, seen, state = carry
        keys = jax.random.split(key, 2 * COPIES + 1)
        logits, value = cook.apply(params, seen)
        action = jax.random.categorical(keys[-1], logits)
        chance = jnp.take_along_axis(nn.log_softmax(logits), action[..., None], axis=-1)[..., 0]
        acts = {agent: action[:, place] for place, agent in enumerate(env.agents)}
        _, kitchen, _, over, info = jax.vmap(env.step_env)(keys[:COPIES], kitchen, acts)
        before = state.agents
        state, _, reward, completed = machines.step(state, jax.vmap(conditions)(kitchen, info))
        advanced = (state.agents != before).any(-1)  # a small reward for each event
        done = completed | over["__all__"]
        fresh = jax.vmap(env.reset)(keys[COPIES:-1])[1]
        kitchen = jax.tree.map(
            lambda new, old: jnp.where(done.reshape(-1, *[1] * (old.ndim - 1)), new, old), fresh, kitchen
        )
        state = machines.restart(state, done)
        after = see(jax.vmap(env.get_obs)(kitchen), state)
        paid = jnp.broadcast_to((reward + 0.2 * advanced)[:, None], action.shape)
        return (params, kitchen, after, state), Moment(seen, action, chance, value, paid, done, completed)

    def loss(params, batch, gains, targets):
        logits, value = cook.apply(params, batch.seen)
        chances = nn.log_softmax(logits)
        ratio = jnp.exp(jnp.take_along_axis(chances, batch.action[..., None], axis=-1)[..., 0] - batch.chance)
        gains = (gains - gains.mean()) / (gains.std() + 1e-8)
        policy = -jnp.minimum(ratio * gains, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * gains).mean()
        entropy = -(jnp.exp(chances) * chances).sum(-1).mean()
        return policy + 0.5 * jnp.square(value - targets).mean() - ENTROPY * entropy

    def update(runner, key):
        carry, moments_of = runner[:4], runner[4]
        keys = jax.random.split(key, EPOCHS + 1)
        carry, moments = jax.lax.scan(act, carry, jax.random.split(keys[0], LENGTH))
        last = cook.apply(carry[0], carry[2])[1]

        def back(later, moment):
            gain, value = later
            keep = 1.0 - moment.done[:, None]
            gain = moment.reward + DISCOUNT * value * keep - moment.value + DISCOUNT * TRACE * keep * gain
            return (gain, moment.value), gain

        gains = jax.lax.scan(back, (jnp.zeros_like(last), last), moments, reverse=True)[1]
        data = (moments, gains, gains + moments.value)

        def learn(learner, key):
            order = jax.random.permutation(key, LENGTH).reshape(BATCHES, -1)

            def once(learner, rows):
                params, memory = learner
                slope = jax.grad(loss)(params, *jax.tree.map(lambda part: part[rows], data))
                change, memory = optimizer.update(slope, memory)
                return (optax.apply_updates(params, change), memory), None

            return jax.lax.scan(once, learner, order)[0], None

        (params, memory), _ = jax.lax.scan(learn, (carry[0], moments_of), keys[1:])
        return (params, *carry[1:], memory), (moments.completed.sum(), moments.done.sum())

    def start(key):
        seen, kitchen = jax.vmap(env.reset)(jax.random.split(key, COPIES))
        state = machines.reset(COPIES, like=kitchen.agent_inv)
        first = see(seen, state)
        params = cook.init(key, first)
        return (params, kitchen, first, state, optimizer.init(params))

    return start, jax.jit(lambda runner, key: jax.lax.scan(update, runner, jax.random.split(key, UPDATES)))


def main():
    start, train = make_training()
    begun = time.perf_counter()
    _, (completed, episodes) = jax.block_until_ready(train(start(jax.random.key(0)), jax.random.key(1)))
    shares = [
        float(part[0].sum() / part[1].sum())
        for part in zip(jnp.split(completed, 4), jnp.split(episodes, 4), strict=True)
    ]
    print(
        f"{UPDATES * LENGTH * COPIES:,} steps of the kitchen in {time.perf_counter() - begun:.0f} s, compiling included"
    )
    print("completed, by quarter of training:", ", ".join(f"{share:.0%}" for share in shares))


if __name__ == "__main__":
    main()
