"""Formulas mean what they say: against a brute-force evaluator and MONA, both written apart from hocket."""

import pickle
import random
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hocket as hk
from hocket.errors import FormatError, FormulaError
from hocket.machine.formulas.declare import TEMPLATES
from ltlf_oracle import MONA, mona_automaton, random_formula, satisfies, traces, write

VIOLATED, DONE = "violated", "done"
needs_mona = pytest.mark.skipif(MONA is None, reason="needs MONA (Debian: apt install mona; tests/set_up.py does it)")


def drawn(seed, most=7):
    """Draw a formula over one to three events; half of them look back, too."""
    draw = random.Random(seed)
    events = ["a", "b", "c"][: draw.randint(1, 3)]
    return random_formula(draw, events, draw.randint(0, most), past=draw.random() < 0.5), events


def machine_or_reason(formula, events):
    try:
        return hk.from_ltlf(write(formula), events)
    except FormulaError as error:
        return str(error)


def state_after(machine, trace):
    return machine.run(trace, undefined="stay").state


def check_against(machine, events, longest, satisfied):
    """Check a machine, or the reason why there is none, against what traces satisfy."""
    known = {trace: satisfied(trace) for trace in traces(events, longest)}
    if isinstance(machine, str):
        assert ("before anything happens" in machine) == known[()]
        assert known[()] or not any(known.values())
        return
    assert not known[()]
    for trace in known:
        done = any(known[trace[:length]] for length in range(1, len(trace) + 1))
        assert (state_after(machine, trace) == DONE) == done, trace


# The meaning of formulas.


@pytest.mark.parametrize("block", range(20))
def test_a_machine_completes_where_the_trace_so_far_first_satisfies_its_formula(block):
    for seed in range(block * 40, block * 40 + 40):
        formula, events = drawn(seed)
        machine = machine_or_reason(formula, events)
        check_against(machine, events, 5 if len(events) < 3 else 4, lambda trace, f=formula: satisfies(f, trace))


def test_a_formula_that_looks_back_at_what_is_yet_to_come_is_read_by_the_definitions():
    for text, formula in [
        ("F(b & Y F a)", ("F", ("&", ("event", "b"), ("Y", ("F", ("event", "a")))))),
        ("F O X a", ("F", ("O", ("X", ("event", "a"))))),
        ("G(a -> (F b S c))", ("G", ("->", ("event", "a"), ("S", ("F", ("event", "b")), ("event", "c"))))),
    ]:
        try:
            machine = hk.from_ltlf(text, ["a", "b", "c"])
        except FormulaError as error:
            machine = str(error)
        check_against(machine, ["a", "b", "c"], 5, lambda trace, f=formula: satisfies(f, trace))


@needs_mona
@pytest.mark.parametrize("block", range(10))
def test_mona_makes_the_same_of_formulas(block, tmp_path):
    for seed in range(block * 50, block * 50 + 50):
        formula, events = drawn(10_000 + seed, most=9)
        start, accepting, rows = mona_automaton(formula, events, tmp_path / "formula.mona")
        machine = machine_or_reason(formula, events)
        if isinstance(machine, str):  # MONA knows no empty trace
            assert "before anything happens" in machine or not accepting & {start, *rows.values()}
            continue
        assert agree(machine, events, start, accepting, rows), write(formula)


def agree(machine, events, start, accepting, rows):
    """Follow both from the start, in step, up to where the task is completed."""
    queue = [(machine.initial, start)]
    seen = set(queue)
    for state, other in queue:
        for event in events:
            end = machine.step(state, event) or state
            pair = (end, rows[other, event])
            if (end == DONE) != (pair[1] in accepting):
                return False
            if end != DONE and pair not in seen:
                seen.add(pair)
                queue.append(pair)
    return True


@pytest.mark.parametrize("seed", range(60))
def test_a_machine_is_minimal_and_has_one_dead_end(seed):
    formula, events = drawn(20_000 + seed, most=10)
    machine = machine_or_reason(formula, events)
    if isinstance(machine, str):
        return
    complete = {
        (state, event): machine.step(state, event) or state for state in machine.states for event in machine.events
    }
    total = hk.RewardMachine(
        initial=machine.initial, transitions=complete, final=machine.final, states=machine.states, rewards={}
    )
    assert len(hk.minimize(total).states) == len(machine.states)
    assert not machine.unreachable
    assert [state for state in machine.states if state not in {s for s, _ in machine.transitions}] == [
        state for state in machine.states if state in (DONE, VIOLATED)
    ]


@pytest.mark.parametrize("seed", range(40))
def test_events_that_change_nothing_have_no_transition(seed):
    formula, events = drawn(30_000 + seed)
    machine = machine_or_reason(formula, [*events, "other"])
    if not isinstance(machine, str):
        assert all(state != target for (state, _), target in machine.transitions.items())
        assert list(machine.events) == [*events, "other"]


# What is no task.


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("G !alarm", "`G !alarm` is true before anything happens, so there is nothing to do"),
        ("!a", "`!a` is true before anything happens, so there is nothing to do"),
        ("F a | !F a", "`F a | !F a` is true before anything happens, so there is nothing to do"),
        ("a & b", "`a & b` can never come true, as its conjuncts exclude each other"),
        ("F(a & b)", "`F(a & b)` can never come true"),
        ("F a & G !a", "`F a & G !a` can never come true, as its conjuncts exclude each other"),
        ("F true", "a task needs at least one event, got none; name one in the formula, or give events"),
    ],
)
def test_what_is_no_task_is_an_error_that_says_why(text, reason):
    with pytest.raises(FormulaError) as caught:
        hk.from_ltlf(text)
    assert str(caught.value) == reason


def test_an_event_that_is_not_declared_is_an_error_that_offers_another():
    with pytest.raises(FormulaError, match=r"event 'dor' is not among .* declared \(did you mean 'door'\?\)"):
        hk.from_ltlf("F dor", ["door", "key"])


def test_a_task_that_could_be_broken_again_says_by_which_events():
    machine = hk.from_ltlf("F door & G !alarm", ["door", "alarm", "bell"])
    assert machine.meaning.notes == (
        "Once completed, the task counts as done, though later events could break `G !alarm` again: alarm.",
    )
    assert hk.from_ltlf("!alarm U door").meaning.notes == ()


def test_a_past_operator_where_there_is_no_past_is_noted():
    (note,) = hk.from_ltlf("F a & O b").meaning.notes
    assert note == "`O b` is read at the first position, where nothing is past; put it under F or G."
    assert hk.from_ltlf("F(a & O b)").meaning.notes == ()


def test_a_formula_that_only_looks_back_is_read_at_the_last_position():
    machine = hk.from_ltlf("b & Y a")
    assert machine.run(("b", "a", "b"), undefined="stay").completed
    assert not machine.run(("a", "a"), undefined="stay").completed


def test_next_is_strong_and_weak_next_is_not():
    assert hk.from_ltlf("F(a & X true)", ["a", "b"]).run(("a",), undefined="stay").completed is False
    assert hk.from_ltlf("F(a & WX false)", ["a", "b"]).run(("a",), undefined="stay").completed is True
    assert hk.from_ltlf("X[!] a") == hk.from_ltlf("X a")


# Names and sentences.


def test_names_say_what_is_left_to_do():
    machine = hk.from_ltlf("(!door U key) & F door & F lamp")
    assert set(machine.states) >= {"F door & F lamp", "F lamp", "F door", DONE, VIOLATED}
    assert hk.from_regex("load take drop").states == {"load take drop", "take drop", "drop", DONE, VIOLATED}


@pytest.mark.parametrize("seed", range(40))
def test_names_are_short_enough_to_draw(seed):
    formula, events = drawn(40_000 + seed, most=14)
    machine = machine_or_reason(formula, events)
    if not isinstance(machine, str):
        assert all(len(re.sub(r" #\d+$", "", state)) <= 24 for state in machine.states)


def test_a_story_says_which_conjunct_is_broken():
    machine = hk.from_ltlf("(!door U key) & F door")
    control = {"door": {"A1"}, "key": {"A2"}}
    said = hk.decompose(machine, {"A1": {"door"}, "A2": {"key"}}, control).explain()
    assert "There, `!door U key` is broken." in said
    assert "A2 cannot tell violated from !door U key & F door, where key can happen" in said


def test_a_story_says_which_conjunct_is_still_open():
    machine = hk.from_ltlf("F(key & F door) & F lamp")
    said = hk.decompose(machine, {"A1": {"door", "lamp"}, "A2": {"key"}}).explain()
    assert "There, `F(key & F door)` and `F lamp` are still open." in said


def test_a_machine_from_a_formula_can_be_pickled_with_its_meaning():
    machine = hk.from_ltlf("(!door U key) & F door")
    again = pickle.loads(pickle.dumps(machine))
    assert again == machine
    assert again.meaning.say(("door",)) == "`!door U key` is broken."


# Regular expressions.


def random_regex(draw, events, size):
    """Draw an expression as (text, function that says whether a trace matches)."""
    if size <= 0:
        event = draw.choice([*events, "."])
        return event, (lambda t: len(t) == 1) if event == "." else (lambda t, e=event: t == (e,))
    op = draw.choice(["seq", "seq", "|", "&", "!", "*", "+", "?", "{2}", "{1,2}", "{1,}"])
    if op in ("seq", "|", "&"):
        left = draw.randint(0, size - 1)
        one, matches_one = random_regex(draw, events, left)
        two, matches_two = random_regex(draw, events, size - 1 - left)
        if op == "seq":
            cuts = lambda t: ((t[:i], t[i:]) for i in range(len(t) + 1))  # noqa: E731
            return f"({one} ; {two})", lambda t: any(matches_one(a) and matches_two(b) for a, b in cuts(t))
        both = all if op == "&" else any
        return f"({one} {op} {two})", lambda t: both((matches_one(t), matches_two(t)))
    inner, matches = random_regex(draw, events, size - 1)
    if op == "!":
        return f"!({inner})", lambda t: not matches(t)
    least, most = {"*": (0, 99), "+": (1, 99), "?": (0, 1), "{2}": (2, 2), "{1,2}": (1, 2), "{1,}": (1, 99)}[op]
    return f"({inner}){op}", lambda t: repeated(matches, t, least, most)


def repeated(matches, trace, least, most):
    """Say whether a trace is made of so many pieces that match."""
    reach = {0: {0}}  # pieces -> where they may end
    for pieces in range(1, min(most, max(least, len(trace))) + 1):
        reach[pieces] = {
            end for start in reach[pieces - 1] for end in range(start, len(trace) + 1) if matches(trace[start:end])
        }
    return any(len(trace) in ends for pieces, ends in reach.items() if pieces >= least)


@pytest.mark.parametrize("block", range(10))
def test_a_machine_completes_where_the_trace_so_far_first_matches_its_expression(block):
    for seed in range(block * 20, block * 20 + 20):
        draw = random.Random(seed)
        text, matches = random_regex(draw, ["a", "b"], draw.randint(0, 4))
        try:
            machine = hk.from_regex(text, ["a", "b"])
        except FormulaError as error:
            machine = str(error)
        check_against(machine, ["a", "b"], 4, matches)


# DECLARE.


def happened(trace, event):
    return [position for position, own in enumerate(trace) if own == event]


DECLARED = {  # written from the sentences, not from the formulas
    "existence(a, 2)": lambda t: t.count("a") >= 2,
    "existence(a)": lambda t: t.count("a") >= 1,
    "absence(a, 2)": lambda t: t.count("a") < 2,
    "absence(a)": lambda t: t.count("a") == 0,
    "exactly(a, 2)": lambda t: t.count("a") == 2,
    "at_most(a, 2)": lambda t: t.count("a") <= 2,
    "init(a)": lambda t: t[:1] == ("a",),
    "end(a)": lambda t: t[-1:] == ("a",),
    "choice(a, b)": lambda t: "a" in t or "b" in t,
    "exclusive_choice(a, b)": lambda t: ("a" in t) != ("b" in t),
    "responded_existence(a, b)": lambda t: "a" not in t or "b" in t,
    "co_existence(a, b)": lambda t: ("a" in t) == ("b" in t),
    "response(a, b)": lambda t: all("b" in t[i:] for i in happened(t, "a")),
    "precedence(a, b)": lambda t: all("a" in t[:i] for i in happened(t, "b")),
    "succession(a, b)": lambda t: (
        all("b" in t[i:] for i in happened(t, "a")) and all("a" in t[:i] for i in happened(t, "b"))
    ),
    "alternate_response(a, b)": lambda t: answered(t, "a", "b"),
    "alternate_precedence(a, b)": lambda t: answered(t[::-1], "b", "a"),
    "alternate_succession(a, b)": lambda t: answered(t, "a", "b") and answered(t[::-1], "b", "a"),
    "chain_response(a, b)": lambda t: all(t[i + 1 : i + 2] == ("b",) for i in happened(t, "a")),
    "chain_precedence(a, b)": lambda t: all(i > 0 and t[i - 1] == "a" for i in happened(t, "b")),
    "chain_succession(a, b)": lambda t: (
        all(t[i + 1 : i + 2] == ("b",) for i in happened(t, "a"))
        and all(i > 0 and t[i - 1] == "a" for i in happened(t, "b"))
    ),
    "not_responded_existence(a, b)": lambda t: "a" not in t or "b" not in t,
    "not_co_existence(a, b)": lambda t: not {"a", "b"} <= set(t),
    "not_response(a, b)": lambda t: all("b" not in t[i:] for i in happened(t, "a")),
    "not_precedence(a, b)": lambda t: all("a" not in t[:i] for i in happened(t, "b")),
    "not_succession(a, b)": lambda t: all("b" not in t[i:] for i in happened(t, "a")),
    "not_chain_response(a, b)": lambda t: ("a", "b") not in pairwise(t),
    "not_chain_precedence(a, b)": lambda t: ("a", "b") not in pairwise(t),
    "not_chain_succession(a, b)": lambda t: ("a", "b") not in pairwise(t),
}


def answered(trace, call, answer):
    """Say whether each call is followed by an answer before the next call."""
    waiting = False
    for event in trace:
        if event == call:
            if waiting:
                return False
            waiting = True
        elif event == answer:
            waiting = False
    return not waiting


def test_every_template_has_a_meaning_written_apart():
    assert {text.partition("(")[0] for text in DECLARED} == {*TEMPLATES}


@pytest.mark.parametrize("text", DECLARED)
def test_a_template_means_what_its_sentence_says(text):
    events = ["a", "b", "c"]
    for extra, also in (("existence(c)", lambda t: "c" in t), ("end(c)", lambda t: t[-1:] == ("c",))):
        try:
            machine = hk.from_declare([text, extra], events)
        except FormulaError as error:
            machine = str(error)
        check_against(machine, events, 6, lambda t, also=also: DECLARED[text](t) and also(t))


@pytest.mark.parametrize("name", ["Chain Response", "chain-response", "ChainResponse", "CHAIN_RESPONSE"])
def test_templates_are_found_however_their_names_are_spelt(name):
    assert hk.from_declare([f"{name}(a, b)", "existence(a)"]) == hk.from_declare(
        ["chain_response(a, b)", "existence(a)"]
    )


# Parts.


def some_sentences():
    """Draw conjuncts over events of their own, so that some of them are independent."""
    shapes = ["F {0}", "F({0} & F {1})", "(!{0} U {1}) & F {0}", "F({0} & X {1})", "F {0} | F {1}", "!{0} U {1}"]
    one = st.sampled_from(shapes)
    return st.lists(one, min_size=1, max_size=4).map(
        lambda texts: " & ".join(f"({t.format(f'x{i}', f'y{i}')})" for i, t in enumerate(texts))
    )


@settings(max_examples=60, deadline=None)
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


@settings(max_examples=60, deadline=None)
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


@settings(max_examples=40, deadline=None)
@given(some_sentences(), st.data())
def test_the_cheapest_event_sets_of_parts_cost_what_those_of_the_product_do(text, data):
    parts = hk.from_ltlf(text, parts=True)
    agents = ["A1", "A2", "A3"]
    control = {event: {data.draw(st.sampled_from(agents))} for event in parts.events}
    found = hk.cheapest(parts, agents, control)
    assert found.cost == hk.cheapest(parts.machine(), agents, control).cost
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
    found = hk.cheapest(parts, agents, control)
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
        ('formula = "F door"\ninitial = "u0"', "initial: unknown key (beside formula nothing but events may stand"),
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
