"""Sentences are read as they are meant, and what cannot be read is one sentence with the column, however long it is."""

import random
import subprocess
import sys

import pytest

import hocket as hk
from hocket.cli.main import run
from hocket.errors import FormulaError, HocketError
from hocket.machine.formulas.ltlf import TEMPLATES, parse_ltlf
from hocket.machine.formulas.syntax import SIGNS, WORDS, Formulas, Op
from ltlf_oracle import random_formula, write


def read(text):
    formulas = Formulas()
    return formulas.text(parse_ltlf(text, formulas))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a & b | c", "(a & b) | c"),
        ("a | b & c", "a | (b & c)"),
        ("a -> b -> c", "a -> (b -> c)"),
        ("a <-> b -> c", "a <-> (b -> c)"),
        ("a U b U c", "a U (b U c)"),
        ("a U b & c", "(a U b) & c"),
        ("!a U b", "(!a) U b"),
        ("F a U b", "(F a) U b"),
        ("G F a & b", "(G(F(a))) & b"),
        ("X X[!] a", "X(X(a))"),
        ("always (a implies eventually b)", "G(a -> F b)"),
        ("not a until b", "(!a) U b"),
        ("historically not a since once b", "(H !a) S O b"),
        ("□(a → ◇b) ∧ ¬c", "G(a -> F b) & !c"),
        ("[](a => <>b) && ~c", "G(a -> F b) & !c"),
        ("weak_next a or next b", "(WX a) | (X b)"),
        ("a unless b", "a W b"),
        ('F "red button"', 'F("red button")'),
        ("!!a", "a"),
    ],
)
def test_operators_bind_as_usual(text, meant):
    assert read(text) == read(meant)


@pytest.mark.parametrize("seed", range(200))
def test_what_is_written_is_read_back(seed):
    draw = random.Random(seed)
    formula = random_formula(draw, ["a", "b", "Y", "until"][:2], draw.randint(0, 12), past=True)
    formulas = Formulas()
    text = formulas.text(parse_ltlf(write(formula), formulas))
    assert formulas.text(parse_ltlf(text, formulas)) == text
    assert same(text, write(formula))


def same(*texts):
    """Say whether formulas mean the same, as machines or as what they are not."""
    found = []
    for text in texts:
        try:
            found.append(hk.from_ltlf(text, ["a", "b"]))
        except FormulaError as error:
            found.append("before" in str(error))
    return found[0] == found[1] or hk.distinguish(*found) is None


def test_events_with_the_names_of_operators_are_written_in_quotes():
    formulas = Formulas()
    for name in (*WORDS, 'a "b" \\ c', "red button", "3rd"):
        number = formulas.name(name)
        assert parse_ltlf(formulas.text(number), formulas) == number


BEGIN = "expected an event, an operator or '('"
JOIN = "an operator that joins two formulas (<->, ->, |, &, U, W, R, M, S)"
TOO_LONG = (
    "this expression is too long: with its repetitions written out it must have at most 20,000 places between events"
)


BAD_FORMULAS = {
    "F (a": "column 3: this parenthesis is never closed",
    "a & b)": "column 6: this parenthesis was never opened",
    "a & & b": f"column 5: {BEGIN}, got '&'",
    "a @ b": "column 3: '@' means nothing here",
    "F Y": f'column 4: {BEGIN} (an event called Y is written in quotes: "Y"), got the end',
    "U a": f"""column 1: {BEGIN} (an event called U is written in quotes: "U"), got 'U'""",
    "": f"column 1: {BEGIN}, got the end",
    "a b": f"column 3: expected {JOIN} after the formula, got 'b'",
    "(a b)": f"column 4: expected ')' or {JOIN} after the formula, got 'b'",
    "F 3x": "column 3: a name that begins with a digit must be in quotes, got '3x'",
    "F a &\n  G (b": "line 2, column 5: this parenthesis is never closed",
    'F "a': "column 3: '\"' means nothing here",
    'F " "': "column 3: the name of an event must be text that can be read, got '\" \"'",
    "G !alarm": "`G !alarm` is true before anything happens, so there is nothing to do",
    "!a": "`!a` is true before anything happens, so there is nothing to do",
    "F a | !F a": "`F a | !F a` is true before anything happens, so there is nothing to do",
    "a & b": "`a & b` can never come true: one event happens at a time, and not a and b together; "
    "for both, write F a & F b",
    "F(a & b)": "`F(a & b)` can never come true: one event happens at a time, and not a and b together; "
    "for both, write F a & F b",
    "F(c & X(b & a)) & G !d": "`F(c & X(b & a))` can never come true: one event happens at a time, and not b and a "
    "together; for both, write F b & F a",
    "F(a & !a)": "`F(a & !a)` can never come true",
    "F a & G !a": "`F a & G !a` can never come true, as its conjuncts exclude each other",
    "F true": "a task needs at least one event, got none; name one in the formula, or give events",
}
BAD_EXPRESSIONS = {
    "(a": "column 1: this parenthesis is never closed",
    "a)": "column 2: this parenthesis was never opened",
    "a |": "column 4: expected an event, '.', '!' or '(', got the end",
    "* a": "column 1: expected an event, '.', '!' or '(', got '*'",
    "a{3,1}": "column 2: the second number must be at least as large as the first, got '{3,1}'",
    "a{x}": "column 2: '{' means nothing here",
    "a{30000}": TOO_LONG,
    "((a{1000}){1000}){1000}": TOO_LONG,
}
BAD_CONSTRAINTS = {
    "respons(a, b)": "column 1: expected the name of a DECLARE constraint (did you mean 'response'?), got 'respons'",
    "response a": "column 1: expected the name of a DECLARE constraint (did you mean 'response'?), got 'response a'",
    "response(a)": "response(a): response is of two events, as in response(a, b), got 1",
    "response(a, a)": "column 13: response is of two different events, got 'a'",
    "response(a, b": "column 14: expected ',' or ')', got the end",
    "response(a,, b)": "column 12: expected an event, got ','",
    "existence(a, b)": "column 14: expected a number from 1 to 10,000, got 'b'",
    "existence(a, 0)": "column 14: expected a number from 1 to 10,000, got '0'",
    "init(a, 2)": "init(a, 2): init is of one event, as in init(a), got 2",
    "response(a, b) x": "column 16: expected the end of the constraint, got 'x'",
}


def from_constraint(text):
    return hk.from_declare([text])


@pytest.mark.parametrize(
    ("make", "text", "said"),
    [
        *((hk.from_ltlf, text, said) for text, said in BAD_FORMULAS.items()),
        *((hk.from_regex, text, said) for text, said in BAD_EXPRESSIONS.items()),
        *((from_constraint, text, f"constraint 1: {said}") for text, said in BAD_CONSTRAINTS.items()),
    ],
)
def test_what_cannot_be_read_or_is_no_task_is_an_error_that_says_where_and_why(make, text, said):
    with pytest.raises(FormulaError) as caught:
        make(text)
    assert str(caught.value) == said


@pytest.mark.parametrize("constraints", [[], "response(a, b)", 3])
def test_constraints_come_as_a_list(constraints):
    with pytest.raises(FormulaError, match="constraint"):
        hk.from_declare(constraints)


HUGE = {
    "negations": "!" * 10_000 + "F a",
    "negations in parentheses": "!(" * 10_000 + "F a" + ")" * 10_000,
    "open parentheses": "(" * 100_000,
    "parentheses": "(" * 50_000 + "F a" + ")" * 50_000,
    "conjuncts": " & ".join(f"F e{i}" for i in range(10_000)),
    "implications": "a -> " * 20_000 + "F b",
    "unbalanced": "F (a & " * 14_000 + "b",
    "rubbish": "a ? " * 25_000,
    "one long name": "F " + "a" * 100_000,
    "too long": "F a & " * 200_000 + "F a",
}
HUGE_EXPRESSIONS = {
    "parentheses": "(" * 30_000 + "a" + ")" * 30_000,
    "open parentheses": "(" * 100_000,
    "negations": "!" * 10_001 + "a",
    "events": "a " * 30_000,
    "choices": "a|" * 30_000 + "a",
}


def answer(make, text, **limits):
    """Say whether there is a machine, or else an error of one sentence."""
    try:
        return bool(make(text, **limits).states)
    except HocketError as error:
        return "\n" not in str(error) and len(str(error)) < 400


@pytest.mark.parametrize(
    ("make", "text"),
    [
        *((hk.from_ltlf, text) for text in HUGE.values()),
        *((hk.from_regex, text) for text in HUGE_EXPRESSIONS.values()),
    ],
    ids=[*HUGE, *(f"expression of {name}" for name in HUGE_EXPRESSIONS)],
)
def test_sentences_of_any_depth_and_length_are_read_or_refused_without_a_recursion_error(make, text):
    assert answer(make, text, most_states=1_000, most_seconds=5)


def test_random_text_is_read_or_refused():
    signs = [*SIGNS.values(), *WORDS, "(", ")", '"', "a", "b", "{2}", ",", "*", ".", "@", "\x00", "é", "response"]
    draw = random.Random(0)
    for _ in range(2_000):
        text = " ".join(draw.choices(signs, k=draw.randint(0, 8)))
        for make in (hk.from_ltlf, hk.from_regex, lambda t, **o: hk.from_declare([t], **o)):
            assert answer(make, text, most_states=500, most_seconds=2)


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_has_its_meaning_in_a_sentence(name):
    template = TEMPLATES[name]
    assert template.sentence and template.sentence[0].islower() and not template.sentence.endswith(".")
    assert template.arguments in ("a", "a, n", "a, b")


def test_two_negations_cancel_out():
    formulas = Formulas()
    number = formulas.name("a")
    assert formulas.make(Op.NOT, formulas.make(Op.NOT, number)) == number


# The command line.


def test_a_formula_is_checked_from_the_shell(capsys):
    assert run(["check", "--formula", "(!door U key) & F door", "--control", "door=A1", "key=A2"]) == 1
    said = capsys.readouterr().out
    assert "!door U key & F door  door → violated   key → F door" in said
    assert "--knows A1=door,key A2=key" in said
    assert run(["check", "--formula", "(!door U key) & F door", "--knows", "A1=door,key", "A2=key"]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--formula", "F (door"], "hocket: formula: column 3: this parenthesis is never closed"),
        (["--regex", "a |"], "hocket: regex: column 4: expected"),
        (["--declare", "respond(a)"], "hocket: declare: constraint 1: column 1: expected"),
        (["--formula", "G a"], "hocket: formula: `G a` is true before anything happens"),
        (["--formula", "F a", "--regex", "a"], "hocket: name a task or a machine, or give one of --formula, --regex"),
        ([], "hocket: name a task or a machine, or give one of --formula, --regex and --declare, got nothing"),
        (["--formula", "(" * 50_000], "hocket: formula: column 50001: expected an event"),
    ],
)
def test_bad_input_in_the_shell_is_one_line_and_exit_code_2(words, said, capsys):
    assert run(["check", *words]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(said) and captured.err.count("\n") == 1 and not captured.out


def test_independent_constraints_are_shown_and_repaired_as_parts(capsys):
    constraints = [text for i in range(30) for text in (f"precedence(a{i}, b{i})", f"existence(b{i})")]
    control = [f"{e}{i}={e.upper()}{i}" for i in range(30) for e in "ab"]
    assert run(["check", "--declare", *constraints, "--control", *control]) == 1
    said = capsys.readouterr().out
    assert "a composition of 30 parts, 60 events" in said and "cost 30" in said


def test_a_sentence_can_be_repaired_into_a_file(tmp_path):
    path = tmp_path / "door.toml"
    assert (
        run(["repair", "--formula", "(!door U key) & F door", "--control", "door=A1", "key=A2", "-o", str(path)]) == 0
    )
    assert hk.load_machine(path) == hk.from_ltlf("(!door U key) & F door")


def test_reading_formulas_loads_nothing_of_others_but_numpy():
    code = "import hocket, sys; hocket.from_ltlf('F a'); print({'numba', 'rich', 'scipy'} & {*sys.modules} or False)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
