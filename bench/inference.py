"""Learning machines: python bench/inference.py [passive active random explore noise] [--seeds 10] [--processes N].

Prints one JSON object a line: what was tried, how often the machines were exact, and CPU seconds. Rivals are those of
AALpy in the same run: RPNI and EDSM on the same log, KV and L# on the same team, with an oracle that knows the truth.
"""

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import median

import hocket as hk
from hocket.errors import HocketError
from hocket.inference.logs import Attempt, Episode, Log

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import hidden_teams as hidden

PASSIVE = {
    "buttons": 120, "warehouse": 120, "rooms": 120, "four-buttons": 120, "crew": 60, "drawbridge": 120,
    "pass-the-room": 60, "rendezvous-10": 110, "rendezvous-20": 300,
}  # fmt: skip
ACTIVE = ("pass-the-room", "four-buttons", "warehouse", "buttons", "rooms", "crew", "drawbridge", "rendezvous-3",
          "rendezvous-10")  # fmt: skip
EXPLORE = ("buttons", "warehouse", "drawbridge", "rooms", "pass-the-room", "rendezvous-2", "rendezvous-3")
NOISY = {"pass-the-room": 30, "four-buttons": 40, "warehouse": 60}
SMALL = 100  # team states up to which AALpy is asked
TEAMS = 500
LARGEST_JOINT = 20_000  # states

Row = dict[str, object]


def timed(work: Callable[[], object]) -> tuple[object, float]:
    """Measure CPU seconds."""
    begin = time.process_time()
    return work(), round(time.process_time() - begin, 2)


def knows_of(team: hk.Composition) -> dict[str, tuple[str, ...]]:
    return {agent: tuple(part.events) for agent, part in team.parts.items()}


def passive(job: tuple[str, int]) -> Row:
    """Infer a built-in task from random episodes, with refusals."""
    name, seed = job
    team, episodes = hidden.composition(hk.load_task(name)), PASSIVE[name]
    log = hidden.random_log(team, episodes, seed, length=150, forward=name.startswith("rendezvous-"))
    answer, seconds = timed(lambda: hk.infer(log, knows_of(team)))
    row = {"task": name, "seed": seed, "episodes": episodes, "exact": is_exact(team, answer), "cpu": seconds}
    if team.most_states <= SMALL * 100 and len(hidden.reachable(team)) <= SMALL:
        row |= aalpy_passive(team, log)
    return row


def is_exact(team: hk.Composition, answer: hk.Inferred) -> bool:
    """Compare teams by a joint search; where there are too many states, local machine by local machine."""
    if team.reachable(LARGEST_JOINT) is None:
        parts = zip(team.parts.values(), answer.machines.values(), strict=True)
        return all(hk.distinguish(hk.minimize(part), hk.minimize(machine)) is None for part, machine in parts)
    return hidden.difference(team, answer.team) is None


def active(job: tuple[str, int]) -> Row:
    """Learn a built-in task by asking, after one demonstration."""
    name, seed = job
    team = hidden.composition(hk.load_task(name))
    demonstration = hidden.demonstration(team, seed)
    (answer, asked), seconds = timed(lambda: hidden.learn(team, knows_of(team), demonstration, seed=seed))
    before = sum(trial.purpose != "random" for trial in asked) + demonstration.attempts
    row = {"task": name, "seed": seed, "attempts": before, "random": len(asked) + demonstration.attempts - before}
    row |= {"exact": is_exact(team, answer), "cpu": seconds}
    if seed == 0 and team.most_states <= SMALL * 100 and len(hidden.reachable(team)) <= SMALL:
        row |= aalpy_active(team)
    return row


def random_team(job: tuple[str, int]) -> Row:
    """Learn a random decomposable team by asking."""
    _, seed = job
    team = hidden.random_team(Random(1_000_000 + seed))
    (answer, asked), seconds = timed(
        lambda: hidden.learn(team, knows_of(team), hidden.demonstration(team, seed), seed=seed)
    )
    return {"task": "random", "seed": seed, "attempts": len(asked), "exact": is_exact(team, answer), "cpu": seconds}


def explore(job: tuple[str, int]) -> Row:
    """Explore a built-in task on its map, then train with what was learnt and with the truth."""
    name, seed = job
    explored, seconds = timed(lambda: hk.explore(name, seed=seed))
    team = hidden.composition(hk.load_task(name))
    row = {"task": name, "seed": seed, "steps": explored.steps, "exact": is_exact(team, explored.answer)}
    row |= {"last change": explored.history[-1][0], "within 1,500": explored.steps <= 1_500, "cpu": seconds}
    if seed == 0:
        for title, task in (("learnt", explored.task), ("true", hk.load_task(name))):
            runs = hk.train(task, seeds=3)
            row[f"success, {title} machine"] = [rate.success.value for rate in hk.evaluate(task, runs, episodes=200)]
    return row


def noise(job: tuple[str, int]) -> Row:
    """Infer from a log of which 2 % of the entries are wrong."""
    name, seed = job
    team, rng = hidden.composition(hk.load_task(name)), Random(seed)
    clean = hidden.random_log(team, NOISY[name], seed, length=25)
    episodes = [
        Episode(
            e.name, tuple(a if a.done or rng.random() > 0.02 else Attempt(a.event, not a.accepted) for a in e.attempts)
        )
        for e in clean.episodes
    ]
    try:
        answer, seconds = timed(lambda: hk.infer(Log(tuple(episodes)), knows_of(team), noise=0.02))
    except HocketError as error:
        return {"task": f"{name}, noise 2 %", "seed": seed, "exact": False, "said": str(error), "cpu": 60.0}
    return {"task": f"{name}, noise 2 %", "seed": seed, "exact": is_exact(team, answer), "cpu": seconds}


def reward(job: tuple[str, int]) -> Row:
    """Infer from a log that shows rewards only."""
    name, seed = job
    team = hidden.composition(hk.load_task(name))
    log = replace(hidden.random_log(team, 5 * NOISY[name], seed, length=40), observed="reward")
    try:
        answer, seconds = timed(lambda: hk.infer(log, knows_of(team)))
    except HocketError as error:
        return {"task": f"{name}, rewards", "seed": seed, "exact": False, "said": str(error), "cpu": 60.0}
    exact = hidden.difference(team, answer.team, silent=True) is None
    return {"task": f"{name}, rewards", "seed": seed, "exact": exact, "cpu": seconds}


# AALpy: the team as a Mealy machine with outputs accepted, refused and done.


def word_of(attempt: Attempt) -> str:
    return "done" if attempt.done else "accepted" if attempt.accepted else "refused"


def aalpy_passive(team: hk.Composition, log: Log) -> Row:
    """Learn from the same log with RPNI and EDSM."""
    from aalpy.learning_algs import run_EDSM, run_RPNI

    labels = {
        tuple(attempt.event for attempt in episode.attempts[: place + 1]): word_of(attempt)
        for episode in log.episodes
        for place, attempt in enumerate(episode.attempts)
    }
    result: Row = {}
    for name, run in (("RPNI", run_RPNI), ("EDSM", run_EDSM)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what was never tried is left open by them
            model, seconds = timed(lambda run=run: run(list(map(list, labels.items())), "mealy", print_info=False))
        result |= {f"{name} exact": same_as(team, model), f"{name} cpu": seconds}
    return result


def same_as(team: hk.Composition, model: object) -> bool:
    """Compare a Mealy machine with a team by a joint search."""
    seen = {(team.initial, model.initial_state.state_id)}
    queue = [(team.initial, model.initial_state)]
    for state, node in queue:
        for event in team.events if not team.is_final(state) else ():
            end, attempt = hidden.attempt(team, state, event)
            if event not in node.transitions or node.output_fun[event] != word_of(attempt):
                return False
            following = node.transitions[event]
            if (end, following.state_id) not in seen:
                seen.add((end, following.state_id))
                queue.append((end, following))
    return True


def aalpy_active(team: hk.Composition) -> Row:
    """Learn the same team with KV and L#, given an oracle that knows the truth; count the steps of queries."""
    from aalpy.base import SUL, Oracle
    from aalpy.learning_algs import run_KV, run_Lsharp

    class Asked(SUL):
        steps = 0

        def pre(self) -> None:
            self.state = team.initial

        def post(self) -> None:
            pass

        def step(self, event: str) -> str:
            Asked.steps += 1
            self.state, attempt = hidden.attempt(team, self.state, event)
            return word_of(attempt)

    class Truth(Oracle):
        def find_cex(self, hypothesis: object) -> tuple[str, ...] | None:
            seen = {(team.initial, hypothesis.initial_state.state_id)}
            queue = [(team.initial, hypothesis.initial_state, ())]
            for state, node, trace in queue:
                for event in team.events:
                    end, attempt = hidden.attempt(team, state, event)
                    if node.output_fun[event] != word_of(attempt):
                        return (*trace, event)
                    following = node.transitions[event]
                    if (end, following.state_id) not in seen:
                        seen.add((end, following.state_id))
                        queue.append((end, following, (*trace, event)))
            return None

    result: Row = {}
    for name, run in (("KV", run_KV), ("L#", run_Lsharp)):
        Asked.steps = 0
        events, sul = list(team.events), Asked()
        model, seconds = timed(
            lambda run=run, events=events, sul=sul: run(events, sul, Truth(events, sul), "mealy", print_level=0)
        )
        result |= {f"{name} steps": Asked.steps, f"{name} exact": same_as(team, model), f"{name} cpu": seconds}
    return result


KINDS: dict[str, tuple[Callable[[tuple[str, int]], Row], tuple[str, ...]]] = {
    "passive": (passive, tuple(PASSIVE)),
    "active": (active, ACTIVE),
    "random": (random_team, ("random",)),
    "explore": (explore, EXPLORE),
    "noise": (noise, tuple(NOISY)),
    "reward": (reward, tuple(NOISY)),
}


def run_all(kind: str, names: tuple[str, ...], seeds: int, processes: int) -> Iterator[Row]:
    """Run all jobs of a kind."""
    jobs = [(name, seed) for name in names for seed in range(seeds)]
    work = KINDS[kind][0]
    if processes == 1:
        yield from map(work, jobs)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(work, jobs)


def main() -> None:
    """Run what is asked for, and sum it up by task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(KINDS)}; all without any")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--teams", type=int, default=TEAMS, help="random teams")
    parser.add_argument("--tasks", default="", help="only these, separated by commas")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--brief", action="store_true", help="print sums only")
    options = parser.parse_args()
    for kind in options.kinds or KINDS:
        names = tuple(name for name in KINDS[kind][1] if not options.tasks or name in options.tasks.split(","))
        rows: dict[str, list[Row]] = {}
        for row in run_all(kind, names, options.teams if kind == "random" else options.seeds, options.processes):
            rows.setdefault(str(row["task"]), []).append(row)
            if not options.brief:
                print(json.dumps({"kind": kind, **row}), flush=True)
        for name, group in rows.items():
            print(json.dumps({"kind": kind, "task": name, **summed(group)}), flush=True)


def summed(group: list[Row]) -> Row:
    """Count what was exact, and give median and largest numbers."""
    result: Row = {"of": len(group), "exact": sum(bool(row["exact"]) for row in group)}
    result["wrong seeds"] = [row["seed"] for row in group if not row["exact"]]
    for key in ("attempts", "steps", "last change", "cpu"):
        values = [row[key] for row in group if key in row]
        if values:
            result[key] = {"median": round(median(values), 2), "largest": max(values)}
    return result


if __name__ == "__main__":
    main()
