"""Files of every format that hocket reads, and what makes them hostile; for soak.py."""

import io
import json
import random
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np

import hocket as hk
from hocket.draw.scene import read_scene
from hocket.draw.task_scene import scene_of
from hocket.report.page import write_report
from hocket.report.summary import summarize
from hocket.study.policies import find_policies
from hocket.study.study import load_study

HOSTILE = [
    *(
        "",
        " ",
        "\n",
        "\0",
        "\x1b[31m",
        "\u202e",
        "\ud800",
        "é" * 300,
        "a" * 70_000,
        "<script>",
        "../../x",
        "'",
        '"',
        "\\",
    ),
    *(
        "[" * 3_000,
        "{" * 3_000,
        "(" * 3_000,
        "1." * 3_000,
        "=",
        "#",
        "-",
        "nan",
        "inf",
        "1e400",
        "9" * 400,
        "-1",
        "true",
    ),
]
VALUES = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, 10**400, 0.5, -0.0, 1e-320, 1e308, float("inf"), float("nan")),
    *([], {}, [[]], [None], {"a": 1}, [1, 2, 3], *HOSTILE[:14]),
]


# Inputs: files that were well, and are no longer.


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Change a few places of a file."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        begin = rng.randrange(len(data) + 1)
        end = min(len(data), begin + int(rng.expovariate(0.1)))
        kind = rng.randrange(7)
        if kind == 0:  # another byte
            data = data[:begin] + bytes([rng.randrange(256)]) + data[begin + 1 :]
        elif kind == 1:
            data = data[:begin] + data[end:]
        elif kind == 2:
            data = data[:end] + data[begin:end] * rng.choice((1, 2, 50)) + data[end:]
        elif kind == 3:
            data = data[:begin] + rng.choice(HOSTILE).encode(errors="surrogatepass") + data[end:]
        elif kind == 4:  # cut off
            data = data[:begin]
        elif kind == 5 and (numbers := list(re.finditer(rb"-?\d+(\.\d+)?", data))):
            own = rng.choice(numbers)
            data = data[: own.start()] + str(rng.choice(VALUES)).encode(errors="replace") + data[own.end() :]
        else:  # two places change places
            other = rng.randrange(len(data) + 1)
            first, second = sorted((begin, other))
            data = data[second:] + data[first:second] + data[:first]
    return data


def mutate_json(value: object, rng: random.Random) -> object:
    """Change one place of a document, at any depth."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.1:
        return another(value, rng) if rng.random() < 0.5 else rng.choice(VALUES)
    place = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
    changed = value.copy()
    kind = rng.random()
    if kind < 0.1:
        del changed[place]
    elif kind < 0.15 and isinstance(changed, list):
        changed.insert(place, changed[place])
    elif kind < 0.2 and isinstance(changed, dict):
        changed[rng.choice(HOSTILE)] = changed.pop(place)
    else:
        changed[place] = mutate_json(value[place], rng)
    return changed


def another(value: object, rng: random.Random) -> object:
    """Give another value of the same kind, which may well be possible."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((value + 1, value - 1, 10 * value, 0, 1, -value, 10**9, 2**63 - 1, rng.randrange(1_000)))
    if isinstance(value, float):
        return value * rng.choice((-1.0, 0.0, 0.5, 1e-9, 1e9, 1e300))
    if isinstance(value, str):
        return rng.choice((value[1:], value * 2, value.upper(), "A1", "iql", "optimal", "greedy"))
    if isinstance(value, list):
        return rng.choice((value[:-1], value[1:], value * 2, value[::-1], value[: len(value) // 2]))
    return {}


def mutate_document(data: bytes, rng: random.Random) -> bytes:
    """Change a JSON file as text, or as a document."""
    if rng.random() < 0.3:
        return mutate(data, rng)
    document = json.loads(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        document = mutate_json(document, rng)
    return json.dumps(document).encode(errors="surrogatepass")


def mutate_archive(data: bytes, rng: random.Random) -> bytes:
    """Change a policy's file as bytes, or what is in it."""
    if rng.random() < 0.4:
        return mutate(data, rng)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(list(entries))
    if name == "about.npy" and rng.random() < 0.8:
        about = json.loads(entries[name][entries[name].index(b"{", 100) :])
        text = np.frombuffer(json.dumps(mutate_json(about, rng)).encode(errors="surrogatepass"), np.uint8)
        buffer = io.BytesIO()
        np.save(buffer, text)
        entries[name] = buffer.getvalue()
    else:
        entries[name] = mutate(entries[name], rng)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for own, content in entries.items():
            archive.writestr(own, content)
    return buffer.getvalue()


FORMULA = {
    "ltlf": (b"G (a -> F b) & (!c U d) & X[!] e", hk.from_ltlf),
    "regex": (b"(a | b c)* d+ (e f?)", hk.from_regex),
    "declare": (b"response(a, b)\nprecedence(c, d)\nexistence(e)", lambda text, _: hk.from_declare(text.split("\n"))),
}
EVENTS = ("a", "b", "c", "d", "e", "f")
DEAR = ("record .json", "study.json", "policy .npz")  # of which fewer are tried, for each is a report or an evaluation


class Inputs:
    """Files of every format that hocket reads, each with what reads it."""

    def __init__(self, folder: Path, runs: Path) -> None:
        self.folder, self.runs, task = folder, runs, hk.load_task("rendezvous-2")
        self.task = task
        self.kinds: dict[str, tuple[list[bytes], object, object]] = {}
        machine = hk.load_task("pass-the-room").machine
        for suffix in (".toml", ".json", ".txt", ".dot", ".hoa"):
            path = folder / f"seed{suffix}"
            hk.save_machine(machine, path)
            change = mutate_document if suffix == ".json" else mutate
            self.kinds[f"machine {suffix}"] = ([path.read_bytes()], change, self.read_machine)
        builtin = Path(hk.__file__).parent
        tasks = [path.read_bytes() for path in sorted((builtin / "task" / "builtin").glob("*.toml"))]
        self.kinds["task .toml"] = (tasks, mutate, self.read_task)
        hk.save_task(task, folder / "seed-task.json")
        self.kinds["task .json"] = ([(folder / "seed-task.json").read_bytes()], mutate_document, self.read_task)
        studies = [path.read_bytes() for path in sorted((builtin / "study" / "builtin").glob("*.toml"))]
        self.kinds["study .toml"] = (studies, mutate, self.read_study)
        records = [path.read_bytes() for path in sorted(runs.glob("runs/*.json"))]
        self.kinds["record .json"] = (records, mutate_document, self.read_record)
        self.kinds["study.json"] = ([(runs / "study.json").read_bytes()], mutate_document, self.read_about)
        policies = [path.read_bytes() for path in sorted(runs.glob("policies/*.npz"))]
        self.kinds["policy .npz"] = (policies, mutate_archive, self.read_policy)
        scene = scene_of(task).text.encode()
        self.kinds["scene .json"] = ([scene], mutate_document, self.read_scene)
        for name, (text, _) in FORMULA.items():
            self.kinds[f"formula {name}"] = ([text], mutate, self.read_formula)

    def attempt(self, kind: str, number: int, seed: int) -> None:
        """Read one input, which its kind and number determine; whatever is not a HocketError is a crash."""
        rng = random.Random(f"{seed} {kind} {number}")
        seeds, change, read = self.kinds[kind]
        read(kind, change(rng.choice(seeds), rng), rng)

    def _write(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def read_machine(self, kind, data, rng):
        hk.load_machine(self._write(f"input{kind.partition(' ')[2]}", data))

    def read_task(self, kind, data, rng):
        task = hk.load_task(self._write(f"input{kind.partition(' ')[2]}", data))
        if task.grid.rows * task.grid.columns * len(task.agents) < 2_000:
            hk.check_task(task)

    def read_study(self, kind, data, rng):
        load_study(self._write("input.toml", data))

    def read_record(self, kind, data, rng):
        """Read it among others: a report of the folder has to be made in any case."""
        name = rng.choice(sorted(path.name for path in self.runs.glob("runs/*.json")))
        self._report(f"runs/{rng.choice((name, 'another.json'))}", data, rng)

    def read_about(self, kind, data, rng):
        self._report("study.json", data, rng)

    def _report(self, name, data, rng):
        copy = self.folder / "copy"
        if not copy.exists():
            shutil.copytree(self.runs, copy)
        (copy / name).write_bytes(data)
        try:
            summary = summarize(hk.load_results(copy))
            if rng.random() < 0.1:
                write_report(summary, copy / "report.html")
        finally:
            (copy / name).unlink()
            if (self.runs / name).exists():
                shutil.copyfile(self.runs / name, copy / name)
        if summary.problems:
            raise hk.HocketError("named and left out")

    def read_policy(self, kind, data, rng):
        found = find_policies(self._write("policies/input.npz", data).parents[1], self.task)
        if not found.of_task:
            raise hk.HocketError("left out")
        hk.evaluate(self.task, found.of_task, 2, threads=1)

    def read_scene(self, kind, data, rng):
        read_scene(self._write("input.json", data))

    def read_formula(self, kind, data, rng):
        FORMULA[kind.partition(" ")[2]][1](data.decode(errors="replace"), EVENTS)
