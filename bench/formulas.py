"""How fast do formulas become machines, and do others make the same of them? Beside MONA and Spot, in one run.

    python bench/formulas.py [--random 10000] [--seconds 60] [--out formulas.json]

MONA (Debian's package `mona`) gets each formula with the rule that exactly one event happens at a time; Spot (the
package `spottl` from PyPI, which is GPL and no dependency of hocket) gets it as it is. What is not installed is left
out. Every measurement of hocket and Spot runs in a process of its own, so that its peak memory is its own.
"""

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import hocket as hk
from ltlf_oracle import MONA, mona_automaton, random_formula, run_mona, satisfies, to_mona, traces, write

GOALS = (8, 12, 16, 18, 20)
END = "end"  # the event that ends a benchmark formula, so that it is a task: not true before anything happens


def event(name):
    return ("event", name)


def join(op, formulas):
    joined, *rest = formulas
    for formula in rest:
        joined = (op, joined, formula)
    return joined


def names(count):
    return [event(f"e{i}") for i in range(1, count + 1)]


# Formulas of the families that sets of benchmarks for LTLf and LTL are made of, by a generator of our own.

FAMILIES = {
    "E: F p & ...": lambda n: join("&", [("F", p) for p in names(n)]),
    "S: G !p & ...": lambda n: join("&", [("G", ("!", p)) for p in names(n)]),
    "U: ((p U q) U r) ...": lambda n: join("U", names(n)),
    "U2: p U (q U (r ...": lambda n: _right("U", names(n)),
    "R: (G F p | F G q) & ...": lambda n: join(
        "&", [("|", ("G", ("F", p)), ("F", ("G", q))) for p, q in zip(names(n), names(n + 1)[1:], strict=True)]
    ),
    "C1: G F p | ...": lambda n: join("|", [("G", ("F", p)) for p in names(n)]),
    "C2: G F p & ...": lambda n: join("&", [("G", ("F", p)) for p in names(n)]),
    "Q: (F p | G q) & ...": lambda n: join(
        "&", [("|", ("F", p), ("G", ("!", q))) for p, q in zip(names(n), names(n + 1)[1:], strict=True)]
    ),
    "response chain": lambda n: join(
        "&", [("G", ("->", p, ("F", q))) for p, q in zip(names(n), names(n + 1)[1:], strict=True)]
    ),
    "request, grant within 3": lambda n: join(
        "&", [("G", ("->", p, _within(3, q))) for p, q in zip(names(n), names(2 * n)[n:], strict=True)]
    ),
    "sequence F(p & X F(q ...": lambda n: _sequence(names(n)),
    "precedence pairs": lambda n: join(
        "&", [f for p, q in zip(names(n), names(2 * n)[n:], strict=True) for f in (("W", ("!", q), p), ("F", q))]
    ),
    "p n steps before the end": lambda n: ("F", ("&", event("e1"), _nexts(n))),
}
SIZES = (2, 3, 4, 5, 6, 8, 10, 12)


def _right(op, formulas):
    joined = formulas[-1]
    for formula in reversed(formulas[:-1]):
        joined = (op, formula, joined)
    return joined


def _within(steps, goal):
    found = goal
    for _ in range(steps - 1):
        found = ("|", goal, ("X", found))
    return ("X", found)


def _sequence(goals):
    found = ("F", goals[-1])
    for goal in reversed(goals[:-1]):
        found = ("F", ("&", goal, ("X", found)))
    return found


def _nexts(count):
    found = ("!", ("X", ("true",)))
    for _ in range(count):
        found = ("X", found)
    return found


def events_of(formula):
    """List the events in a formula."""
    found: dict[str, None] = {}
    waiting = [formula]
    while waiting:
        op, *arguments = waiting.pop()
        if op == "event":
            found[arguments[0]] = None
        else:
            waiting += arguments
    return sorted(found)


# Measurements.


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure_goals(count: int) -> dict[str, float]:
    """Parse, build and check F e1 & ... & F en, an agent for each event."""
    hk.decompose(hk.from_ltlf("F e1"), {"A1": {"e1"}})  # loads what is needed
    begin = time.perf_counter()
    cpu = time.process_time()
    machine = hk.from_ltlf(" & ".join(f"F e{i}" for i in range(1, count + 1)))
    built = time.perf_counter()
    knows = {f"A{i}": {f"e{i}"} for i in range(1, count + 1)}
    assert hk.decompose(machine, knows, {f"e{i}": {f"A{i}"} for i in range(1, count + 1)}).ok
    checked = time.perf_counter()
    cpu = time.process_time() - cpu
    times = {"build": built - begin, "check": checked - built, "cpu": cpu}
    return {"states": len(machine.states), **times, "peak_mb": peak_mb()}


def declare_model(kind: str) -> list[str]:
    """Draw a model of 20 constraints over 20 events."""
    if kind == "precedence pairs":
        return [text for i in range(10) for text in (f"precedence(e{2 * i}, e{2 * i + 1})", f"existence(e{2 * i + 1})")]
    if kind == "response ring":
        return [*(f"response(e{i}, e{(i + 1) % 19})" for i in range(19)), "existence(e19)"]
    draw = random.Random(int(kind.split()[-1]))
    binary = ("response", "precedence", "responded_existence", "alternate_response", "not_co_existence", "choice")
    events = [f"e{i}" for i in range(20)]
    found = ["{}({}, {})".format(draw.choice(binary), *draw.sample(events, 2)) for _ in range(15)]
    return [*found, *(f"existence(e{i})" for i in draw.sample(range(20), 5))]


def measure_declare(kind: str) -> dict[str, float | str]:
    constraints = declare_model(kind)
    hk.decompose(hk.from_ltlf("F e1"), {"A1": {"e1"}})
    events = [f"e{i}" for i in range(20)]
    begin, cpu = time.perf_counter(), time.process_time()
    try:
        machine = hk.from_declare(constraints, events)
    except hk.HocketError as error:
        times = {"build": time.perf_counter() - begin, "cpu": time.process_time() - cpu}
        return {"said": str(error), **times, "peak_mb": peak_mb()}
    built = time.perf_counter()
    hk.decompose(machine, {f"A{i}": set(events[5 * i : 5 * i + 5]) for i in range(4)})
    checked = time.perf_counter()
    times = {"build": built - begin, "check": checked - built, "cpu": time.process_time() - cpu}
    return {"states": len(machine.states), **times, "peak_mb": peak_mb()}


def measure_parts(count: int) -> dict[str, float]:
    """Check and assign so many constraints as parts."""
    pairs = [text for i in range(count // 2) for text in (f"precedence(a{i}, b{i})", f"existence(b{i})")]
    begin = time.perf_counter()
    parts = hk.from_declare(pairs, parts=True)
    built = time.perf_counter()
    control = {f"{e}{i}": {f"{e.upper()}{i}"} for i in range(count // 2) for e in "ab"}
    found = hk.cheapest_assignment(parts, [agent for own in control.values() for agent in own], control)
    assigned = time.perf_counter()
    assert hk.decompose(parts, found, control).ok
    checked = time.perf_counter()
    return {"build": built - begin, "assign": assigned - built, "check": checked - assigned, "peak_mb": peak_mb()}


def measure_spot(count: int) -> dict[str, float]:
    import spot

    begin = time.perf_counter()
    formula = spot.from_ltlf(" & ".join(f"F e{i}" for i in range(1, count + 1)))
    automaton = spot.to_finite(formula.translate("det", "buchi", "sbacc"))
    return {"states": automaton.num_states(), "build": time.perf_counter() - begin, "peak_mb": peak_mb()}


ALONE = {"goals": measure_goals, "declare": measure_declare, "parts": measure_parts, "spot": measure_spot}


def alone(what: str, argument: object, seconds: float) -> dict[str, float] | None:
    """Measure in a process of its own; None if it takes too long or does not work."""
    command = [sys.executable, __file__, "--one", what, str(argument)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=True)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return None
    return json.loads(done.stdout.splitlines()[-1])


def time_mona(formula, events, folder: Path, seconds: float) -> float | None:
    """Time MONA, the whole process; None if it takes too long or gives up."""
    if MONA is None:
        return None
    program = to_mona(formula, events)
    begin = time.perf_counter()
    try:
        output = run_mona(program, folder / "bench.mona", seconds)
    except subprocess.TimeoutExpired:
        return None
    return time.perf_counter() - begin if "Initial state" in output else None


def time_hocket(text: str, events, seconds: float) -> float | str:
    """Time hocket; what it says where there is no machine within the time."""
    begin = time.perf_counter()
    try:
        hk.from_ltlf(text, events, most_seconds=seconds)
    except hk.HocketError as error:
        if "too large" in str(error) or "seconds" in str(error):
            return str(error)
    return time.perf_counter() - begin


def bench_families(folder: Path, seconds: float) -> list[dict[str, object]]:
    rows = []
    for family, make in FAMILIES.items():
        for size in SIZES:
            formula = ("&", make(size), ("F", event(END)))
            events = events_of(formula)
            own = time_hocket(write(formula), events, seconds)
            rows.append(
                {"family": family, "size": size, "hocket": own, "mona": time_mona(formula, events, folder, seconds)}
            )
            if rows[-1]["mona"] is None and size > 4:
                break
    return rows


def bench_random(count: int, folder: Path) -> dict[str, int]:
    """Count the disagreements with MONA and with the evaluator on random formulas."""
    against = {"formulas": 0, "mona": 0, "evaluator": 0}
    for seed in range(count):
        draw = random.Random(10**6 + seed)
        events = ["a", "b", "c", "d"][: draw.randint(1, 4)]
        formula = random_formula(draw, events, draw.randint(1, 10), past=draw.random() < 0.4)
        try:
            machine = hk.from_ltlf(write(formula), events)
        except hk.errors.FormulaError:
            machine = None
        against["formulas"] += 1
        longest = {1: 8, 2: 6, 3: 4, 4: 3}[len(events)]
        verdicts = {trace: satisfies(formula, trace) for trace in traces(events, longest)}
        against["evaluator"] += not agrees_with_evaluator(machine, verdicts)
        if MONA is not None:
            against["mona"] += not agrees_with_mona(
                machine, events, *mona_automaton(formula, events, folder / "r.mona")
            )
    return against


def agrees_with_evaluator(machine, verdicts) -> bool:
    if machine is None:
        return verdicts[()] or not any(verdicts.values())
    done = {trace: any(verdicts[trace[:n]] for n in range(1, len(trace) + 1)) for trace in verdicts}
    return not verdicts[()] and all(machine.run(t, undefined="stay").completed == done[t] for t in verdicts)


def agrees_with_mona(machine, events, start, accepting, rows) -> bool:
    if machine is None:  # MONA knows no empty trace, so the evaluator alone can tell
        return True
    queue = [(machine.initial, start)]
    seen = set(queue)
    for state, other in queue:
        for name in events:
            pair = (machine.step(state, name) or state, rows[other, name])
            if (pair[0] in machine.final) != (pair[1] in accepting):
                return False
            if pair[0] not in machine.final and pair not in seen:
                seen.add(pair)
                queue.append(pair)
    return True


# The table.


def show(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,.3f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)[:60]


def print_rows(title: str, rows: list[dict[str, object]]) -> None:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    cells = [columns, *([show(row.get(column)) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(f"\n{title}")
    for line in cells:
        print("  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True)), flush=True)


def summarise(rows: list[dict[str, object]], seconds: float) -> dict[str, object]:
    """Compare with MONA where it answered: how many hocket answers, and the medians of both and of the ratio."""
    answered = [row for row in rows if row["mona"] is not None]
    done = [row for row in answered if isinstance(row["hocket"], float) and row["hocket"] < seconds]
    return {
        "formulas": len(rows),
        "mona answers": len(answered),
        "of these hocket": len(done),
        "median hocket": statistics.median(row["hocket"] for row in done) if done else None,
        "median mona": statistics.median(row["mona"] for row in answered) if answered else None,
        "median hocket/mona": statistics.median(row["hocket"] / row["mona"] for row in done) if done else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--random", type=int, default=10_000, help="random formulas to compare on")
    parser.add_argument("--seconds", type=float, default=60.0, help="time that each tool has for a formula")
    parser.add_argument("--out", type=Path, default=None, help="write the numbers as JSON")
    parser.add_argument("--one", nargs=2, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        what, argument = options.one
        print(json.dumps(ALONE[what](argument if what == "declare" else int(argument))))
        return
    results: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        goals = []
        for count in GOALS:
            formula = join("&", [("F", p) for p in names(count)])
            mona = time_mona(formula, events_of(formula), folder, options.seconds) if count <= 18 else None
            spot = alone("spot", count, options.seconds) if count <= 12 else None
            row = {
                "events": count,
                **(alone("goals", count, 600) or {}),
                "mona": mona,
                "spot": (spot or {}).get("build"),
            }
            goals.append(row)
        results["goals"] = goals
        print_rows("F e1 & ... & F en (seconds)", goals)
        kinds = ("precedence pairs", "response ring", *(f"random {seed}" for seed in range(6)))
        results["declare"] = [{"model": kind, **(alone("declare", kind, 600) or {})} for kind in kinds]
        print_rows("20 DECLARE constraints over 20 events", results["declare"])
        results["parts"] = [{"constraints": n, **(alone("parts", n, 600) or {})} for n in (100, 1000)]
        print_rows("constraints as parts: checked and assigned", results["parts"])
        results["families"] = bench_families(folder, options.seconds)
        print_rows("families of public benchmark sets, each with F end", results["families"])
        results["summary"] = summarise(results["families"], options.seconds)
        print_rows("beside MONA", [results["summary"]])
        results["random"] = bench_random(options.random, folder)
        print_rows("disagreements on random formulas", [results["random"]])
    if options.out is not None:
        options.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
