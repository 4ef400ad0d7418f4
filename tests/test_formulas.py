"""Formulas mean what they say: against a brute-force evaluator and MONA, both written apart from hocket."""

import pickle
import random
import re
from itertools import pairwise

import pytest

import hocket as hk
from hocket.errors import FormulaError
from hocket.machine.formulas.ltlf import TEMPLATES
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


# Events and notes.


def test_an_event_that_is_not_declared_is_an_error_that_offers_another():
    with pytest.raises(FormulaError, match=r"event 'dor' is not among .* declared \(did you mean 'door'\?\)"):
        hk.from_ltlf("F dor", ["door", "key"])


def test_events_may_come_from_any_iterable_once():
    for make, text in ((hk.from_ltlf, "F b"), (hk.from_regex, ". * b"), (hk.from_declare, ["existence(b)"])):
        assert make(text, iter(["a", "b"])) == make(text, ["a", "b"])


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
    assert "The projection of A2 merges violated and !door U key & F door, where key is defined" in said


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
