"""Sentences as parts, their limits, and sentences in files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hocket as hk
from hocket.errors import FormatError, FormulaError
from searches import examples

DONE = "done"


# Parts.


def some_sentences():
    """Draw conjuncts over events of their own, so that some of them are independent."""
    shapes = ["F {0}", "F({0} & F {1})", "(!{0} U {1}) & F {0}", "F({0} & X {1})", "F {0} | F {1}", "!{0} U {1}"]
    one = st.sampled_from(shapes)
    return st.lists(one, min_size=1, max_size=4).map(
        lambda texts: " & ".join(f"({t.format(f'x{i}', f'y{i}')})" for i, t in enumerate(texts))
    )


@examples(25)
@given(some_sentences(), st.randoms(use_true_random=False))
def test_parts_side_by_side_complete_where_the_whole_does(text, draw):
    whole, parts = hk.from_ltlf(text), hk.from_ltlf(text, parts=True)
    events = list(whole.events)
    for _ in range(30):
        state, own = whole.initial, parts.initial
        for event in draw.choices(events, k=12):
            state = whole.step(state, event) or state
            if event in parts.events:
                own = parts.step(own, event) or own
            assert (state == DONE) == parts.is_final(own)


@examples(25)
@given(some_sentences(), st.data())
def test_splitting_by_parts_gives_the_verdict_of_the_product(text, data):
    parts = hk.from_ltlf(text, parts=True)
    events = st.sets(st.sampled_from(sorted(parts.events)))
    knows = {agent: data.draw(events) for agent in ("A1", "A2")}
    by_parts = hk.decompose(parts, knows)
    whole = hk.decompose(parts.machine(), knows)
    assert by_parts.ok == whole.ok
    assert {agent: hk.distinguish(by_parts.machines[agent], whole.machines[agent]) for agent in knows} == {
        "A1": None,
        "A2": None,
    }
    if by_parts.counterexample is not None:
        assert parts.machine().run(by_parts.counterexample.trace, undefined="blocking").state is not None


@examples(20)
@given(some_sentences(), st.data())
def test_the_cheapest_event_sets_of_parts_cost_what_those_of_the_product_do(text, data):
    parts = hk.from_ltlf(text, parts=True)
    agents = ["A1", "A2", "A3"]
    control = {event: {data.draw(st.sampled_from(agents))} for event in parts.events}
    found = hk.cheapest_assignment(parts, agents, control)
    assert found.cost == hk.cheapest_assignment(parts.machine(), agents, control).cost
    assert hk.decompose(parts.machine(), found, control).ok
    knows = {agent: {event for event, own in control.items() if agent in own} for agent in agents}
    assert hk.repair(parts, knows, control).cost == hk.repair(parts.machine(), knows, control).cost


def test_conjuncts_that_share_no_event_and_last_are_parts():
    assert [*hk.from_ltlf("F a & F b & (!c U d)", parts=True).parts] == ["F a", "F b", "!c U d"]


def test_conjuncts_that_can_be_broken_again_are_not_parts():
    assert len(hk.from_ltlf("F a & F b & G !c", parts=True).parts) == 1


@pytest.mark.parametrize("count", [1, 5, 10, 16])
def test_a_goal_for_each_event_has_two_to_the_power_of_that_many_states(count):
    machine = hk.from_ltlf(" & ".join(f"F e{i}" for i in range(count)))
    assert len(machine.states) == 2**count
    assert len(machine.graph.target) == count * 2 ** (count - 1)
    assert len(machine.reach.order) == 2**count and machine.is_final.sum() == 1


def test_precedence_pairs_come_out_minimal():
    pairs = [text for i in range(7) for text in (f"precedence(a{i}, b{i})", f"existence(b{i})")]
    assert len(hk.from_declare(pairs).states) == 3**7 + 1


def test_a_large_machine_is_checked_by_its_parts_and_the_verdict_is_the_same():
    count = 17
    machine = hk.from_ltlf(" & ".join(f"F e{i}" for i in range(count)))
    knows = {f"A{i}": {f"e{i}"} for i in range(count)}
    assert hk.decompose(machine, knows).ok
    assert not hk.decompose(machine, knows | {"A0": set()}).ok


def test_a_thousand_constraints_are_parts_that_are_checked_and_assigned():
    count = 500
    parts = hk.from_declare(
        [text for i in range(count) for text in (f"precedence(a{i}, b{i})", f"existence(b{i})")], parts=True
    )
    assert len(parts.parts) == count
    control = {f"a{i}": {f"A{i}"} for i in range(count)} | {f"b{i}": {f"B{i}"} for i in range(count)}
    agents = [agent for own in control.values() for agent in own]
    found = hk.cheapest_assignment(parts, agents, control)
    assert found.cost == 3 * count and found.exact
    assert hk.decompose(parts, found, control).ok


# Limits.


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"most_states": 1000}, r"it has 1,048,576 states, more than the limit of 1,000 \(most_states\); its 20 parts"),
        ({"most_states": 0}, "most_states must be"),
        ({"most_seconds": -1}, "most_seconds must be"),
    ],
)
def test_what_is_too_large_is_an_error_with_the_size(options, said):
    with pytest.raises(FormulaError, match=said):
        hk.from_ltlf(" & ".join(f"F e{i}" for i in range(20)), **options)


def test_a_product_that_grows_too_large_says_how_far_it_got():
    ring = " & ".join(f"G(e{i} -> F e{(i + 1) % 12}) & F(e{i} & X e{(i + 2) % 12})" for i in range(12))
    with pytest.raises(FormulaError, match=r"it needs more than 500 states, the limit \(most_states\); [\d,]+ were"):
        hk.from_ltlf(ring, most_states=500)


def test_a_formula_that_takes_too_long_says_how_far_it_got():
    with pytest.raises(FormulaError, match=r"takes more than 1e-09 seconds, the limit \(most_seconds\)"):
        hk.from_ltlf("F a & F(b & X X c)", most_seconds=1e-9)


def test_a_product_with_what_can_be_broken_again_is_refused_before_it_is_built():
    text = "G !alarm & " + " & ".join(f"F e{i}" for i in range(100))
    with pytest.raises(FormulaError, match=r"about 2\^100 states, .* as `G !alarm` can be broken again"):
        hk.from_ltlf(text, parts=True)


# Files.


def test_a_machine_file_may_be_a_sentence(tmp_path):
    path = tmp_path / "door.toml"
    for line, machine in [
        ('formula = "(!door U key) & F door"', hk.from_ltlf("(!door U key) & F door")),
        ('regex = "key door"', hk.from_regex("key door")),
        ('declare = ["existence(door, 2)"]', hk.from_declare(["existence(door, 2)"])),
        ('formula = "F key & F door"', hk.from_ltlf("F key & F door")),
        ('formula = "F key"\nevents = ["door", "key"]', hk.from_ltlf("F key", ["door", "key"])),
    ]:
        path.write_text(line)
        assert hk.load_machine(path) == machine


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('formula = "F (door"', "formula: column 3: this parenthesis is never closed"),
        ('formula = "F door"\ninitial = "u0"', "initial: unknown key (with formula, only events may be given"),
        ('declare = ["respond(a, b)"]', "declare: constraint 1: column 1: expected the name of a DECLARE constraint"),
        ("formula = 3", "formula: must be a name in quotes"),
    ],
)
def test_a_bad_sentence_in_a_file_is_an_error_that_names_the_place(content, said, tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text(content)
    with pytest.raises(FormatError) as caught:
        hk.load_machine(path)
    assert said in str(caught.value)


WORLD = """
map = '''
a.b
...
A.B
'''
[legend]
a = "plate"
b = "bell"
[agents]
Ann = {{ start = "A", knows = [{ann}] }}
Bo = {{ start = "B", knows = [{bo}] }}
[events]
press = "Ann at plate"
ring = "Bo at bell"
[machine]
{machine}
"""


def test_a_task_file_may_have_a_sentence_and_its_parts_go_to_the_agents(tmp_path):
    path = tmp_path / "task.toml"
    path.write_text(WORLD.format(ann='"press"', bo='"ring"', machine='formula = "F press & F ring"'))
    task = hk.load_task(path)
    assert list(task.machine.parts) == ["Ann", "Bo"]
    assert task.decomposition.ok
    assert hk.train(task, "dqprm", steps=200)


def test_a_task_whose_sentence_does_not_split_so_is_one_machine(tmp_path):
    path = tmp_path / "task.toml"
    path.write_text(WORLD.format(ann='"press"', bo='"ring"', machine='formula = "F(press & F ring)"'))
    task = hk.load_task(path)
    assert not task.decomposition.ok
    assert hk.repair(task.machine, task.knows, task.control).cost == 1
