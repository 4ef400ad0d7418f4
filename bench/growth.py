"""How do time and memory grow with all that a user can make large? Agents, cells, states, transitions, runs.

    python bench/growth.py [--only agents cells states transitions runs] [--sizes 1000 2000 4000] [--out growth.json]

Each subject is made at growing sizes, and all that is done with it is measured in a process of its own: CPU seconds of
each step, and the most memory that was ever in use. The last column is the exponent of growth between the first and the
last size: 1 is linear. Whoever measures maps runs a small one first, of 40,000 cells, so that nothing is compiled.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import hocket as hk
from hocket.machine.completion import find_completion
from hocket.task.tables import compile_task

Step = tuple[str, Callable[[], object]]
FORMATS = ("json", "toml", "txt", "dot", "hoa")


def task_steps(task: hk.Task, folder: Path, steps: int, suffix: str = "json") -> Iterator[Step]:
    """All that is done with a task."""
    path = folder / f"task.{suffix}"
    runs: list[hk.Run] = []
    yield "decompose", lambda: task.decomposition.ok
    yield "digest", lambda: task.digest
    yield "save", lambda: hk.save_task(task, path)
    yield "load", lambda: hk.load_task(path)
    yield "tables", lambda: compile_task(task)  # which are kept with the task
    yield "check", lambda: (found := hk.check_task(task)).ok and found.notes and found.warnings
    yield "show", lambda: command("show", path)
    yield "train", lambda: runs.extend(hk.train(task, seeds=1, steps=steps, threads=1))
    yield "train optimal", lambda: hk.train(task, "optimal", seeds=1, steps=steps, threads=1)
    yield "evaluate", lambda: hk.evaluate(task, runs, 1)


def command(*words: object) -> None:
    """Run a command of hocket's in this process, and throw away what it says."""
    from contextlib import redirect_stdout
    from io import StringIO

    from hocket.cli.main import run

    with redirect_stdout(StringIO()) as said:
        run([str(word) for word in words])
    if len(said.getvalue()) > 200_000:
        raise SystemExit(f"{words} says {len(said.getvalue()):,} characters")


def agents(size: int, folder: Path) -> Iterator[Step]:
    """So many agents meet, and then go to their goals."""
    made: list[hk.Task] = []
    yield "make", lambda: made.append(hk.load_task(f"rendezvous-{size}"))
    yield from task_steps(made[0], folder, 1_000)


def cells(size: int, folder: Path) -> Iterator[Step]:
    """Two agents meet on a square map of so many cells."""
    side = math.isqrt(size)
    made: list[hk.Task] = []
    yield "make", lambda: made.append(hk.rendezvous(2, rows=side, columns=side))
    yield from task_steps(made[0], folder, 10_000)


def states(size: int, folder: Path) -> Iterator[Step]:
    """Two agents go back and forth, each by itself, so often that their machines have so many states, and then meet."""
    grid = hk.Grid(1, 5, places={"left": frozenset({0}), "right": frozenset({4}), "mat": frozenset({2})})
    parts, events = {}, {"meet": {name: hk.Condition("mat") for name in ("A1", "A2")}}
    for name in ("A1", "A2"):
        moves = {(f"u{i}", f"{name} {('left', 'right')[i % 2]}"): f"u{i + 1}" for i in range(size - 2)}
        moves[f"u{size - 2}", "meet"] = f"u{size - 1}"
        parts[name] = hk.RewardMachine(initial="u0", transitions=moves, final={f"u{size - 1}"})
        events |= {f"{name} {place}": {name: hk.Condition(place)} for place in ("left", "right")}
    team = {name: hk.Agent(2, part.events) for name, part in parts.items()}
    made: list[hk.Task] = []
    yield "make", lambda: made.append(hk.Task("shuttle", grid, team, events, hk.Composition(parts)))
    yield from task_steps(made[0], folder, 1_000)


def transitions(size: int, folder: Path) -> Iterator[Step]:
    """A random team machine of so many transitions, twenty in a state, of which each of four agents knows fifteen."""
    labels, rng = [f"e{i}" for i in range(24)], Random(0)
    count = size // 20
    names = [f"u{i}" for i in range(count + 1)]
    moves = {
        (name, event): names[(place + rng.randint(1, count)) % (count + 1)]  # never back to itself, which HOA lacks
        for place, name in enumerate(names[:-1])
        for event in rng.sample(labels, 20)
    }
    knows = {f"A{i}": rng.sample(labels, 15) for i in range(4)}
    made: list[hk.RewardMachine] = []
    yield "make", lambda: made.append(hk.RewardMachine(initial="u0", transitions=moves, final=names[-1:]))
    machine = made[0]
    for suffix in FORMATS:
        path = folder / f"machine.{suffix}"
        yield f"save {suffix}", lambda path=path: hk.save_machine(machine, path)
        if path.exists():
            yield f"load {suffix}", lambda path=path: hk.load_machine(path)
    yield "decompose", lambda: hk.decompose(machine, knows).explain()
    yield "repair", lambda: hk.repair(machine, knows, effort=1_000_000)
    yield "minimize", lambda: hk.minimize(machine)
    yield "complete", lambda: find_completion(machine).warnings


def runs(size: int, folder: Path) -> Iterator[Step]:
    """A folder of so many runs."""
    study = hk.Study([hk.load_task("rendezvous-2")], learners=["dqprm"], seeds=size, steps=10_000)
    yield "run", lambda: hk.run_study(study, folder)
    yield "resume", lambda: hk.run_study(study, folder)
    yield "load", lambda: hk.load_results(folder)
    yield "summarize", lambda: hk.summarize(hk.load_results(folder))
    yield "report", lambda: hk.write_report(folder, folder / "report.html")


SUBJECTS = {
    "agents": (agents, [25_000, 50_000, 100_000]),
    "cells": (cells, [250_000, 500_000, 1_000_000]),
    "states": (states, [8_000, 16_000, 32_000]),
    "transitions": (transitions, [500_000, 1_000_000, 2_000_000]),
    "runs": (runs, [250, 500, 1_000]),
}


def measure(subject: str, size: int) -> None:
    """Measure one subject at one size in this process, and print what was found, a line of JSON for each step."""
    warm_up()
    with TemporaryDirectory() as folder:
        for name, act in SUBJECTS[subject][0](size, Path(folder)):
            begin = time.process_time()
            try:
                act()
                refused = ""
            except hk.HocketError as error:
                refused = str(error)
            used = time.process_time() - begin
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1_024
            print(json.dumps([name, round(used, 3), peak, refused]), flush=True)


def warm_up() -> None:
    """Compile what is compiled on first use."""
    task = hk.load_task("rendezvous-2")
    hk.evaluate(task, hk.train(task, seeds=1, steps=1_000), 1)


def grow(subject: str, sizes: list[int]) -> dict[str, dict[int, list[object]]]:
    """Measure a subject at all sizes, each in a process of its own."""
    found: dict[str, dict[int, list[object]]] = {}
    for size in sizes:
        words = [sys.executable, __file__, "--measure", subject, str(size)]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
        for line in done.stdout.splitlines():
            name, *own = json.loads(line)
            found.setdefault(name, {})[size] = own
    return found


def show(subject: str, found: dict[str, dict[int, list[object]]], sizes: list[int]) -> str:
    """Lay out what was found as a table: seconds at each size and the exponent of growth, and then megabytes."""
    lines = [f"| {subject} | {' | '.join(f'{size:,}' for size in sizes)} | exponent |"]
    lines.append(f"| --- |{' ---: |' * (len(sizes) + 1)}")
    for name, own in found.items():
        entries = [entry(own.get(size)) for size in sizes]
        lines.append(f"| {name} | {' | '.join(entries)} | {exponent(own, sizes)} |")
    peaks = [max((own[size][1] for own in found.values() if size in own), default=0) for size in sizes]
    lines.append(f"| memory | {' | '.join(f'{peak:,} MB' for peak in peaks)} | |")
    return "\n".join(lines)


def entry(own: list | None) -> str:
    """Show one measurement."""
    if own is None:
        return "–"
    used, _, refused = own
    return "refused" if refused else f"{used:.2g} s" if used < 10 else f"{used:.0f} s"


def exponent(own: dict[int, list], sizes: list[int]) -> str:
    """Say how time grows from the first size to the last, where it is long enough to be told."""
    times = [own[size][0] for size in (sizes[0], sizes[-1]) if size in own and not own[size][2]]
    if len(times) < 2 or min(times) < 0.05 or len(sizes) < 2:
        return "–"
    return f"{math.log(times[1] / times[0]) / math.log(sizes[-1] / sizes[0]):.2f}"


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SUBJECTS, default=list(SUBJECTS))
    parser.add_argument("--sizes", nargs="+", type=int, help="in place of each subject's own")
    parser.add_argument("--out", type=Path, help="a file for the numbers, as JSON")
    parser.add_argument("--measure", nargs=2, metavar=("SUBJECT", "SIZE"), help="one measurement, in this process")
    options = parser.parse_args()
    if options.measure:
        measure(options.measure[0], int(options.measure[1]))
        return
    everything = {}
    for subject in options.only:
        sizes = options.sizes or SUBJECTS[subject][1]
        everything[subject] = grow(subject, sizes)
        print(show(subject, everything[subject], sizes), end="\n\n", flush=True)
    if options.out:
        options.out.write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    main()
