"""Episodes: Theorem 2 along the way, the same from the same seed, what agents can reach, and the random numbers."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations, product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hocket as hk
from hocket.random import (
    ACTION_BITS,
    CHANCE_BITS,
    INDIVIDUAL,
    TEAM,
    TRAINING,
    action_draw,
    number,
    slip_draw,
    stream_key,
    sync_draw,
    threshold,
)
from hocket.task.catalogue import built_in_tasks
from hocket.task.episode import InvariantError, TeamStep
from hocket.task.memory import memory_of
from hocket.task.settling import propose
from hocket.task.verdict import Verdict
from searches import search
from strategies import project_trace
from task_strategies import Guide, few, many, pairs, random_task, seeds, some, tasks

BUILT_IN = [*built_in_tasks(), "rendezvous-1", "rendezvous-2", "rendezvous-3"]


def play(task: hk.Task, steps: int, seed: int = 0, number: int = 0) -> Iterator[tuple[hk.TeamEpisode, TeamStep]]:
    """Play a strict episode with actions that mostly lead on."""
    episode = hk.TeamEpisode(task, seed, number, strict=True)
    guide = Guide(task, Random(seed))
    for _ in range(steps):
        yield episode, episode.step(guide.actions(episode))


# Theorem 2.


def run_team(machine: hk.RewardMachine | hk.Composition, trace: Iterable[str]) -> object:
    """Run a team machine of either kind; an event that it does not have here is an error."""
    state = machine.initial
    for event in trace:
        state = machine.step(state, event)
        assert state is not None
    return state


def assert_theorem_2(task: hk.Task, steps: int, seed: int) -> None:
    """Require that the machines have run on what happened, and that agents' states stand for the team's."""
    trace: list[str] = []
    for episode, step in play(task, steps, seed):
        trace += step.events
        assert step.team_state == run_team(task.machine, trace)
        for index, (name, machine) in enumerate(task.machines.items()):
            run = machine.run(project_trace(trace, task.knows[name]), undefined="blocking")
            assert step.states[name] == run.state
            assert episode.finished[name] == run.completed
            if isinstance(task.machine, hk.RewardMachine):
                assert step.team_state in machine.members[run.state]
            elif machine == task.machine.parts[name]:
                assert step.team_state[index] == run.state
            else:  # it knows more than its part, so its machine is that of the composition with all its states
                assert "|".join(step.team_state) in machine.members[run.state]
        assert step.done == is_final(task.machine, step.team_state)


def is_final(machine: hk.RewardMachine | hk.Composition, state: object) -> bool:
    """Say whether a team machine of either kind has completed its task."""
    return machine.is_final(state) if isinstance(machine, hk.Composition) else state in machine.final


@some
@given(task=tasks())
def test_each_agents_state_stands_for_the_teams_along_every_episode(task):
    assert_theorem_2(task, 60, seed=0)


@pytest.mark.parametrize("name", BUILT_IN)
def test_each_agents_state_stands_for_the_teams_along_episodes_of_built_in_tasks(name):
    assert_theorem_2(hk.load_task(name), 300, seed=4)


@few
@given(pair=pairs())
def test_a_composition_and_the_machine_that_lists_its_states_make_the_same_episode(pair):
    lazy, listed = (hk.TeamEpisode(task, seed=2) for task in pair)
    guide = Guide(pair.lazy, Random(2))
    for _ in range(60):
        actions = guide.actions(lazy)
        one, other = lazy.step(actions), listed.step(actions)
        assert one.cells == other.cells
        assert one.events == other.events
        assert one.done == other.done
        assert "|".join(one.team_state) == other.team_state


def test_the_team_is_done_iff_its_machine_is_final_and_both_occur():
    """Theorem 1, on what happens; the other tests say little unless some teams finish and some do not."""
    seen = Counter()
    for seed in search(30):
        task = random_task(Random(seed))
        for _, step in play(task, 60, seed):
            assert step.done == is_final(task.machine, step.team_state)
            seen[step.done] += 1
    assert min(seen[True], seen[False]) > 200


def test_agents_of_a_composition_may_know_more_than_their_parts():
    task = hk.load_task("rendezvous-2")
    told = task.with_knows({"A1": (*task.knows["A1"], "g2")})
    assert told.decomposition.ok
    assert_theorem_2(told, 60, seed=0)


def test_the_states_of_a_composition_may_have_names_that_look_joined():
    parts = {
        name: hk.RewardMachine(initial="0", transitions={("0", event): "0|0"}, final={"0|0"})
        for name, event in (("A1", "a"), ("A2", "b"))
    }
    parts["A3"] = hk.RewardMachine(initial="0", transitions={}, final={"0"})
    task = line_task(
        hk.compose(*parts.values()), {"a": {"A1": "x"}, "b": {"A2": "x"}}, {"A1": "a", "A2": "b", "A3": "a"}
    )
    lazy = replace(task, machine=hk.Composition(parts))
    plan = {"A1": ["stay", "right"], "A2": ["right", "stay"], "A3": ["stay", "stay"]}
    assert follow(task, plan).done
    assert follow(lazy, plan).done


def test_a_team_machine_may_have_been_minimised():
    moves = {("0", "a"): "1", ("0", "b"): "2", ("1", "c"): "3", ("2", "c"): "3"}
    machine = hk.minimize(hk.RewardMachine(initial="0", transitions=moves, final={"3"}))
    task = line_task(machine, {"a": {"A1": "x"}, "b": {"A1": "y"}, "c": {"A1": "z"}}, {"A1": "abc", "A2": "c"})
    assert task.decomposition.ok
    for _, step in play(task, 60):
        assert step.done == (step.team_state == "3")


# Events that happen at once.


def test_events_that_happen_at_once_may_be_applied_in_any_order():
    together = 0
    for seed in search(60):
        task = random_task(Random(seed))
        before = task.machine.initial
        for _, step in play(task, 60, seed):
            for events in step.rounds:
                together += len(events) > 1
                ends = set()
                for order in permutations(events):
                    state = before
                    for event in order:
                        state = task.machine.step(state, event)
                    ends.add(state)
                (before,) = ends
            assert before == step.team_state
    assert together > 3


@pytest.mark.parametrize("name", ["buttons", "rendezvous-3"])
def test_whatever_can_happen_at_once_may_be_applied_in_any_order(name):
    """Try every team state and every set of events of which no agent knows two, whether or not it is ever played."""
    task = hk.load_task(name)
    machine = task.machine if isinstance(task.machine, hk.RewardMachine) else task.machine.machine()
    sets = 0
    for state in machine.states:
        enabled = [event for event in machine.events if machine.step(state, event) is not None]
        for first, second in permutations(enabled, 2):
            if any({first, second} <= set(own) for own in task.knows.values()):
                continue
            sets += 1
            one, other = (machine.step(machine.step(state, e) or "", f) for e, f in ((first, second), (second, first)))
            assert one == other is not None
    assert sets > 0


# What the check is for: tasks that do not split.

PLACES = {"w": 0, "x": 1, "y": 2, "z": 3}


def line_task(
    machine: hk.RewardMachine,
    events: Mapping[str, Mapping[str, str]],
    knows: Mapping[str, str],
    starts: Mapping[str, int] | None = None,
) -> hk.Task:
    """Build a task on a line of four cells w, x, y, z, without slips; events are letters."""
    grid = hk.Grid(1, 4, frozenset(), {name: frozenset({cell}) for name, cell in PLACES.items()})
    agents = {name: hk.Agent((starts or {}).get(name, 0), tuple(own)) for name, own in knows.items()}
    conditions = {event: {name: hk.Condition(place) for name, place in own.items()} for event, own in events.items()}
    return hk.Task("line", grid, agents, conditions, machine, slip=0.0)


def follow(task: hk.Task, plan: Mapping[str, Sequence[str]], strict: bool = True) -> hk.TeamEpisode:
    """Play a plan."""
    episode = hk.TeamEpisode(task, strict=strict)
    for actions in zip(*plan.values(), strict=True):
        episode.step(dict(zip(plan, actions, strict=True)))
    return episode


def test_an_event_that_comes_too_early_breaks_the_invariant():
    """Agent 2 does not know that b has to wait for a."""
    machine = hk.RewardMachine(initial="u0", transitions={("u0", "a"): "u1", ("u1", "b"): "u2"}, final={"u2"})
    task = line_task(machine, {"a": {"A1": "x"}, "b": {"A2": "x"}}, {"A1": "a", "A2": "b"})
    assert not task.decomposition.ok
    plan = {"A1": ["stay"], "A2": ["right"]}
    with pytest.raises(InvariantError, match=r"step 1: the agents agreed on \('b',\), which is not the team's"):
        follow(task, plan)
    assert follow(task, plan, strict=False).team_state == "u0"
    told = task.with_knows({"A2": ("a", "b")})
    assert told.decomposition.ok
    assert follow(told, plan).team_state == "u0"


def test_events_that_exclude_each_other_and_happen_at_once_break_the_invariant():
    """Either a or b is possible at first, and the agents cause both in the same step."""
    machine = hk.RewardMachine(initial="u0", transitions={("u0", "a"): "u1", ("u0", "b"): "u2"}, final=())
    task = line_task(machine, {"a": {"A1": "x"}, "b": {"A2": "x"}}, {"A1": "a", "A2": "b"})
    assert not task.decomposition.ok
    with pytest.raises(InvariantError, match="step 1: the team is in u1, which A2 rules out"):
        follow(task, {"A1": ["right"], "A2": ["right"]})


def test_a_part_may_have_states_that_no_trace_reaches():
    lost = hk.RewardMachine(initial="0", transitions={("0", "a"): "1", ("2", "a"): "0"}, final={"1"})
    team = hk.Composition({"A1": lost, "A2": lost})
    agents, events = {"A1": hk.Agent(0, ("a",)), "A2": hk.Agent(0, ("a",))}, {"a": {"A1": hk.Condition()}}
    task = hk.Task("lost", hk.Grid(1, 1), agents, events, team)
    assert hk.TeamEpisode(task).step({"A1": "stay", "A2": "stay"}).done


def test_a_premature_completion_is_followed():
    """Both agents have done their part, in the order that does not complete the task: all are done, the team is not."""
    moves = {("u0", "a"): "u1", ("u0", "b"): "u2", ("u1", "b"): "done", ("u2", "a"): "stuck"}
    machine = hk.RewardMachine(initial="u0", transitions=moves, final={"done"})
    task = line_task(machine, {"a": {"A1": "x"}, "b": {"A2": "x"}}, {"A1": "a", "A2": "b"})
    assert task.decomposition.counterexample.kind == "premature completion"
    episode = follow(task, {"A1": ["stay", "right"], "A2": ["right", "stay"]}, strict=False)
    assert episode.done and episode.team_state == "stuck"
    episode = follow(task, {"A1": ["right", "stay"], "A2": ["stay", "right"]})
    assert episode.done and episode.team_state == "done"


# Seeds.


def record(task: hk.Task, seed: int, number: int = 0, steps: int = 60) -> list[TeamStep]:
    """Play an episode with the actions that it draws itself."""
    episode = hk.TeamEpisode(task, seed, number)
    return [episode.step(episode.random_actions()) for _ in range(steps)]


def record_alone(task: hk.Task, agent: str, seed: int, number: int = 0, steps: int = 60) -> list[object]:
    """Play an agent's episode with the actions that it draws itself."""
    episode = hk.IndividualEpisode(task, agent, seed, number)
    return [episode.step(episode.random_action()) for _ in range(steps)]


@few
@given(task=tasks())
def test_the_same_seed_makes_the_same_episode(task):
    assert record(task, seed=7) == record(task, seed=7)
    for agent in task.agents:
        assert record_alone(task, agent, seed=7) == record_alone(task, agent, seed=7)


def test_other_seeds_and_other_numbers_make_other_episodes():
    task = hk.load_task("rendezvous-3")
    played = [record(task, seed, number) for seed, number in product(range(5), range(5))]
    assert all(one != other for one, other in permutations(played, 2))
    alone = [record_alone(task, agent, seed) for agent, seed in product(task.agents, range(5))]
    assert all(one != other for one, other in permutations(alone, 2))


def test_agents_of_a_team_draw_apart():
    """Three agents that start together part at once."""
    task = hk.load_task("rendezvous-3")
    agents = {name: replace(agent, start=55) for name, agent in task.agents.items()}
    last = record(replace(task, agents=agents), seed=0, steps=20)[-1]
    assert len(set(last.cells.values())) == 3


def test_actions_and_agents_that_do_not_exist_are_refused():
    task = hk.load_task("rendezvous-2")
    with pytest.raises(hk.errors.TaskError, match=r"action: action 'rihgt' does not exist \(did you mean 'right'"):
        hk.TeamEpisode(task).step({"A1": "rihgt", "A2": "stay"})
    with pytest.raises(hk.errors.TaskError, match="agents: agent 'A3' does not exist"):
        hk.IndividualEpisode(task, "A3")


# Memory.


def test_memory_keeps_what_has_happened():
    kept = 0
    for seed in search(20):
        task = random_task(Random(seed))
        happened: set[str] = set()
        for episode, step in play(task, 60, seed):
            happened |= set(step.events)
            for name in task.agents:
                assert episode.memory[name] == happened & set(memory_of(task)[name])
                kept += len(episode.memory[name])
    assert kept > 1000


# What agents can reach.

TWO_ROOMS = "1.#..\n..#.x"


def map_task(
    text: str, events: Mapping[str, Mapping[str, str]], moves: Mapping[tuple[str, str], str], **gates: str
) -> hk.Task:
    """Build a task of agent 1, who starts at 1, and agent 2, who starts at 2 if there is one; other letters are places.

    Gates are given as place="event" and closed to agent 1.
    """
    lines = text.split("\n")
    cells = [letter for line in lines for letter in line]
    places = {name: frozenset(i for i, own in enumerate(cells) if own == name) for name in set(cells) - set("#.12")}
    walls = frozenset(i for i, own in enumerate(cells) if own == "#")
    grid = hk.Grid(len(lines), len(lines[0]), walls, places)
    agents = {
        f"A{letter}": hk.Agent(cells.index(letter), tuple(events), gates=gates if letter == "1" else {})
        for letter in "12"
        if letter in cells
    }
    conditions = {event: {name: hk.Condition(place) for name, place in own.items()} for event, own in events.items()}
    return hk.Task("map", grid, agents, conditions, hk.RewardMachine(initial="u0", transitions=moves, final={"done"}))


CANNOT = re.compile(
    r"(?P<agent>\w+) never proposes (?P<event>\w+) in state (?P<state>[^:]+): "
    r"(no cell .* is reachable|no step that .* is possible|.* happens before it .*)(?P<why> \(.*\))?\."
)


def impossible(verdict: Verdict) -> set[tuple[str, str, str]]:
    """List what is reported as out of reach: agent, event, state of the agent's machine."""
    matches = [CANNOT.fullmatch(said) for said in verdict.unreachable_problems]
    return {(found["agent"], found["event"], found["state"]) for found in matches if found is not None}


def test_a_place_behind_a_wall_is_reported():
    task = map_task(TWO_ROOMS, {"a": {"A1": "x"}}, {("u0", "a"): "done"})
    verdict = hk.check_task(task)
    assert verdict.labelling.ok and verdict.decomposition.ok and not verdict.ok
    assert verdict.unreachable_problems == ("A1 never proposes a in state u0: no cell at x is reachable.",)
    assert verdict.problems == verdict.unreachable_problems
    assert hk.check_task(map_task(TWO_ROOMS.replace("#", "."), {"a": {"A1": "x"}}, {("u0", "a"): "done"})).ok


def test_a_place_behind_a_gate_that_opens_too_late_is_reported():
    moves = {("u0", "a"): "u1", ("u1", "b"): "done"}
    events = {"a": {"A1": "x"}, "b": {"A1": "y"}}
    for opener in ("a", "b"):
        verdict = hk.check_task(map_task("1yg.x", events, moves, g=opener))
        assert impossible(verdict) == {("A1", "a", "u0")}
        assert f"(g is closed until {opener})" in verdict.problems[0]
    assert hk.check_task(map_task("1.xgy", events, moves, g="a")).ok
    assert hk.check_task(map_task("1yg.x", events, moves)).ok


def test_a_gate_that_is_open_by_then_is_not_blamed():
    moves = {("u0", "b"): "u1", ("u1", "a"): "done"}
    verdict = hk.check_task(map_task("1yg#x", {"a": {"A1": "x"}, "b": {"A1": "y"}}, moves, g="b"))
    assert impossible(verdict) == {("A1", "a", "u1")}
    assert "closed" not in verdict.problems[0]


def test_a_gate_that_a_teammate_opens_in_time_is_no_obstacle():
    moves = {("u0", "b"): "u1", ("u1", "a"): "done"}
    events = {"a": {"A1": "x"}, "b": {"A2": "y"}}
    assert hk.check_task(map_task("1g.x\n####\n2..y", events, moves, g="b")).ok
    stuck = hk.check_task(map_task("1g.x\n####\n2.#y", events, moves, g="b"))
    assert impossible(stuck) == {("A2", "b", "u0")}


def test_a_place_that_an_agent_reaches_only_after_another_event_is_reported():
    """On the way to y lies x, which ends state u0 at once; nobody else is needed for it, so it does not wait."""
    moves = {("u0", "a"): "done", ("u0", "b"): "done"}
    task = map_task("1xy", {"a": {"A1": "x"}, "b": {"A1": "y"}}, moves)
    verdict = hk.check_task(task)
    assert impossible(verdict) == {("A1", "b", "u0")}
    assert verdict.unreachable_problems == ("A1 never proposes b in state u0: a happens before it is at y.",)


def rounds_of(task: hk.Task, name: str, before: int, cell: int, state: str, possible: dict[str, set[str]]) -> set[str]:
    """List the states in which a step may end for an agent, whatever its teammates do; note what it proposes."""
    machine, ends, queue = task.machines[name], set(), [(state, frozenset())]
    for own, spent in queue:  # grows while it is read
        events = propose(task, name, cell, own, before, spent)
        possible.setdefault(own, set()).update(events)
        if all(len(task.knowers[event]) > 1 for event in events):
            ends.add(own)  # a teammate may rule out what is proposed
        after = [(machine.step(own, event), spent | task.edges & {event}) for event in events]
        queue += [node for node in after if node not in queue]
    return ends


def explore(task: hk.Task, name: str) -> set[tuple[str, str, str]]:
    """List what is out of an agent's reach, by a search written without tables."""
    machine = task.machines[name]
    closed = dict(zip(machine.states, task.closed_cells(name), strict=True))
    start = (task.agents[name].start, machine.initial)
    seen, queue = {start}, [start]
    possible: dict[str, set[str]] = {}
    for cell, state in queue:
        for action in range(5):
            there = task.grid.neighbor(cell, action, closed[state])
            for end in rounds_of(task, name, cell, there, state, possible):
                if (there, end) not in seen:
                    seen.add((there, end))
                    queue.append((there, end))
    rests = {state for _, state in seen} - set(machine.final)  # in which a step may end
    useful = set(machine.final) or set(machine.states)  # from which a final state can be reached, if there is one
    for _ in machine.states:
        useful |= {state for (state, _), target in machine.transitions.items() if target in useful}
    return {
        (name, event, state)
        for (state, event), target in machine.transitions.items()
        if state in rests and event not in possible.get(state, ()) and target in useful
    }


def test_what_is_reported_is_what_a_plain_search_does_not_find():
    found, fine = 0, 0
    for seed in search(60):
        task = random_task(Random(seed))
        verdict = hk.check_task(task)
        expected = {triple for name in task.agents for triple in explore(task, name)}
        if task.edges:  # which may happen once only: the check looks no closer
            assert impossible(verdict) <= expected
            continue
        assert impossible(verdict) == expected
        found += len(expected)
        fine += verdict.ok
        assert verdict.ok == (not verdict.problems)
    assert found > 10 and fine > 5


def test_an_agent_that_can_never_finish_is_reported():
    machine = hk.RewardMachine(
        initial="u0", transitions={("u0", "a"): "u1", ("u1", "b"): "u0"}, final={"end"}, states=("u0", "u1", "end")
    )
    task = line_task(machine, {"a": {"A1": "x"}, "b": {"A1": "y"}}, {"A1": "ab"})
    assert (
        "No trace completes the task: no final state of the team machine is reachable." in hk.check_task(task).problems
    )


def test_a_task_without_events_can_be_checked():
    machine = hk.RewardMachine(initial="u0", transitions={}, final={"u0"})
    assert hk.check_task(hk.Task("nothing", hk.Grid(1, 2), {"A1": hk.Agent(0, ())}, {}, machine)).ok


def test_an_agent_alone_with_rewards_of_its_own_can_be_checked():
    machine = hk.RewardMachine(initial="u0", transitions={("u0", "a"): "u1"}, final={"u1"}, rewards={("u0", "a"): 5.0})
    assert hk.check_task(line_task(machine, {"a": {"A1": "x"}}, {"A1": "a"})).ok


# Random numbers.


def test_numbers_are_those_of_the_published_generator():
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert [number(1234567, position) for position in range(5)] == published


def test_streams_have_keys_of_their_own():
    parts = list(product((TRAINING, TEAM, INDIVIDUAL), range(12), range(12), range(12)))
    keys = {stream_key(*part) for part in parts}
    assert len(keys) == len(parts) and max(keys) < 2**64
    assert stream_key(TEAM, 3, 4, 0) == stream_key(TEAM, 3, 4)


@many
@given(seed=seeds, size=st.integers(0, 9))
def test_many_streams_at_once_give_the_same_numbers_as_one_by_one(seed, size):
    rng = Random(seed)
    keys, agents, episodes, steps = (
        [rng.getrandbits(bits) if rng.random() < 0.9 else (1 << bits) - 1 for _ in range(size)]
        for bits in (64, 10, 20, 63)
    )
    columns = [np.array(column, np.uint64) for column in (keys, agents, episodes)]
    made = stream_key(TEAM, *columns)
    assert made.dtype == np.uint64
    assert made.tolist() == [stream_key(TEAM, *row) for row in zip(keys, agents, episodes, strict=True)]
    for draw in (slip_draw, sync_draw, number):
        expected = [draw(key, step) for key, step in zip(keys, steps, strict=True)]
        assert draw(columns[0], np.array(steps, np.uint64)).tolist() == expected


def chi_square(counts: Sequence[int], chances: Sequence[float]) -> float:
    """Measure how far counts are from what chances let expect."""
    expected = np.array(chances) * sum(counts)
    return float(((np.array(counts) - expected) ** 2 / expected).sum())


# What chi-square exceeds once in a thousand times, by degrees of freedom.
ONCE_IN_A_THOUSAND = {1: 10.83, 2: 13.82, 4: 18.47, 99: 148.2}

DRAWS = {
    "action": lambda key, step: action_draw(key, step),
    "slip": lambda key, step: slip_draw(key, step) / 2**CHANCE_BITS,
    "sync": lambda key, step: sync_draw(key, step) / 2**CHANCE_BITS,
}


@pytest.mark.parametrize("use", DRAWS)
@pytest.mark.parametrize("along", ["steps", "seeds", "agents", "episodes"])
def test_draws_are_even_along_everything_that_they_depend_on(use, along):
    keys = {
        "steps": lambda i: (stream_key(TRAINING, 5, 0), i),
        "seeds": lambda i: (stream_key(TRAINING, i, 0), 0),
        "agents": lambda i: (stream_key(TRAINING, 5, i), 0),
        "episodes": lambda i: (stream_key(TRAINING, 5, 0, i), 0),
    }[along]
    drawn = [DRAWS[use](*keys(i)) for i in range(10_000)]
    assert min(drawn) >= 0 and max(drawn) < 1
    counts = Counter(int(value * 100) for value in drawn)
    assert chi_square([counts[i] for i in range(100)], [0.01] * 100) < ONCE_IN_A_THOUSAND[99]


@pytest.mark.parametrize(("one", "other"), [("action", "slip"), ("action", "sync"), ("slip", "sync")])
@pytest.mark.parametrize("later", [0, 1])
def test_draws_for_different_uses_are_independent(one, other, later):
    key = stream_key(TEAM, 9, 1)
    cells = Counter(
        (int(DRAWS[one](key, step) * 10), int(DRAWS[other](key, step + later) * 10)) for step in range(10_000)
    )
    assert chi_square([cells[pair] for pair in product(range(10), repeat=2)], [0.01] * 100) < ONCE_IN_A_THOUSAND[99]


def test_a_test_of_evenness_notices_what_is_not_even():
    counts = Counter(int(action_draw(stream_key(TEAM, 9, 1), step) ** 1.1 * 100) for step in range(10_000))
    assert chi_square([counts[i] for i in range(100)], [0.01] * 100) > ONCE_IN_A_THOUSAND[99]


def test_a_threshold_leaves_certain_things_certain():
    assert threshold(0.0) == 0
    assert threshold(1.0) == 2**CHANCE_BITS
    assert threshold(0.25) == 2 ** (CHANCE_BITS - 2)
    assert action_draw(0, 0) * 2**ACTION_BITS == int(action_draw(0, 0) * 2**ACTION_BITS)


def test_agents_choose_and_slip_as_often_as_they_should():
    machine = hk.RewardMachine(initial="u0", transitions={})
    task = hk.Task("plain", hk.Grid(3, 3), {"A1": hk.Agent(4, ())}, {}, machine, slip=0.3)
    ends, chosen = Counter(), Counter()
    for number_of_episode in range(4_000):
        episode = hk.IndividualEpisode(task, "A1", 0, number_of_episode)
        chosen[episode.random_action()] += 1
        ends[task.grid.row_column(episode.step("up").cell)] += 1
    assert set(ends) == {(0, 1), (1, 2), (1, 0)} and len(chosen) == 5
    assert chi_square([ends[0, 1], ends[1, 2], ends[1, 0]], [0.7, 0.15, 0.15]) < ONCE_IN_A_THOUSAND[2]
    assert chi_square(list(chosen.values()), [0.2] * 5) < ONCE_IN_A_THOUSAND[4]


@pytest.mark.parametrize("probability", [0.3, 0.8])
def test_simulated_teammates_are_ready_as_often_as_they_should(probability):
    machine = hk.RewardMachine(initial="u0", transitions={("u0", "a"): "u1"}, final={"u1"})
    task = line_task(machine, {"a": {"A1": "w", "A2": "w"}}, {"A1": "a", "A2": "a"})
    ready = Counter(
        hk.IndividualEpisode(task, "A1", 0, episode, probability).step("stay").events for episode in range(4_000)
    )
    assert chi_square([ready["a",], ready[()]], [probability, 1 - probability]) < ONCE_IN_A_THOUSAND[1]


def test_an_agent_that_is_done_from_the_beginning_has_nothing_left_to_do_alone():
    grid = hk.Grid(rows=1, columns=2, places={"bell": frozenset({1})})
    machine = hk.RewardMachine(
        initial="s", transitions={("s", "on"): "t", ("t", "off"): "s", ("s", "end"): "u"}, final={"u"}
    )
    bell = hk.Condition("bell")
    task = hk.Task(
        name="bells",
        grid=grid,
        agents={"A1": hk.Agent(start=0, knows=["on", "off"]), "A2": hk.Agent(start=0, knows=["on", "off", "end"])},
        events={"on": {"A1": bell}, "off": {"A1": hk.Condition("bell", inside=False)}, "end": {"A2": bell}},
        machine=machine,
        slip=0.0,
    )
    alone, env = hk.IndividualEpisode(task, "A1"), hk.gym.individual_env(task, "A1", observation="index")
    assert alone.state in alone.machine.final and "on" in alone.machine.events
    env.reset(seed=0)
    seen, reward, terminated, _, info = env.step(1)
    step = alone.step("right")
    assert (step.cell, step.proposed, step.events, step.reward, step.done) == (1, ("on",), (), 0.0, True)
    assert (divmod(int(seen), 2), info["proposed"], info["events"], reward, terminated) == (
        (1, 0),
        ("on",),
        (),
        0.0,
        True,
    )
