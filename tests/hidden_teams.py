"""Teams whose machines are hidden behind a log or a teacher, and judges of what was learnt of them."""

from collections.abc import Iterator, Mapping, Sequence
from random import Random

import hocket as hk
from hocket.inference.ask import Trial
from hocket.inference.logs import Attempt, Episode, Log


def composition(task: hk.Task) -> hk.Composition:
    """The local reward machines of a task, composed: the truth."""
    return hk.Composition(task.machines)


def random_team(rng: Random) -> hk.Composition:
    """Make a team of two to four machines that share events, and that can complete their task."""
    while True:
        events = [f"e{i}" for i in range(rng.randint(4, 7))]
        agents = [f"A{i}" for i in range(1, rng.randint(2, 4) + 1)]
        knows: dict[str, set[str]] = {agent: set() for agent in agents}
        for event in events:
            for agent in rng.sample(agents, 1 if rng.random() < 0.6 else min(2, len(agents))):
                knows[agent].add(event)
        if not all(knows.values()):
            continue
        team = hk.Composition({agent: _random_machine(rng, sorted(known)) for agent, known in knows.items()})
        if any(team.is_final(state) for state in reachable(team)) and not team.is_final(team.initial):
            return team


def _random_machine(rng: Random, events: Sequence[str]) -> hk.RewardMachine:
    """Make a machine of two to four states, the last of which is final."""
    states = [f"s{i}" for i in range(rng.randint(2, 4))]
    moves = {
        (state, event): rng.choice([other for other in states if other != state])
        for state in states[:-1]
        for event in events
        if rng.random() < 0.6
    }
    return hk.RewardMachine(initial="s0", transitions=moves, final={states[-1]}, events=events, states=states)


def reachable(team: hk.Composition) -> list[tuple[str, ...]]:
    """List the states of a team that it can reach; nothing happens after completion."""
    states = [team.initial]
    for state in states:
        if not team.is_final(state):
            ends = (team.step(state, event) for event in team.events)
            states.extend(end for end in dict.fromkeys(ends) if end is not None and end not in states)
    return states


def attempt(team: hk.Composition, state: tuple[str, ...], event: str) -> tuple[tuple[str, ...], Attempt]:
    """Attempt an event: where it leads, and what is seen of it."""
    end = None if team.is_final(state) else team.step(state, event)
    if end is None:
        return state, Attempt(event, False)
    return end, Attempt(event, True, team.is_final(end))


def random_episode(
    team: hk.Composition, rng: Random, length: int = 60, sensible: float = 0.7, forward: bool = False
) -> list[Attempt]:
    """Attempt events at random, mostly such as are possible, until the task is done.

    `forward`: of these, such as bring the local machines nearer to completion, as in noisy demonstrations.
    """
    state, attempts = team.initial, list[Attempt]()
    distances = [_distances(part) for part in team.parts.values()] if forward else []
    while len(attempts) < length and not team.is_final(state):
        ends = {event: end for event in team.events if (end := team.step(state, event)) is not None}
        to_go = {
            event: sum(far[local] for far, local in zip(distances, end, strict=False)) for event, end in ends.items()
        }
        possible = [event for event in ends if to_go[event] == min(to_go.values())]
        choice = possible if possible and rng.random() < sensible else list(team.events)
        state, seen = attempt(team, state, rng.choice(choice))
        attempts.append(seen)
    return attempts


def _distances(machine: hk.RewardMachine) -> dict[str, int]:
    """Count the events from each state to the nearest final one."""
    far = {state: 0 if state in machine.final else len(machine.states) for state in machine.states}
    for _ in machine.states:
        for (state, _), end in machine.transitions.items():
            far[state] = min(far[state], far[end] + 1)
    return far


def random_log(team: hk.Composition, episodes: int, seed: int, length: int = 60, forward: bool = False) -> Log:
    """Log random episodes."""
    rng = Random(seed)
    rows = (random_episode(team, rng, length, forward=forward) for _ in range(episodes))
    return Log(tuple(Episode(str(number), tuple(attempts)) for number, attempts in enumerate(rows, start=1)))


def demonstration(team: hk.Composition, seed: int) -> Log:
    """Log one episode that completes the task, with what was accepted alone."""
    rng = Random(seed)
    while True:
        attempts = random_episode(team, rng, 5_000, 1.0)
        if attempts and attempts[-1].done:
            return Log((Episode("demonstration", tuple(attempts)),))


class Teacher:
    """A team that answers what it is asked, one attempt at a time."""

    def __init__(self, team: hk.Composition) -> None:
        self.team, self.state = team, team.initial
        self.asked: list[Trial] = []

    def answer(self, trial: Trial) -> str:
        """Attempt what is asked for."""
        self.asked.append(trial)
        if trial.begins:
            self.state = self.team.initial
        self.state, seen = attempt(self.team, self.state, trial.event)
        return "done" if seen.done else "accepted" if seen.accepted else "refused"


def learn(team: hk.Composition, knows: Mapping[str, Sequence[str]], log: Log | None, **options):
    """Learn a team by asking it; also what was asked."""
    teacher, questions = Teacher(team), hk.ask(knows, log, **options)
    answers: Iterator[str] | None = None
    while True:
        try:
            trial = next(questions) if answers is None else questions.send(answers)
        except StopIteration as stop:
            return stop.value, teacher.asked
        answers = teacher.answer(trial)


def difference(one: hk.Composition, other: hk.Composition, silent: bool = False) -> tuple[str, ...] | None:
    """Find a shortest trace after which two teams differ in what they accept or complete, by a joint search.

    `silent`: only completion is seen, and what is refused is ignored.
    """
    begin = (one.initial, other.initial)
    traces: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[str, ...]] = {begin: ()}
    for (left, right), trace in (queue := list(traces.items())):
        if one.is_final(left) != other.is_final(right):
            return trace
        for event in one.events if not one.is_final(left) else ():
            ends = (attempt(one, left, event), attempt(other, right, event))
            if not silent and ends[0][1].accepted != ends[1][1].accepted:
                return (*trace, event)
            pair = (ends[0][0], ends[1][0])
            if pair not in traces:
                traces[pair] = (*trace, event)
                queue.append((pair, traces[pair]))
    return None
