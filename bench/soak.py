"""Does anything crash, hang or lie? Hostile files of every format, kills at any moment, and folders tampered with.

    python bench/soak.py [--inputs 100000] [--kills 200] [--tampers 500] [--seconds 3600] [--seed 0] [--out soak.json]

Everything depends on the seed alone, but for kills after a while. Inputs and tampered folders are tried in forks, so
that whatever ends a process ends but that; a kill is one of `kill -9`, at a random moment or inside a write. Exits with
1 if anything has crashed or hung, or if any result differs from that of an unbroken study. Needs a system with forks.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import Value
from pathlib import Path

import hocket as hk
from hocket.report.page import write_report
from hocket.report.summary import summarize
from hocket.study.engines import ThreadEngine
from hocket.study.policies import damaged_policies, find_policies
from hocket.study.running import run_study
from hocket.study.study import Study
from hostile import DEAR, Inputs, mutate

ROUND = 500  # inputs in one fork
FEW = 25  # of those that take long
PATIENCE = 20  # seconds until an input counts as one that hangs
MEMORY = 12 * 2**30  # bytes of addresses; compiled code reserves some
KEPT = 20  # of the crashes that are told


@dataclass
class Tally:
    """What became of all attacks of one kind."""

    counts: Counter = field(default_factory=Counter)  # read, refused, crashed, hung, ...
    slowest: float = 0.0
    told: list = field(default_factory=list)

    def add(self, other):
        self.counts.update(other["counts"])
        self.slowest = max(self.slowest, other["slowest"])
        self.told += other["told"]


def in_fork(work, tally: Tally) -> None:
    """Let a fork do something and tell what became of it; its end by a signal is a crash."""
    reader, writer = os.pipe()
    at = Value("q", 0)
    child = os.fork()
    if not child:
        os.close(reader)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        signal.signal(signal.SIGALRM, _hang)
        own = Tally()
        work(own, at)
        with os.fdopen(writer, "w") as file:
            json.dump({"counts": own.counts, "slowest": own.slowest, "told": own.told}, file)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        said = file.read()
    status = os.waitpid(child, 0)[1]
    if status or not said:
        tally.add({"counts": {"crashed": 1}, "slowest": 0.0, "told": [f"input {at.value}: ended by status {status}"]})
    else:
        tally.add(json.loads(said))


class HangError(BaseException):
    """Something takes too long; not even a handler of all errors keeps it."""


def _hang(*_: object) -> None:
    raise HangError


def judge(attempt, tally: Tally, label: str) -> None:
    """Count what becomes of an attempt."""
    begin = time.perf_counter()
    signal.alarm(PATIENCE)
    try:
        attempt()
        outcome = "read"
    except hk.HocketError:
        outcome = "refused"
    except HangError:
        outcome = "hung"
        tally.told.append(f"{label}: hangs\n{traceback.format_exc(limit=-3)}")
    except Exception:  # which is what is looked for
        outcome = "crashed"
        tally.told.append(f"{label}\n{traceback.format_exc(limit=-4)}")
    finally:
        signal.alarm(0)
    tally.counts[outcome] += 1
    tally.slowest = max(tally.slowest, time.perf_counter() - begin)


# Kills: a study that is killed again and again ends as an unbroken one.


def a_study() -> Study:
    return Study(
        [hk.load_task("rendezvous-2")], ["iql", "optimal"], 6, 300, {"test_every": 100, "max_episode_steps": 50}
    )


def arm(place: str, count: int) -> None:
    """Kill this process at the `count`-th write, in the middle of it."""
    left = iter(range(count - 1, -1, -1))

    def is_due() -> bool:
        return next(left, None) == 0

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    fdopen, fsync, replace = os.fdopen, os.fsync, Path.replace

    def half(handle, mode):
        file = fdopen(handle, mode)
        if is_due():
            file.write = lambda content: (os.write(handle, content[: len(content) // 2]), die())
        return file

    def before(*args):
        if is_due():
            die()
        return (fsync if place == "fsync" else replace)(*args)

    def after(*args):
        done = replace(*args)
        if is_due():
            die()
        return done

    if place == "half":
        os.fdopen = half
    elif place == "fsync":
        os.fsync = before
    else:
        Path.replace = before if place == "rename" else after


def kill_once(folder: Path, rng: random.Random, tally: Tally) -> bool:
    """Let a study go on in a fork, and kill it; say whether it was done before that."""
    place = rng.choice(("half", "fsync", "rename", "named", "time", "time"))
    child = os.fork()
    if not child:
        if place != "time":
            arm(place, rng.randrange(1, 20))
        run_study(a_study(), folder, engine=ThreadEngine(2))
        os._exit(0)
    if place == "time":
        time.sleep(rng.uniform(0, 0.4))
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if status == 0:
        return True
    tally.counts["crashed"] += status != signal.SIGKILL
    tally.counts["killed"] += 1
    tally.counts["inside a write"] += place != "time"
    return False


def look_after(folder: Path, tally: Tally) -> None:
    """Require that what a kill leaves behind is whole."""
    if folder.is_dir():
        results = hk.load_results(folder)
        spoilt = damaged_policies(folder, results.records, {own.digest: own for own in a_study().tasks})
        for problem in (*results.problems, *spoilt.values()):
            tally.counts["half a file"] += 1
            tally.told.append(problem)


def content(folder: Path) -> dict[str, object]:
    """Give all that a study has found, but for how long it took."""
    found: dict[str, object] = {path.name: path.read_bytes() for path in folder.glob("policies/*")}
    for path in folder.glob("runs/*"):
        found[path.name] = {**json.loads(path.read_text()), "seconds": 0}
    return {**found, "curves": (folder / "curves.csv").read_text()}


def kill_many(room: Path, kills: int, deadline: float, rng: random.Random) -> Tally:
    tally = Tally()
    run_study(a_study(), room / "unbroken")
    unbroken, number = content(room / "unbroken"), 0
    while tally.counts["killed"] < kills and time.monotonic() < deadline:
        number += 1
        folder = room / f"killed{number}"
        while not kill_once(folder, rng, tally) and tally.counts["killed"] < kills:
            look_after(folder, tally)
        run_study(a_study(), folder)
        tally.counts["studies"] += 1
        tally.counts["differing"] += content(folder) != unbroken
        shutil.rmtree(folder)
    return tally


# Tampering: whatever happens to files of a folder, reports are made, policies evaluated, and the study goes on.


def tamper(folder: Path, rng: random.Random) -> None:
    """Do something to a file."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    path, other = rng.choice(files), rng.choice(files)
    kind = rng.randrange(9)
    if kind == 0:
        path.unlink()
    elif kind == 1:
        path.write_bytes(mutate(path.read_bytes(), rng))
    elif kind == 2:
        path.write_bytes(b"")
    elif kind == 3:
        shutil.copyfile(other, path) if other != path else path.unlink()
    elif kind == 4:
        path.unlink()
        path.mkdir()
    elif kind == 5:
        path.unlink()
        path.symlink_to(rng.choice(("nowhere", "/dev/zero", str(other), ".")))
    elif kind == 6:
        path.unlink()
        os.mkfifo(path)
    elif kind == 7:
        (path.parent / f"{rng.choice(('x', 'é', chr(27)))}{path.suffix}").write_bytes(rng.randbytes(99))
    else:
        path.chmod(0)


def use_folder(folder: Path) -> None:
    """Do with a folder what commands do; each may refuse it, and nothing else."""
    task = a_study().tasks[0]
    with suppress(hk.HocketError):
        write_report(summarize(hk.load_results(folder)), folder / "report.html")
    with suppress(hk.HocketError):
        hk.evaluate(task, find_policies(folder, task).of_task, 2, threads=1)
    results = run_study(a_study(), folder, engine=ThreadEngine(2))
    keys = {record.key for record in results.records}
    if results.about["missing"] or any(
        key not in keys for group in a_study().groups() for key in group.keys().values()
    ):
        raise AssertionError("runs are missing")
    if damaged_policies(folder, results.records, {task.digest: task}):
        raise AssertionError("a policy is still spoilt")


def tamper_many(room: Path, numbers: range, seed: int, tally: Tally, at) -> None:
    for number in numbers:
        at.value = number
        rng = random.Random(f"{seed} tamper {number}")
        folder = room / "tampered"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(room / "unbroken", folder)
        for _ in range(rng.choice((1, 1, 2, 4))):
            tamper(folder, rng)
        judge(partial(use_folder, folder), tally, f"tamper {number}")


# All of it.


def fuzz(inputs: Inputs, total: int, seed: int, deadline: float) -> dict[str, Tally]:
    """Try inputs of all kinds in turn, so that each has had its share whenever time is up."""
    tallies, turn = {kind: Tally() for kind in inputs.kinds}, 0
    while sum(own.counts.total() for own in tallies.values()) < total and time.monotonic() < deadline:
        for kind, tally in tallies.items():
            size = FEW if kind in DEAR else ROUND
            in_fork(partial(fuzz_some, inputs, kind, range(turn * size, (turn + 1) * size), seed), tally)
            print(kind, dict(tally.counts), file=sys.stderr, flush=True)
        turn += 1
    return tallies


def fuzz_some(inputs: Inputs, kind: str, numbers: range, seed: int, tally: Tally, at) -> None:
    """Try some inputs of one kind."""
    for number in numbers:
        at.value = number
        judge(partial(inputs.attempt, kind, number, seed), tally, f"{kind} {number}")


def table(tallies: dict[str, Tally]) -> str:
    """Lay out what became of everything."""
    titles = ("read", "refused", "crashed", "hung")
    lines = ["| attack | tried | read | refused | crashed | hung | slowest, s |", "| --- " + "| ---: " * 6 + "|"]
    for name, own in tallies.items():
        tried = sum(own.counts[title] for title in titles)
        cells = [f"{own.counts[title]:,}" for title in titles]
        lines.append(f"| {name} | {tried:,} | {' | '.join(cells)} | {own.slowest:.2f} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--tampers", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=3_600, help="when to end, if not all is done by then")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    begin, rng = time.monotonic(), random.Random(args.seed)
    deadline = begin + args.seconds
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        kills = kill_many(room, args.kills, deadline, rng)
        (room / "inputs").mkdir()
        tallies = fuzz(Inputs(room / "inputs", room / "unbroken"), args.inputs, args.seed, deadline)
        tallies["tampered folder"] = Tally()
        for first in range(0, args.tampers, FEW):
            if time.monotonic() > deadline:
                break
            numbers = range(first, min(first + FEW, args.tampers))
            in_fork(partial(tamper_many, room, numbers, args.seed), tallies["tampered folder"])
    print(table(tallies))
    print("\n| kills | inside a write | studies | half a file | differing | crashed |\n|" + " ---: |" * 6)
    said = ("killed", "inside a write", "studies", "half a file", "differing", "crashed")
    print(f"| {' | '.join(f'{kills.counts[own]:,}' for own in said)} |")
    print(f"\n{time.monotonic() - begin:,.0f} s, seed {args.seed}")
    told = [line for own in (kills, *tallies.values()) for line in own.told]
    for line in told[:KEPT]:
        print(f"\n{line}", file=sys.stderr)
    if args.out:
        found = {name: {**own.counts, "slowest": own.slowest} for name, own in {"kill": kills, **tallies}.items()}
        args.out.write_text(json.dumps({"seed": args.seed, "found": found, "told": told}, indent=1) + "\n")
    bad = ("crashed", "hung", "half a file", "differing")
    return int(any(own.counts[word] for own in (kills, *tallies.values()) for word in bad))


if __name__ == "__main__":
    sys.exit(main())
