"""What formulas mean, written apart from hocket: on explicit traces, by the definitions; and what MONA makes of them.

A formula is a nested tuple: ("event", name), ("true",), ("!", f), ("U", f, g), ... in the signs of the surface syntax.
"""

import random
import re
import shutil
import subprocess
from itertools import product

UNARY = ("!", "X", "WX", "F", "G")
BINARY = ("&", "|", "->", "<->", "U", "W", "R", "M")
PAST_UNARY = ("Y", "H", "O")
PAST_BINARY = ("S",)


def random_formula(draw: random.Random, events, size, past=False):
    """Draw a formula with about so many operators."""
    if size <= 0:
        return ("true",) if draw.random() < 0.03 else ("event", draw.choice(events))
    unary, binary = (UNARY + PAST_UNARY, BINARY + PAST_BINARY) if past else (UNARY, BINARY)
    if draw.random() < 0.45:
        return (draw.choice(unary), random_formula(draw, events, size - 1, past))
    left = draw.randint(0, size - 1)
    op = draw.choice(binary)
    return (op, random_formula(draw, events, left, past), random_formula(draw, events, size - 1 - left, past))


def write(formula) -> str:
    """Write a formula with all its parentheses."""
    op, *arguments = formula
    if op == "event":
        return arguments[0]
    if len(arguments) == 2:
        return f"({write(arguments[0])} {op} {write(arguments[1])})"
    return f"{op}({write(arguments[0])})" if arguments else op


def holds(formula, trace, i=0) -> bool:
    """Say whether a formula holds at a position of a trace; the empty trace has none, and nothing is there."""
    op, *f = formula
    n = len(trace)
    match op:
        case "true":
            return True
        case "false":
            return False
        case "event":
            return i < n and trace[i] == f[0]
        case "!":
            return not holds(f[0], trace, i)
        case "&":
            return holds(f[0], trace, i) and holds(f[1], trace, i)
        case "|":
            return holds(f[0], trace, i) or holds(f[1], trace, i)
        case "->":
            return not holds(f[0], trace, i) or holds(f[1], trace, i)
        case "<->":
            return holds(f[0], trace, i) == holds(f[1], trace, i)
        case "X":
            return i + 1 < n and holds(f[0], trace, i + 1)
        case "WX":
            return i + 1 >= n or holds(f[0], trace, i + 1)
        case "F":
            return any(holds(f[0], trace, j) for j in range(i, n))
        case "G":
            return all(holds(f[0], trace, j) for j in range(i, n))
        case "U":
            return any(holds(f[1], trace, j) and all(holds(f[0], trace, k) for k in range(i, j)) for j in range(i, n))
        case "M":  # the second up to and with a position at which the first holds, too
            return any(
                holds(f[0], trace, j) and all(holds(f[1], trace, k) for k in range(i, j + 1)) for j in range(i, n)
            )
        case "W":
            return holds(("|", ("U", f[0], f[1]), ("G", f[0])), trace, i)
        case "R":
            return holds(("|", ("M", f[0], f[1]), ("G", f[1])), trace, i)
        case "Y":
            return 0 < i < n and holds(f[0], trace, i - 1)
        case "O":
            return i < n and any(holds(f[0], trace, j) for j in range(i + 1))
        case "H":
            return i >= n or all(holds(f[0], trace, j) for j in range(i + 1))
        case "S":
            return i < n and any(
                holds(f[1], trace, j) and all(holds(f[0], trace, k) for k in range(j + 1, i + 1)) for j in range(i + 1)
            )
    raise AssertionError(op)


def is_pure_past(formula) -> bool:
    """Say whether a formula has temporal operators and all of them look back."""
    ops = set(_ops(formula))
    return bool(ops & {*PAST_UNARY, *PAST_BINARY}) and not ops & {"X", "WX", "F", "G", "U", "W", "R", "M"}


def _ops(formula):
    yield formula[0]
    for argument in formula[1:]:
        if isinstance(argument, tuple):
            yield from _ops(argument)


def satisfies(formula, trace) -> bool:
    """Say whether a trace satisfies a formula: at its first position or, if it only looks back, at its last."""
    return holds(formula, trace, max(0, len(trace) - 1) if is_pure_past(formula) else 0)


def completes(formula, trace) -> bool:
    """Say whether some beginning of a trace satisfies a formula; nothing is no beginning."""
    return any(satisfies(formula, trace[:n]) for n in range(1, len(trace) + 1))


def traces(events, longest):
    """List all traces up to a length."""
    for length in range(longest + 1):
        yield from product(events, repeat=length)


# MONA, in its mode for strings: numbers are positions, `$` is the set of all, and an event is the set of its positions.

MONA = shutil.which("mona")


def to_mona(formula, events) -> str:
    """Write a program of MONA whose automaton accepts the traces that satisfy the formula, one event at a time."""
    fresh = iter(range(10**9))

    def say(f, i):
        op, *a = f
        match op:
            case "true" | "false":
                return op
            case "event":
                return f"({i} in E{events.index(a[0])})"
            case "!":
                return f"~({say(a[0], i)})"
            case "&" | "|":
                return f"({say(a[0], i)} {op} {say(a[1], i)})"
            case "->":
                return f"({say(a[0], i)} => {say(a[1], i)})"
            case "<->":
                return f"({say(a[0], i)} <=> {say(a[1], i)})"
        j, k = f"p{next(fresh)}", f"p{next(fresh)}"
        match op:
            case "X":
                return f"(ex1 {j}: {i} < {j} & {j} = {i} + 1 & {say(a[0], j)})"
            case "WX":
                return f"(all1 {j}: ({i} < {j} & {j} = {i} + 1) => {say(a[0], j)})"
            case "F":
                return f"(ex1 {j}: {i} <= {j} & {say(a[0], j)})"
            case "G":
                return f"(all1 {j}: ({i} <= {j}) => {say(a[0], j)})"
            case "U":
                before = f"(all1 {k}: ({i} <= {k} & {k} < {j}) => {say(a[0], k)})"
                return f"(ex1 {j}: {i} <= {j} & {say(a[1], j)} & {before})"
            case "M":
                upto = f"(all1 {k}: ({i} <= {k} & {k} <= {j}) => {say(a[1], k)})"
                return f"(ex1 {j}: {i} <= {j} & {say(a[0], j)} & {upto})"
            case "W":
                return f"({say(('U', *a), i)} | {say(('G', a[0]), i)})"
            case "R":
                return f"({say(('M', *a), i)} | {say(('G', a[1]), i)})"
            case "Y":
                return f"(ex1 {j}: {j} < {i} & {i} = {j} + 1 & {say(a[0], j)})"
            case "O":
                return f"(ex1 {j}: {j} <= {i} & {say(a[0], j)})"
            case "H":
                return f"(all1 {j}: {j} <= {i} => {say(a[0], j)})"
            case "S":
                since = f"(all1 {k}: ({j} < {k} & {k} <= {i}) => {say(a[0], k)})"
                return f"(ex1 {j}: {j} <= {i} & {say(a[1], j)} & {since})"
        raise AssertionError(op)

    sets = [f"E{number}" for number in range(len(events))]
    others = {a: " & ".join(f"q notin {b}" for b in sets if b != a) or "true" for a in sets}
    one = " & ".join(f"(all1 q: q in {a} => ({others[a]}))" for a in sets)
    some = f"(all1 q: {' | '.join(f'q in {a}' for a in sets)})"
    position = "max $" if is_pure_past(formula) else "0"
    return f"m2l-str;\nvar2 {', '.join(sets)};\n{one} & {some} & {say(formula, position)};\n"


def run_mona(program, path, seconds=60):
    """Run MONA on a program; return its automaton: the start, the accepting states, and the moves as it prints them."""
    path.write_text(program)
    done = subprocess.run([MONA, "-w", "-q", str(path)], capture_output=True, text=True, timeout=seconds, check=False)
    return done.stdout


def read_mona(output):
    """Read MONA's automaton: (initial, accepting, rejecting or don't-care states, {state: [(guard, target)]})."""
    initial = int(re.search(r"Initial state: (\d+)", output)[1])
    accepting = {int(word) for word in re.search(r"Accepting states: ([\d ]*)", output)[1].split()}
    moves = {}
    for state, guard, target in re.findall(r"State (\d+): ?([01X]*) -> state (\d+)", output):
        moves.setdefault(int(state), []).append((guard, int(target)))
    return initial, accepting, moves


def mona_automaton(formula, events, path, seconds=60):
    """Give MONA's automaton over single events: the initial state, the accepting ones, {(state, event): state}."""
    initial, accepting, moves = read_mona(run_mona(to_mona(formula, events), path, seconds))
    rows = {}
    ((_, initial),) = moves[
        initial
    ]  # the first letter of MONA's is for variables without positions, and there are none
    queue = [initial]
    for state in queue:
        for number, event in enumerate(events):
            letter = "".join("1" if other == number else "0" for other in range(len(events)))
            end = next(t for guard, t in moves[state] if all(g in ("X", c) for g, c in zip(guard, letter, strict=True)))
            rows[state, event] = end
            if end not in queue:
                queue.append(end)
    return initial, accepting, rows
