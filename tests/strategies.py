"""Random machines, tasks and assignments, and the paper's machines built by hand."""

from collections.abc import Iterable, Sequence
from itertools import pairwise, product
from random import Random
from typing import Any, NamedTuple

from hypothesis import strategies as st

import hocket as hk
import oracle
from searches import examples

AGENTS = ("A1", "A2", "A3", "A4")
EVENTS = ("a", "b", "c", "d", "e")

# Names that some format, or a sentence of a task, could take for something else; some of them no name can be.
HOSTILE = (
    *(
        '"',
        "'",
        "\\",
        "a\\",
        '\\"',
        "\\n",
        "\\u0041",
        '"""',
        "'''",
        "#",
        "a # b",
        "[",
        "]",
        "[[a]]",
        "{",
        "}",
        "=",
        "a = b",
    ),
    *(
        ".",
        "..",
        "a.b",
        "1.A.A.A",
        ".A" * 40,
        "true",
        "false",
        "nan",
        "inf",
        "-inf",
        "-",
        "--",
        "null",
        "0",
        "-0",
        "007",
    ),
    *("1e5", "1979-05-27", "07:32:00", "True", "None", "start", "end", "State:", "--BODY--", "[0]", "t", "f", "0&!1"),
    *("", " ", "\t", "\n", "\0", "a\0b", "\x1b[31m", "\x7f", "\x85", "a\u2028b", "\u2029", "\ud800", "a\udfff", "\r\n"),
    *(
        " a",
        "a ",
        "\u00a0a",
        "a\u3000",
        "\ufeffa",
        "a\ufeff",
        "\u200b",
        "\u202e",
        "e\u0301",
        "é",
        "\ufffe",
        "\U0010ffff",
    ),
    *(
        "x" * 199,
        "x" * 3_000,
        "é" * 300,
        "and",
        "or",
        "not",
        "at",
        "in",
        "not at",
        "all",
        "anywhere",
        "after",
        "a, b",
        ",",
    ),
    *("x and y", "x or y", "all at x", "not in x", "x after y", "to", "machine", "parts", "states", "final", "rewards"),
)
hostile_names = st.sampled_from(HOSTILE) | st.text(st.characters(), max_size=6)

quick = examples(40)
thorough = examples(100)

BUTTONS_KNOWS = {
    "A1": {"Y", "R", "Goal"},
    "A2": {"Y", "G", "A2on", "A2off", "R"},
    "A3": {"G", "A3on", "A3off", "R"},
}
BUTTONS_CONTROL = {
    "Y": {"A1"},
    "G": {"A2"},
    "A2on": {"A2"},
    "A2off": {"A2"},
    "A3on": {"A3"},
    "A3off": {"A3"},
    "R": {"A2", "A3"},
    "Goal": {"A1"},
}


class Team(NamedTuple):
    """A team machine and who knows which events."""

    machine: hk.RewardMachine
    knows: dict[str, set[str]]


def buttons() -> hk.RewardMachine:
    """Build the team machine of the paper's three buttons."""
    return hk.RewardMachine(
        initial="u0",
        transitions={
            ("u0", "Y"): "u1",
            ("u1", "G"): "u2",
            ("u2", "A2on"): "u3",
            ("u2", "A3on"): "u4",
            ("u3", "A3on"): "u5",
            ("u4", "A2on"): "u5",
            ("u3", "A2off"): "u2",
            ("u4", "A3off"): "u2",
            ("u5", "A3off"): "u3",
            ("u5", "A2off"): "u4",
            ("u5", "R"): "u6",
            ("u6", "Goal"): "u7",
        },
        final={"u7"},
    )


def rendezvous_parts(agents: int) -> tuple[hk.RewardMachine, ...]:
    """Build the local machines of agents that meet and then go to their goals."""
    return tuple(
        hk.RewardMachine(
            initial="0",
            transitions={("0", f"r{i}"): "1", ("1", f"l{i}"): "0", ("1", "r"): "2", ("2", f"g{i}"): "3"},
            final={"3"},
        )
        for i in range(1, agents + 1)
    )


def rendezvous(agents: int) -> hk.RewardMachine:
    """Compose the team machine of the rendezvous."""
    return hk.compose(*rendezvous_parts(agents))


def rendezvous_knows(agents: int) -> dict[str, set[str]]:
    """Tell each agent of the rendezvous its own events and the meeting."""
    return {f"A{i}": {f"r{i}", f"l{i}", "r", f"g{i}"} for i in range(1, agents + 1)}


def order_matters() -> Team:
    """Build the smallest task that both agents believe done when only one of two orders completes it."""
    machine = hk.RewardMachine(
        initial="start",
        transitions={
            ("start", "a"): "a first",
            ("start", "b"): "b first",
            ("a first", "b"): "done",
            ("b first", "a"): "stuck",
        },
        final={"done"},
    )
    return Team(machine, {"A1": {"a"}, "A2": {"b"}})


def traces_up_to(events: Iterable[str], length: int) -> list[tuple[str, ...]]:
    """List every trace of at most the given length."""
    return [trace for size in range(length + 1) for trace in product(sorted(events), repeat=size)]


def project_trace(trace: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Erase the events that an agent does not know."""
    return tuple(event for event in trace if event in known)


def _random_arguments(rng: Random, states: int, events: Sequence[str], absorbing: bool) -> dict[str, Any]:
    """Scatter transitions around a chain of states that ends in the final ones; one more may be out of reach."""
    names = [f"u{i}" for i in range(states)]
    final = names[max(1, states - rng.choice((0, 1, 1, 2))) :] or names[: rng.randint(0, 1)]
    lost = ["lost"] * (rng.random() < 0.4)
    sources = [name for name in names if not (absorbing and name in final)] + lost
    density = min(1.0, rng.choice((0.5, 1.0, 2.0)) / len(events))
    transitions = {(name, event): rng.choice(names) for name in sources for event in events if rng.random() < density}
    for name, following in pairwise(names):
        if name in sources and rng.random() < 0.9:
            transitions[name, rng.choice(events)] = following
    used = {source for source, _ in transitions} | set(transitions.values())
    arguments: dict[str, Any] = {"initial": names[0], "transitions": transitions}
    if names[0] in used and rng.random() < 0.5:
        return arguments | {"final": used & set(final)}
    return arguments | {"final": final, "states": names + lost, "events": events}


# The number of states shrinks; the rest comes from a seed, because machines that are drawn transition by
# transition are mostly trivial.
_generators = st.builds(Random, st.integers(0, 2**32 - 1))


def _sizes(largest: int) -> st.SearchStrategy[int]:
    """Draw a number from 1 on, seldom a trivial one."""
    return st.sampled_from([1, 2, *4 * [*range(3, largest + 1)]])


@st.composite
def task_machines(draw: st.DrawFn, max_states: int = 6, events: Sequence[str] = EVENTS) -> hk.RewardMachine:
    """Draw a task-completion machine, perhaps with unreachable states or states without transitions."""
    states = draw(_sizes(max_states))
    return hk.RewardMachine(**_random_arguments(draw(_generators), states, events, absorbing=True))


@st.composite
def stray_machines(draw: st.DrawFn, max_states: int = 5, events: Sequence[str] = EVENTS[:3]) -> hk.RewardMachine:
    """Draw a task-completion machine of which much may be out of reach: states, final ones among them, and events."""
    rng = draw(_generators)
    names = [f"u{i}" for i in range(draw(_sizes(max_states)))]
    final = [name for name in names if rng.random() < 0.3]
    density = rng.choice((0.3, 0.5))
    transitions = {
        (name, event): rng.choice(names)
        for name in names
        for event in events
        if name not in final and rng.random() < density
    }
    initial = rng.choice(names)
    return hk.RewardMachine(initial=initial, transitions=transitions, final=final, states=names, events=events)


@st.composite
def reward_machines(draw: st.DrawFn, max_states: int = 5, events: Sequence[str] = EVENTS[:3]) -> hk.RewardMachine:
    """Draw a general machine: any rewards, and perhaps ways out of final states."""
    rng = draw(_generators)
    states = draw(_sizes(max_states))
    arguments = _random_arguments(rng, states, events, absorbing=False)
    rewards = {key: rng.choice((0.0, 0.0, 1.0, -0.5)) for key in arguments["transitions"]}
    return hk.RewardMachine(**arguments, rewards=rewards)


@st.composite
def completion_machines(draw: st.DrawFn, max_states: int = 6, events: Sequence[str] = EVENTS) -> hk.RewardMachine:
    """Draw a machine that rewards completion alone and may, as projections do, leave a final state again."""
    arguments = _random_arguments(draw(_generators), draw(_sizes(max_states)), events, absorbing=False)
    rewards = oracle.completion_rewards(arguments["transitions"], arguments["final"])
    return hk.RewardMachine(**arguments, rewards=rewards)


@st.composite
def assignments(
    draw: st.DrawFn, events: Iterable[str], min_agents: int = 1, max_agents: int = 4
) -> dict[str, set[str]]:
    """Draw who knows what, so that somebody knows each event."""
    agents = AGENTS[: max(min_agents, draw(_sizes(max_agents)))]
    rng = draw(_generators)
    sharing = rng.choice((0.1, 0.2, 0.5))
    knows: dict[str, set[str]] = {agent: set() for agent in agents}
    for event in sorted(events):
        for agent in {rng.choice(agents), *(agent for agent in agents if rng.random() < sharing)}:
            knows[agent].add(event)
    return knows


@st.composite
def random_teams(draw: st.DrawFn, max_states: int = 6, events: Sequence[str] = EVENTS, max_agents: int = 4) -> Team:
    """Draw a machine and an assignment that have nothing to do with each other."""
    machine = draw(task_machines(max_states, events))
    return Team(machine, draw(assignments(machine.events, max_agents=max_agents)))


@st.composite
def composed_teams(draw: st.DrawFn, max_states: int = 3) -> Team:
    """Draw two or three local machines first and let the team machine be their composition."""
    knows = draw(assignments(EVENTS, min_agents=2, max_agents=3))
    parts = {agent: draw(task_machines(max_states, sorted(known))) for agent, known in knows.items() if known}
    return Team(hk.compose(*parts.values()), {agent: set(part.events) for agent, part in parts.items()})


@st.composite
def damaged_teams(draw: st.DrawFn) -> Team:
    """Draw a composition and take one transition out of it."""
    machine, knows = draw(composed_teams())
    transitions = dict(machine.transitions)
    if transitions:
        del transitions[draw(_generators).choice(sorted(transitions))]
    damaged = hk.RewardMachine(
        initial=machine.initial,
        transitions=transitions,
        final=machine.final,
        events=machine.events,
        states=machine.states,
    )
    return Team(damaged, knows)


def teams() -> st.SearchStrategy[Team]:
    """Draw tasks of which about half are decomposable."""
    return random_teams() | composed_teams() | damaged_teams()
