"""Learn a map once, then plan tasks of many kinds on it without a step: how many are completed?

    python bench/generality.py [--tasks 1000] [--only machines ltlf declare tokens] [--processes 1]
                               [--out generality.jsonl]

machines: random machines for the team of three of *buttons*, on its map.
ltlf:     random formulas of LTLf for one agent in an office, over the places that it comes to.
declare:  random sets of DECLARE constraints for two agents in the same office.
tokens:   the maps of TokenEnv, with automata of the kinds Reach (R), ReachAvoid (RA) and ReachAvoidDerived (RAD) as
          described and published by Yalcinkaya, Vazquez-Chanlatte, Shah, Krasowski and Seshia, "Automata-Conditioned
          Cooperative Multi-Agent Reinforcement Learning" (arXiv 2511.02304; packages dfax, dfa-gym and acc-marl):
          at most 5 states and 200 steps in distribution, 10 and 400 out of it, one automaton for each agent, some
          of which are trivial. As there, agents act by all positions and all automata: two are planned jointly
          (`optimal-team` on the surveyed world), four two by two, one pair after the other.

Every map is surveyed once (`hk.survey`), and the steps are counted. Success is that of greedy teams.
Every task has a random stream of its own. Rows grow evenly: a share of failures of 2 % takes 2.5 times as many tasks to
exclude as one of 5 %. With --out each task is a line that is written when it is done, and tasks that are there are not
played again.
Tasks that cannot be completed are left out where that is known: formulas that one agent never completes in 20 episodes
with the optimal policy.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import hocket as hk
from hocket.learn.testing import recording
from hocket.statistics import mean_share
from hocket.task.grid import ACTIONS
from hocket.task.tables import compile_task
from hocket.task.tokens import MAPS
from ltlf_oracle import random_formula, write

OFFICE = """
#############
#A..#...#..B#
#...#.o.....#
#...#...#...#
##.####.##.##
#...#.c.#...#
#.m....d....#
#...#...#...#
##.###.###.##
#...#...#...#
#...........#
#D..#.e.#..C#
#############
"""
PLACES = {"A": "A", "B": "B", "C": "C", "D": "D", "c": "coffee", "m": "mail", "o": "office", "d": "desk", "e": "exit"}
TEMPLATES = (
    "response",
    "precedence",
    "succession",
    "responded_existence",
    "co_existence",
    "choice",
    "not_chain_response",
)
KINDS = ("R", "RA", "RAD")
MOST_PAIRS = 40  # that are planned for a team of four
DONE = hk.RewardMachine(initial="done", transitions={}, final={"done"})
AIMS = {"in": 0.98, "out": 0.95}  # success in distribution and out of it
SIZES = {"in": (5, 200), "out": (10, 400)}  # most states of an automaton, and steps of an episode


def plan(task: hk.Task, world: hk.WorldModel, episodes: int, **settings) -> tuple[float, float, float]:
    """Plan a task without a step; return success, mean steps, and the CPU seconds that planning took."""
    begin = time.process_time()
    run = hk.train(task, world=world, steps=0, seeds=1, settings={"test_episodes": 0, **settings}, threads=1)[0]
    took = time.process_time() - begin
    played = hk.evaluate(task, run.policy, episodes=episodes)[0]
    return played.success.value, played.mean_steps, took


# Random tasks.


def team_tasks(rng: random.Random) -> Iterator[hk.Task]:
    """Make tasks on the map of buttons: six events of three agents, and a machine made of parts."""
    task = hk.load_task("buttons")
    rooms = {"A1": range(3), "A2": range(4, 7), "A3": range(8, 10)}  # columns of the rooms in which agents start
    while True:
        spots = {}
        for number in range(6):
            agent = rng.choice(list(rooms))
            spots[f"e{number}"] = agent, task.grid.cell(rng.randrange(7), rng.choice(rooms[agent]))
        places = {event: frozenset({cell}) for event, (_, cell) in spots.items()}
        yield hk.Task(
            name="random",
            grid=hk.Grid(task.grid.rows, task.grid.columns, task.grid.walls, places),
            agents={agent: hk.Agent(old.start, [*spots]) for agent, old in task.agents.items()},
            events={event: {agent: hk.Condition(event)} for event, (agent, _) in spots.items()},
            machine=random_machine(rng, [*spots]),
        )


def random_machine(rng: random.Random, events: list[str]) -> hk.RewardMachine:
    """Make a machine in which every event has a part once."""
    parts = list(events)
    rng.shuffle(parts)
    while len(parts) > 1:
        taken = [parts.pop() for _ in range(min(len(parts), rng.randint(2, 3)))]
        kind = rng.choice((hk.sequence, hk.any_order, hk.either))
        parts.insert(0, kind(*taken))
    return parts[0]


def office_tasks(rng: random.Random, language: str) -> Iterator[hk.Task]:
    """Make tasks in the office: a formula for one agent, or constraints for two."""
    cells = list(enumerate(OFFICE.strip().splitlines()))
    grid = hk.Grid(
        len(cells),
        len(cells[0][1]),
        frozenset(row * len(line) + i for row, line in cells for i, mark in enumerate(line) if mark == "#"),
        {PLACES[mark]: {row * len(line) + i} for row, line in cells for i, mark in enumerate(line) if mark in PLACES},
    )
    names = list(PLACES.values())
    while True:
        if language == "ltlf":
            text = write(random_formula(rng, rng.sample(names, 4), rng.randint(2, 7)))
            agents = {"A1": hk.Agent(grid.cell(7, 5), names)}
            events = {name: {"A1": hk.Condition(name)} for name in names}
            build: Callable[[], hk.RewardMachine] = partial(hk.from_ltlf, text, names)
        else:
            chosen = rng.sample(names, 5)
            agent_of = {name: f"A{1 + (name in chosen[:3])}" for name in chosen}
            text = [f"{rng.choice(TEMPLATES)}({', '.join(rng.sample(chosen, 2))})" for _ in range(rng.randint(1, 3))]
            text.append(f"existence({rng.choice(chosen)})")
            agents = {f"A{i}": hk.Agent(grid.cell(7, 3 + 4 * i), chosen) for i in (1, 2)}
            events = {name: {agent: hk.Condition(name)} for name, agent in agent_of.items()}
            build = partial(hk.from_declare, text, chosen)
        try:
            machine = build()
            used = {event for _, event in machine.transitions}
            agents = {
                agent: replace(each, knows=[event for event in each.knows if event in used])
                for agent, each in agents.items()
            }
            events = {event: conditions for event, conditions in events.items() if event in used}
            machine = hk.RewardMachine(initial=machine.initial, transitions=machine.transitions, final=machine.final)
            task = hk.Task(name=str(text)[:60], grid=grid, agents=agents, events=events, machine=machine, slip=0.02)
            optimal = hk.train(task, "optimal", 1, 1, {"test_every": 1, "test_episodes": 0}, threads=1)
            if language == "declare" or hk.evaluate(task, optimal, episodes=20)[0].success.value:
                yield task
        except hk.HocketError:  # nothing to do, no way to say it on a map, or a step would never end
            continue


# Tokens.


def automaton(rng: random.Random, kind: str, most: int, tokens: int = 10) -> tuple[list[list[int]], set[int]]:
    """Draw an automaton over tokens, with its accepting states; state 0 is initial, and accepting states are kept."""
    size = rng.randint(2 if kind == "R" else 3, most)
    last = size - 1 if kind == "R" else size - 2  # the accepting one; after it, the one that has failed
    rows = [[state] * tokens for state in range(size)]
    for state in range(last):
        order = rng.sample(range(tokens), tokens)
        rows[state][order[0]] = state + 1
        if kind == "RA" or (kind == "RAD" and rng.random() < 0.5):
            rows[state][order[1]] = size - 1
        for token in order[1:] if kind == "R" else order[2:]:
            if rng.random() > 0.9:
                rows[state][token] = state + 1 if kind == "R" or rng.random() < 0.5 else size - 1
    final = {last}
    for _ in range(rng.randint(0, 5) if kind == "RAD" else 0):
        reached = sorted(reach(rows))
        changed = [list(row) for row in rows]
        changed[rng.choice(reached)][rng.randrange(tokens)] = rng.choice(reached)
        changed[last] = [last] * tokens
        if last in reach(changed):
            rows = changed
    return rows, final


def reach(rows: list[list[int]]) -> set[int]:
    """List the states that can be reached."""
    seen, waiting = {0}, [0]
    while waiting:
        fresh = {*rows[waiting.pop()]} - seen
        seen |= fresh
        waiting += fresh
    return seen


def token_machines(rng: random.Random, name: str, kind: str, most: int) -> Iterator[dict[str, hk.RewardMachine]]:
    """Draw the automata of a team on a map of TokenEnv, of which some are trivial, as machines over tokens."""
    everyone = "ABCD"[: int(name[-1])]
    while True:
        idle = {*rng.sample(everyone, rng.randrange(len(everyone)))}
        yield {agent: token_machine(*automaton(rng, kind, most), agent in idle) for agent in everyone}


def token_machine(rows: list[list[int]], final: set[int], is_trivial: bool) -> hk.RewardMachine:
    """Write an automaton as a machine."""
    moves = {
        (str(state), str(token)): str(target)
        for state in reach(rows) - final
        for token, target in enumerate(rows[state])
        if target != state
    }
    if is_trivial:
        return hk.RewardMachine(initial="0", transitions={}, final=["0"])
    return hk.minimize(hk.RewardMachine(initial="0", transitions=moves, final=map(str, final)))


def plan_tokens(name: str, machines: dict[str, hk.RewardMachine], world: hk.WorldModel, most: int) -> float:
    """Plan a team jointly, four agents two by two: one pair after the other, while the others stand still.

    Who is done may help others, in another pair. Return whether the whole team completes its task when it is played in
    time: with some sequence of pairs, of those that are tried.
    """
    whole, pairs, tried = hk.token_task(name, machines), [*combinations(machines, 2)], 0

    def complete(played: list[dict[str, str]]) -> bool:
        """Go on after some steps, with each of the pairs in turn."""
        nonlocal tried
        episode = hk.TeamEpisode(whole, strict=False)
        for actions in played:
            episode.step({agent: actions.get(agent, "stay") for agent in machines})
        waiting = {agent for agent in machines if not episode.finished[agent]}
        if not waiting or any(agent in waiting for actions in played for agent in actions):  # all are done, or in vain
            return episode.completed
        for pair in sorted(pairs, key=lambda pair: len(waiting & {*pair}), reverse=True):
            if tried == MOST_PAIRS or not waiting & {*pair}:
                continue
            tried += 1
            parts = {agent: machines[agent] if agent in waiting else DONE for agent in pair}
            steps = [*play_pair(hk.token_task(name, parts, starts=dict(episode.cells)), world, most - len(played))]
            if steps and complete(played + steps):
                return True
        return False

    return float(complete([]))


def play_pair(task: hk.Task, world: hk.WorldModel, most: int) -> Iterator[dict[str, str]]:
    """Plan two agents jointly without a step, and list what they do in an episode; nothing where they fail."""
    settings = {"test_episodes": 0, "max_episode_steps": max(1, most)}
    try:
        (run,) = hk.train(task, "optimal-team", 1, 0, settings, world=world, threads=1)
    except hk.HocketError:  # an event cannot happen, as somebody stands in the way
        return
    player, record = hk.LEARNERS[run.learner].player(compile_task(task), 1.0, most), recording(most, len(task.agents))
    for step in range(max(0, player.play(run.policy.arrays, 0, 0, True, record))):
        yield {agent: ACTIONS[action] for agent, action in zip(task.agents, record.action[step].tolist(), strict=True)}


# Measuring.


class Row(NamedTuple):
    """Tasks of a kind on a map that was surveyed."""

    name: str
    survey: int  # steps that it took
    aim: float  # success that the tasks are to show
    play: Callable[[random.Random], tuple[float, float]]  # draws and plans: success, and CPU seconds of planning


def plan_first(
    draw: Callable[[random.Random], Iterator[hk.Task]], world: hk.WorldModel, rng: random.Random
) -> tuple[float, float]:
    """Draw a task and plan it."""
    success, _, took = plan(next(draw(rng)), world, 20)
    return success, took


def plan_tokens_first(
    name: str, kind: str, states: int, most: int, world: hk.WorldModel, rng: random.Random
) -> tuple[float, float]:
    """Draw a team among tokens and plan it; what writing the task and playing it takes counts as planning."""
    machines, begin = next(token_machines(rng, name, kind, states)), time.process_time()
    success = plan_tokens(name, machines, world, most)
    return success, time.process_time() - begin


def list_rows(only: Sequence[str], maps: Sequence[str], kinds: Sequence[str], seed: int) -> Iterator[Row]:
    """Survey the maps, and list what is asked for."""
    draws = {"machines": team_tasks, "ltlf": partial(office_tasks, language="ltlf")}
    draws["declare"] = partial(office_tasks, language="declare")
    for what in (what for what in draws if what in only):
        survey = hk.survey(next(draws[what](random.Random(seed))))
        yield Row(what, survey.steps, AIMS["in"], partial(plan_first, draws[what], survey.world))
    for name in maps if "tokens" in only else ():
        survey = hk.survey(name)
        for kind, (where, (states, steps)) in product(kinds, SIZES.items()):
            play = partial(plan_tokens_first, name, kind, states, steps, survey.world)
            yield Row(f"{name} {kind} {where}", survey.steps, AIMS[where], play)


def describe(row: Row, tasks: list[dict]) -> str:
    """Say how many tasks of a row are completed, with limits of 95 % (Clopper and Pearson's, over tasks)."""
    share, took = mean_share([task["success"] for task in tasks]), [1000 * task["seconds"] for task in tasks]
    limits = f"({share.low or 0:.4f} to {share.high or 1:.4f})"
    counted = f"{row.name:28} {len(tasks):6,} tasks  success {share.value:.4f} {limits}"
    planning = f"planning {np.mean(took):.0f} ms (median {np.median(took):.0f})"
    return f"{counted}  steps of the world {row.survey:6,}  {planning}"


@cache
def rows_here(what: tuple[str, ...], maps: tuple[str, ...], kinds: tuple[str, ...], seed: int) -> dict[str, Row]:
    """List what is asked for, once in each process."""
    rows = {row.name: row for row in list_rows(what, maps, kinds, seed)}
    for row in {row.name[:5]: row for row in rows.values()}.values():
        row.play(random.Random(seed))  # the first task of a kind compiles
    return rows


def play_task(asked: tuple, name: str, number: int) -> dict[str, object]:
    """Draw a task of a row, plan it and play it."""
    success, seconds = rows_here(*asked)[name].play(random.Random(f"{asked[-1]} {name} {number}"))
    return {"row": name, "seed": asked[-1], "number": number, "success": success, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=1_000)
    parser.add_argument("--only", nargs="*", default=["machines", "ltlf", "declare", "tokens"])
    parser.add_argument("--maps", nargs="*", default=[*MAPS])
    parser.add_argument("--kinds", nargs="*", default=KINDS, help="of automata")
    parser.add_argument("--seconds", type=float, default=np.inf, help="after which no task is begun")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None, help="a file of lines, which is continued")
    options = parser.parse_args()
    asked = tuple(options.only), tuple(options.maps), tuple(options.kinds), options.seed
    end, rows = time.monotonic() + options.seconds, rows_here(*asked)  # compiles before processes share the cache
    tasks: dict[str, list[dict]] = {name: [] for name in rows}
    if options.out is not None and options.out.exists():
        for line in map(json.loads, options.out.read_text(encoding="utf-8").splitlines()):
            if line["seed"] == options.seed and line["row"] in tasks:
                tasks[line["row"]].append(line)
    done = {(line["row"], line["number"]) for lines in tasks.values() for line in lines}
    left = [(name, number) for name, number in product(rows, range(options.tasks)) if (name, number) not in done]
    left.sort(key=lambda task: -task[1] * np.log(rows[task[0]].aim))
    with ProcessPoolExecutor(options.processes, multiprocessing.get_context("spawn")) as pool:
        while left and time.monotonic() < end:
            batch, left = left[: 4 * options.processes], left[4 * options.processes :]
            for line in pool.map(partial(play_task, asked), *zip(*batch, strict=True)):
                tasks[line["row"]].append(line)
                if options.out is not None:
                    with options.out.open("a", encoding="utf-8") as lines:
                        lines.write(json.dumps(line) + "\n")
    for name, row in rows.items():
        if tasks[name]:
            print(describe(row, tasks[name]))


if __name__ == "__main__":
    main()
