"""Search for the small inputs that cost most, by mutation: the dearest inputs so far are changed further.

    python bench/costs.py --tries 20000            every reader; prints the dearest ten of each
    python bench/costs.py --readers formula regex

Inputs are tried one after the other in a process, each up to a moment of processor time. What takes longer is dear: it
is not changed further before the end. Then some of these are tried for longer, and the dearest of them, and changes of
them, are measured, each in a process of its own with the limits on processor time and memory that refusals have to
keep.
"""

import argparse
import multiprocessing
import random
import resource
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import hocket as hk
from hocket.machine.formats import FORMATS, toml
from hocket.task.files import task_from

LONGEST = 400  # characters of an input
MOST_SECONDS, MOST_MEGABYTES = 10, 500  # that an answer may take, as SECURITY.md says
MOMENT, WHILE = 0.05, 0.5  # seconds after which an input is dear, and for which dear inputs are tried again
KEPT = 100  # inputs that are changed further
TRIED_AGAIN, MEASURED, SHOWN = 300, 20, 10  # dear inputs that are tried for a while, measured in the end, and printed
CHANGED_AGAIN = 500  # tries for each change of an input that was measured
MOST_CHECKED = 300  # agents of a task that is also checked: a valid task may be large

TASK = """team = 2
map = "1.g"
legend = { g = "goal" }
agents = { "A{i}" = { start = "1", knows = ["e{i}", "all"] } }
events = { "e{i}" = "A{i} at goal", all = "A1 at goal" }
[machine.parts."A{i}"]
final = ["2"]
transitions = { 0 = { "e{i}" = { to = "1", times = 3, otherwise = "0" } }, 1 = { all = "2" } }
"""
SENTENCES = """team = 3
map = '''
+-+-+-+
|1 . g|
+ + +-+
|. . .|
+-+-+-+'''
legend = { g = "goal" }
bodies = ["goal"]
agents = { "A{i}" = { start = "1" } }
events = { "a{i}" = "A{i} enters goal", "b{i}" = "A{i} leaves goal" }
[machine.parts."A{i}"]
formula = "F(a{i} & X F b{i})"
"""
HOA = """HOA: v1 States: 2 Start: 0 AP: 2 "a" "b" acc-name: Buchi Acceptance: 1 Inf(0)
--BODY-- State: 0 [0&!1] 1 [t] 0 State: 1 {0} [t] 1 --END--"""
MACHINE = """initial = "u0"
final = ["u2"]
[transitions]
u0 = { a = "u1" }
u1 = { b = { to = "u2", times = 4, otherwise = "u0" } }
"""
CALLS = """initial = "a"
final = ["c"]
[calls]
x = { repeat = { part = "y", times = 3 } }
y = { any_order = ["e", "f", "g"] }
z = { machine = { regex = "(h k){2} m" } }
b = { within = { part = "y", events = 9 }, to = "c" }
[transitions]
a = { x = "b", z = { to = "c", times = 2 } }
"""


def check(task: hk.Task) -> None:
    """Check a task, unless it is a large one."""
    if len(task.agents) <= MOST_CHECKED:
        hk.check_task(task)


# A reader, and what it begins with.
READERS: dict[str, tuple[Callable[[str], object], list[str]]] = {
    "formula": (hk.from_ltlf, ["F(a & X F b)", "G(a -> O b) & F c", "(!a U b) S (Y H c)", "X X (a M b) <-> WX c"]),
    "regex": (hk.from_regex, ["(a b)* c", "a{2,4} & !(b a)", "(a|b)? (.{3} & a+)", "!(a b* & .{2,})"]),
    "declare": (
        lambda content: hk.from_declare(content.split(";")),
        ["existence(a, 3); response(a, b)", "exactly(a, 2); alternate_succession(a, b); chain_precedence(b, c)"],
    ),
    "task": (lambda content: check(task_from(toml.parse(content))), [TASK, SENTENCES]),
    "toml": (FORMATS[".toml"].read, [MACHINE, CALLS]),
    "json": (FORMATS[".json"].read, ['{"final": ["u1"], "transitions": {"u0": {"a": "u1"}}}']),
    "text": (FORMATS[".txt"].read, ["0\n[2]\n(0, 1, 'a', 0)\n(1, 2, 'b', 1)\n"]),
    "hoa": (FORMATS[".hoa"].read, [HOA]),
}


class Cost(NamedTuple):
    """What an input took."""

    seconds: float  # of the processor
    megabytes: int
    answer: str
    text: str

    def part_of_limits(self) -> float:
        """How much of the time or the memory that an answer may take, whichever is more."""
        return max(self.seconds / MOST_SECONDS, self.megabytes / MOST_MEGABYTES)


def measure(reader: str, content: str, most_seconds: float) -> Cost:
    """Read an input in a process of its own, within limits."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_read, args=(theirs, reader, content, most_seconds))
    process.start()
    theirs.close()
    try:
        return ours.recv()
    except EOFError:  # killed at a limit
        return Cost(most_seconds, MOST_MEGABYTES, "unfinished", content)
    finally:
        process.join()


def _read(pipe, reader: str, content: str, most_seconds: float) -> None:
    begin, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    resource.setrlimit(resource.RLIMIT_CPU, (int(begin + most_seconds) + 1,) * 2)
    try:
        READERS[reader][0](content)
        answer = "read"
    except hk.HocketError as error:
        answer = f"refused: {str(error)[-80:]}"
    except BaseException as error:  # what should never be
        answer = f"unfinished: {error!r:.80}" if isinstance(error, MemoryError) else f"{error!r:.80}"
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    pipe.send(Cost(time.process_time() - begin, (after - before) // 1024, answer, content))


def change(content: str, other: str, rng: random.Random) -> str:
    """Change an input: repeat, nest, enlarge, exchange or drop pieces of it, or mix in another."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        begin, end = sorted(rng.randrange(len(content) + 1) for _ in range(2))
        piece = content[begin:end]
        kind = rng.randrange(9)
        if kind == 0:
            content = content[:end] + piece * rng.choice((1, 2, 10, 100)) + content[end:]
        elif kind == 1:
            times = rng.choice((1, 5, 50))
            content = content[:begin] + "(" * times + piece + ")" * times + content[end:]
        elif kind == 2:
            digits = [place for place, sign in enumerate(content) if sign.isdigit()]
            if digits:
                place = rng.choice(digits)
                content = content[:place] + rng.choice(("0", "7", "99", "1000", "99999")) + content[place + 1 :]
        elif kind == 3:
            content = content[:begin] + content[end:]
        elif kind == 4:
            first, last = sorted(rng.randrange(len(other) + 1) for _ in range(2))
            content = content[:begin] + other[first:last] + content[begin:]
        elif kind == 5:
            sign = rng.choice(("!", "X ", "Y ", "O ", "F ", "G ", "&", "|", " U ", " S ", "*", "{9}", "{2,}", "?", ";"))
            content = content[:begin] + sign * rng.choice((1, 3, 30, 300)) + content[begin:]
        elif kind == 6:
            content = content[:begin] + content[begin:].replace("a", rng.choice("abcdefgh"), 1)
        elif kind == 7:
            content = f"({content}) {rng.choice(('&', '|', 'U', 'S', '->', '<->', 'R', ''))} ({other})"
        else:
            content = rng.choice(("F({})", "G({})", "X({})", "O({})", "!({})", "({})*", "({}){{9}}")).format(content)
    return content[:LONGEST]


class Dear(BaseException):
    """An input that takes longer than a moment."""


def _too_long(*_: object) -> None:
    raise Dear


def _try_all(pipe, reader: str) -> None:
    """Try inputs as they come, each up to a number of seconds; send back how long it took."""
    signal.signal(signal.SIGPROF, _too_long)
    while True:
        content, most_seconds = pipe.recv()
        begin = time.process_time()
        with suppress(hk.HocketError, Dear):
            signal.setitimer(signal.ITIMER_PROF, most_seconds)
            try:
                READERS[reader][0](content)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        pipe.send(min(most_seconds, time.process_time() - begin))


class Trial:
    """A process that tries inputs, and is begun again when one brings it down."""

    def __init__(self, reader: str) -> None:
        self.reader = reader
        self._begin()

    def _begin(self) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        make = multiprocessing.get_context("fork").Process
        self.process = make(target=_try_all, args=(theirs, self.reader), daemon=True)
        self.process.start()
        theirs.close()

    def seconds(self, content: str, most_seconds: float = MOMENT) -> float:
        """Try an input; the most seconds where it takes longer, or ends in anything but an answer or a refusal."""
        self.pipe.send((content, most_seconds))
        if self.pipe.poll(60 * MOST_SECONDS):
            try:
                return self.pipe.recv()
            except EOFError:
                pass
        self.end()
        self._begin()
        return most_seconds

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()


def search(
    reader: str, tries: int, seed: int, most_seconds: float = MOST_SECONDS, minutes: float = 60
) -> tuple[int, list[Cost]]:
    """Find dear inputs; count the tries, which end after some minutes by the clock, and list the dearest first."""
    latest = time.monotonic() + 60 * minutes
    rng, trial = random.Random(seed), Trial(reader)
    kept = {content: trial.seconds(content) for content in READERS[reader][1]}
    dear: list[str] = []
    tried = 0
    while tried < tries and time.monotonic() < latest:
        tried += 1
        content = change(rng.choice(list(kept)), rng.choice(list(kept)), rng)
        seconds = trial.seconds(content)
        if seconds >= MOMENT:
            dear.append(content)
        elif content not in kept:
            kept[content] = seconds
            if len(kept) > KEPT:
                del kept[min(kept, key=kept.__getitem__)]
    sample = rng.sample(dear, min(len(dear), TRIED_AGAIN))
    again = {content: trial.seconds(content, WHILE) for content in sample} or kept
    trial.end()
    costs = [measure(reader, content, most_seconds) for content in sorted(again, key=again.__getitem__)[-MEASURED:]]
    for _ in range(tried // CHANGED_AGAIN):
        first, second = rng.choices(costs, k=2)
        costs.append(measure(reader, change(first.text, second.text, rng), most_seconds))
        costs = sorted(costs, key=Cost.part_of_limits)[-MEASURED:]
    return tried, sorted(costs, key=Cost.part_of_limits, reverse=True)[:SHOWN]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=20_000)
    parser.add_argument("--minutes", type=float, default=60, help="by the clock, for a reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--readers", nargs="*", default=list(READERS), choices=list(READERS))
    asked = parser.parse_args()
    for reader in asked.readers:
        tried, dearest = search(reader, asked.tries, asked.seed, minutes=asked.minutes)
        print(f"{reader}: the dearest of {tried:,} inputs")
        for cost in dearest:
            print(
                f"  {cost.seconds:6.2f} s {cost.megabytes:5d} MB  {cost.text[:60]!r} ({len(cost.text)}): {cost.answer}"
            )


if __name__ == "__main__":
    main()
