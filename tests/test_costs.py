"""What small inputs cost: work that grows as the input does, and refusals where it would not."""

import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest

import hocket as hk
from hocket.errors import FormulaError
from hocket.machine.composition import _explore
from hocket.machine.formats import toml
from hocket.machine.formulas import progression, syntax
from hocket.machine.formulas.automaton import distances, reachable
from hocket.machine.formulas.syntax import Limits
from hocket.task.files import task_from
from hocket.task.memory import determined_events

sys.path.append(str(Path(__file__).parents[1] / "bench"))
import costs

TEAM = """team = 50
map = "1.g"
legend = { g = "goal" }
agents = { "A{i}" = { start = "1" } }
events = { "e{i}" = "A{i} at goal", "f{i}" = "A{i} not at goal" }
[machine.parts."A{i}"]
formula = "F(e{i} & X F f{i})"
"""


@pytest.fixture
def steps(monkeypatch):
    """Count the steps of formulas through traces, and keep the decision diagrams that they used."""
    counted = []
    step = progression.Progression.step

    def counting(self, state, event):
        counted.append(self.functions)
        return step(self, state, event)

    monkeypatch.setattr(progression.Progression, "step", counting)
    return counted


def test_a_chain_of_next_takes_steps_in_proportion_to_its_length(steps):
    machine = hk.from_ltlf("X " * 400 + "a")
    assert len(machine.states) == 402 and [*machine.states][-2] != ""
    assert len(steps) < 20 * 400


@pytest.mark.parametrize("constraint", ["existence(a, 800)", "absence(a, 800)", "exactly(a, 800)", "at_most(a, 800)"])
def test_counters_are_built_in_proportion_to_their_number(steps, constraint):
    machine = hk.from_declare([constraint, "existence(b)"])
    assert len(machine.states) >= 800
    assert max(len(decisions.variable) for decisions in steps) < 20 * 800


@pytest.mark.parametrize("times", [19, 20, 21, 22])
def test_a_large_counter_says_what_a_small_one_does(times):
    machine = hk.from_declare([f"existence(a, {times})", "existence(b)"])
    assert machine.run(["a"] * times + ["b"], undefined="stay").completed
    assert not machine.run(["a"] * (times - 1) + ["b"], undefined="stay").completed


def test_the_clock_is_looked_at_at_every_level_of_a_search():
    chain = np.minimum(np.arange(1, 51, dtype=np.int32), 49).reshape(-1, 1)
    looks = []

    class Watching(Limits):
        def check(self, what, states, kinds=1):
            looks.append(what)

    reachable(chain, Watching())
    assert len(looks) >= 50
    looks.clear()
    accepts = np.arange(50) == 49
    assert distances(chain, accepts, None, Watching()).tolist() == [*range(49, -1, -1)]
    assert len(looks) >= 50


@pytest.mark.parametrize(
    "make",
    [
        lambda most: hk.from_ltlf("F(" + "O(a & Y H(b | " * 8 + "c" + "))" * 8 + ")", most_seconds=most),
        lambda most: hk.from_ltlf(" <-> ".join(f"F(a{i} & X b{i})" for i in range(6)), most_seconds=most),
        lambda most: hk.from_regex("(a|b)* a (a|b){8} & (a{7})+ b", most_seconds=most),
        lambda most: hk.from_declare([f"alternate_succession(a{i}, b)" for i in range(5)], most_seconds=most),
    ],
)
def test_when_time_is_up_a_formula_is_refused(make, monkeypatch):
    seconds = count()
    monkeypatch.setattr(syntax.time, "thread_time", lambda: next(seconds))  # one passes whenever somebody looks
    with pytest.raises(FormulaError, match="takes more than 10 seconds"):
        make(10)
    assert next(seconds) == 12, "nothing goes on after that"


def test_all_sentences_of_a_file_share_their_time(monkeypatch):
    """Each takes a fraction of a second, by a clock that moves on whenever somebody looks."""
    document = toml.parse(TEAM)
    assert len(task_from(document).agents) == 50
    moments = count(step=0.1)
    monkeypatch.setattr(syntax.time, "thread_time", lambda: next(moments))
    with pytest.raises(hk.HocketError, match=r"machine.parts.A\d+.formula: .* takes more than 8 seconds"):
        task_from(document)


def test_sets_of_places_and_moves_between_them_are_limited(monkeypatch):
    monkeypatch.setattr("hocket.machine.formulas.regex.MOST_IN_SETS", 1_000)
    with pytest.raises(FormulaError, match="several of its places at once, 1,000 in all"):
        hk.from_regex("(a|b)* a (a|b){12}")
    monkeypatch.setattr("hocket.machine.formulas.regex.MOST_EMBEDDED", 100)
    with pytest.raises(FormulaError, match="needs more than 100 moves between places"):
        hk.from_regex("(!a b){30} c d e")


def test_decision_diagrams_are_limited(monkeypatch):
    monkeypatch.setattr(progression, "MOST_NODES", 4_000)
    with pytest.raises(FormulaError, match="decision diagrams have more than 4,000 nodes"):
        hk.from_ltlf("F(" + " & ".join(f"(F(a{i} & X F b{i}))" for i in range(11)) + ")")


def test_a_short_description_of_a_team_does_not_cause_much_work():
    with pytest.raises(hk.errors.FormatError, match="team: a team of 100,000 would make a task of more than 8 MB"):
        task_from(toml.parse(costs.TASK.replace("team = 2", "team = 100000")))


def test_what_an_agent_remembers_is_found_without_a_look_at_the_events_of_others():
    class Unread(dict):
        def __iter__(self):
            raise AssertionError("reads all events")

    machine = hk.RewardMachine(initial="0", transitions={("0", "a"): "1", ("1", "b"): "2"}, final={"2"})
    order = Unread({"b": 0, "c": 1, "a": 2})
    assert list(determined_events(machine, order)) == ["b", "a"]


def test_a_search_of_joint_states_ends_where_there_are_too_many():
    parts = [hk.RewardMachine(initial="0", transitions={("0", f"a{i}"): "1"}, final={"1"}) for i in range(200)]
    team = hk.Composition({f"A{i}": part for i, part in enumerate(parts)})
    states, (_, _, target) = _explore(parts, team.events, most=50)
    assert len(states) == 1 and len(target) == 200, "the neighbours of one state are too many already"
    assert team.reachable(50) is None


@pytest.mark.parametrize("reader", costs.READERS)
def test_small_inputs_that_were_changed_at_random_are_read_or_refused_in_time(reader):
    for cost in costs.search(reader, tries=100, seed=1, most_seconds=5.0)[1]:
        assert cost.answer.startswith(("read", "refused")), cost.text
