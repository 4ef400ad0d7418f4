"""The machines, projections and traces of the paper, with the answers written out by hand."""

import pytest

import hocket as hk
import oracle
from strategies import (
    BUTTONS_CONTROL,
    BUTTONS_KNOWS,
    buttons,
    rendezvous,
    rendezvous_knows,
    rendezvous_parts,
)

# Figure 2, with a state's name standing for its position in the drawing.
FIGURE_2 = {
    "A1": hk.RewardMachine(
        initial="0",
        transitions={("0", "Y"): "1", ("1", "R"): "2", ("2", "Goal"): "3"},
        final={"3"},
    ),
    "A2": hk.RewardMachine(
        initial="0",
        transitions={
            ("0", "Y"): "1",
            ("1", "G"): "2",
            ("2", "A2on"): "3",
            ("3", "A2off"): "2",
            ("3", "R"): "4",
        },
        final={"4"},
    ),
    "A3": hk.RewardMachine(
        initial="0",
        transitions={("0", "G"): "1", ("1", "A3on"): "2", ("2", "A3off"): "1", ("2", "R"): "3"},
        final={"3"},
    ),
}

# The classes that section 3.3 describes for agent 1, and the same reading of the figure for the others.
CLASSES = {
    "A1": [{"u0"}, {"u1", "u2", "u3", "u4", "u5"}, {"u6"}, {"u7"}],
    "A2": [{"u0"}, {"u1"}, {"u2", "u4"}, {"u3", "u5"}, {"u6", "u7"}],
    "A3": [{"u0", "u1"}, {"u2", "u3"}, {"u4", "u5"}, {"u6", "u7"}],
}

EVERY_KNOWN_EVENT = [(agent, event) for agent, known in BUTTONS_KNOWS.items() for event in sorted(known)]


def assert_isomorphic(one: hk.RewardMachine, other: hk.RewardMachine) -> None:
    """Require the same behaviour from as many states and transitions, none of them out of reach."""
    assert hk.distinguish(one, other) is None
    assert len(one.states) == len(other.states)
    assert len(one.transitions) == len(other.transitions)
    assert not one.unreachable and not other.unreachable


def without(agent: str, event: str) -> dict[str, set[str]]:
    """Take one event from one agent of the buttons task."""
    return {name: known - {event} if name == agent else known for name, known in BUTTONS_KNOWS.items()}


@pytest.mark.parametrize("agent", FIGURE_2)
def test_the_projections_of_the_buttons_are_those_of_figure_2(agent):
    assert_isomorphic(hk.project(buttons(), BUTTONS_KNOWS[agent]), FIGURE_2[agent])


@pytest.mark.parametrize("agent", CLASSES)
def test_the_states_of_the_buttons_merge_as_the_paper_says(agent):
    projected = hk.project(buttons(), BUTTONS_KNOWS[agent])
    expected = {frozenset(block) for block in CLASSES[agent]}
    assert {frozenset(members) for members in projected.members.values()} == expected


@pytest.mark.parametrize(
    ("trace", "end", "completed"),
    [
        ((), "u0", False),
        (("Y", "G", "A2on"), "u3", False),
        (("Y", "G", "A2on", "A3on", "R", "Goal"), "u7", True),
        (("Y", "G", "A2on", "A2off", "A3on", "A2on", "R", "Goal"), "u7", True),
        (("Y", "Goal"), None, False),
    ],
)
def test_the_buttons_follow_the_traces_of_section_3(trace, end, completed):
    run = buttons().run(trace, undefined="blocking")
    assert (run.state, run.completed, run.reward) == (end, completed, float(completed))


def test_reaching_the_goal_early_causes_no_transition():
    run = buttons().run(("Y", "Goal"), undefined="stay")
    assert (run.state, run.completed, run.reward) == ("u1", False, 0.0)


def test_the_buttons_are_decomposable():
    result = hk.decompose(buttons(), BUTTONS_KNOWS, control=BUTTONS_CONTROL)
    assert result.ok
    assert result.counterexample is None
    assert list(result.machines) == ["A1", "A2", "A3"]


def test_the_parts_of_the_buttons_compose_to_the_team_machine():
    assert hk.distinguish(hk.compose(*FIGURE_2.values()), buttons()) is None


@pytest.mark.parametrize(("agent", "event"), EVERY_KNOWN_EVENT)
def test_taking_one_known_event_away_gives_the_verdict_of_brute_force(agent, event):
    knows = without(agent, event)
    assert hk.decompose(buttons(), knows).ok == oracle.decomposable(oracle.plain(buttons()), knows)


@pytest.mark.parametrize(("agent", "event"), EVERY_KNOWN_EVENT)
def test_one_event_that_was_taken_away_is_all_that_a_repair_gives_back(agent, event):
    found = hk.repair(buttons(), without(agent, event), control=BUTTONS_CONTROL)
    needed = agent in BUTTONS_CONTROL[event] or not oracle.decomposable(oracle.plain(buttons()), without(agent, event))
    assert found.cost == needed
    assert found.exact


def test_bisimilarity_does_not_see_who_presses_the_yellow_button_but_control_does():
    blind = hk.decompose(buttons(), without("A1", "Y"))
    sighted = hk.decompose(buttons(), without("A1", "Y"), control=BUTTONS_CONTROL)
    assert blind.ok
    assert not sighted.ok
    assert sighted.counterexample is None


def test_a_repair_returns_the_yellow_button_to_its_controller():
    found = hk.repair(buttons(), without("A1", "Y"), control=BUTTONS_CONTROL)
    assert found == {"A1": frozenset({"Y"})}


@pytest.mark.parametrize("agents", range(2, 7))
def test_the_rendezvous_is_decomposable_into_its_local_machines(agents):
    result = hk.decompose(rendezvous(agents), rendezvous_knows(agents))
    assert result.ok
    for projected, local in zip(result.machines.values(), rendezvous_parts(agents), strict=True):
        assert_isomorphic(projected, local)


@pytest.mark.parametrize("agents", range(2, 7))
def test_the_rendezvous_doubles_its_states_with_each_agent(agents):
    assert len(rendezvous(agents).states) == 2 ** (agents + 1)


def test_the_rendezvous_of_ten_is_decomposable():
    team = rendezvous(10)
    assert (len(team.states), len(team.events), len(team.transitions)) == (2_048, 31, 15_361)
    assert hk.decompose(team, rendezvous_knows(10)).ok


@pytest.mark.parametrize("agents", [2, 3])
def test_an_agent_that_does_not_hear_of_the_meeting_breaks_the_rendezvous(agents):
    knows = rendezvous_knows(agents)
    knows["A1"].discard("r")
    team = rendezvous(agents)
    result = hk.decompose(team, knows)
    found = result.counterexample
    assert not result.ok
    assert oracle.Evidence(tuple(found.trace), found.kind, found.event) in oracle.shortest_evidence(
        oracle.plain(team), knows
    )
