"""The tasks that come with hocket, by name, and those in files, by path."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path

from hocket.errors import FormatError, HocketError, known_names, located
from hocket.files import exists, read_text, write_whole
from hocket.lazy import Lazy
from hocket.machine.composition import Composition
from hocket.machine.formats import FORMATS, load_design, toml
from hocket.machine.formats import json as json_notation
from hocket.machine.formats.schema import Design
from hocket.machine.reward_machine import RewardMachine
from hocket.random import MASK, mix
from hocket.task.agents import Agent, Option
from hocket.task.conditions import Condition
from hocket.task.files import LIMIT as TASK_LIMIT
from hocket.task.files import MOST_AGENTS, WORLD_KEYS, has_world, read_task
from hocket.task.grid import Grid
from hocket.task.task import Task

WORLD = re.compile(rf"""^\s*\[?\s*["']?(?:{"|".join(WORLD_KEYS)})\b""", re.MULTILINE)

Position = tuple[int, int]  # row and column

RENDEZVOUS_ENDS = (  # in the paper: the start and goal of each agent
    ((0, 0), (9, 7)), ((0, 3), (7, 9)), ((2, 0), (2, 9)), ((0, 8), (9, 9)), ((9, 0), (0, 9)),
    ((4, 0), (7, 0)), ((7, 0), (4, 0)), ((4, 9), (5, 0)), ((9, 6), (6, 9)), ((6, 9), (8, 0)),
)  # fmt: skip


def load_task(name: str | Path) -> Task:
    """Load a task by a built-in name (`buttons`; of a family `rendezvous-10`; with another number of identical agents
    `crew-6`) or by the path of a file (`crew.toml`, `crew.toml:6`)."""
    if not isinstance(name, str | Path):
        raise FormatError(f"a task, a built-in name or the path of a task file is needed, got {type(name).__name__}")
    subject = load(name)
    if isinstance(subject, Design):
        raise FormatError("is a machine without a map; a task has a map, agents and events", path=name)
    return subject


def as_task(task: Task | str | Path) -> Task:
    """Return a task as it is, or load it by a built-in name or the path of a file."""
    return task if isinstance(task, Task) else load_task(task)


def save_task(task: Task | str | Path, path: str | Path) -> None:
    """Write a task to a .toml or .json file; places without letters are written as coordinates."""
    path = Path(path)
    if (suffix := path.suffix.lower()) not in (".toml", ".json"):
        raise FormatError(f"a task is written as .toml or .json, got {path.suffix!r}", path=path)
    document = as_task(task).document()
    is_toml = suffix == ".toml"
    write_whole(path, toml.unparse(document) if is_toml else json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def load(name: str | Path) -> Task | Design:
    """Load a task, or a design from a file that has a machine and no map."""
    text = str(name)
    match = re.fullmatch(r"([a-z-]+)-(\d{1,9})", text)
    if match and match[1] in FAMILIES:
        with located(path=text):
            return FAMILIES[match[1]](int(match[2]))
    built_in = built_in_tasks()
    if text in built_in:
        return _built_in(text)
    if match and "team" in toml.parse(source_of(match[1]) or ""):
        return _built_in(match[1], int(match[2]))
    if sized := re.fullmatch(r"(.+\.(?:toml|json)):(\d{1,9})", text, re.IGNORECASE):
        return read_task(Path(sized[1]), int(sized[2]))
    path = Path(name)
    if path.suffix.lower() in FORMATS or (exists(path) and not path.is_dir()):
        return _read(path)
    files = [f"{text}{suffix}" for suffix in FORMATS if exists(Path(f"{text}{suffix}"))]
    hint = known_names(text, files or [*built_in, *(f"{family}-3" for family in FAMILIES)])
    problem = "this is a folder" if exists(path) else "there is no file"
    raise FormatError(f"{problem} and no built-in task of this name ({hint})", path=text)


def _built_in(name: str, size: int | None = None) -> Task:
    with resources.as_file(resources.files("hocket.task.builtin") / f"{name}.toml") as path:
        return read_task(path, size, source=name if size is None else f"{name}-{size}")


def built_in_tasks() -> list[str]:
    """List the names of the built-in tasks that are files."""
    names = (entry.name for entry in resources.files("hocket.task.builtin").iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def source_of(name: str = "") -> str | None:
    """Read the text of a built-in task, or of an example for a first task; None for tasks without a file."""
    if name and name not in built_in_tasks():
        return None
    folder, stem = ("hocket.task.builtin", name) if name else ("hocket.task", "first")
    return (resources.files(folder) / f"{stem}.toml").read_text(encoding="utf-8")


def known_tasks() -> dict[str, Task]:
    """Load all built-in tasks, and of each family the smallest team."""
    return {name: load_task(name) for name in sorted([*built_in_tasks(), *(f"{family}-2" for family in FAMILIES)])}


def _read(path: Path) -> Task | Design:
    """Read a file as a task if it has a map, agents or their like, and otherwise as a machine."""
    suffix = path.suffix.lower()
    if suffix not in (".toml", ".json"):
        return load_design(path)
    content = read_text(path, TASK_LIMIT)
    if len(content) > FORMATS[suffix].limit and not WORLD.search(content):
        return load_design(path)  # which is too large for a machine, and would take long to parse
    try:
        document = json_notation.parse(content) if suffix == ".json" else toml.parse(content)
    except (HocketError, RecursionError):
        return load_design(path)  # which says what is wrong
    if has_world(document):
        return read_task(path, document=document)
    return load_design(path, document)


def rendezvous(agents: int = 2, *, rows: int = 10, columns: int = 10, seed: int = 0) -> Task:
    """Build the task in which all agents meet at a place before each goes to its own goal.

    Agent i arrives at the meeting place (ri), may leave it again (li), and when all are there they meet (r); then it
    goes to its goal (gi). Up to ten agents on a map of 10 x 10 have the starts and goals of the paper; those of others
    are drawn by `seed`. The team machine is a composition, so that teams may be large.
    """
    if not 1 <= agents <= MOST_AGENTS:
        raise FormatError(f"a rendezvous needs 1 to {MOST_AGENTS:,} agents, got {agents}")
    if rows * columns < 3:
        raise FormatError(f"a rendezvous needs a map of at least 3 cells, got {rows} x {columns}")
    meeting = (rows * 3 // 10, columns * 4 // 10)
    ends = [_ends(index, rows, columns, meeting, seed) for index in range(agents)]
    targets = {"meeting place": meeting} | {f"goal {i}": goal for i, (_, goal) in enumerate(ends, start=1)}
    places = {name: frozenset({row * columns + column}) for name, (row, column) in targets.items()}
    grid = Grid(rows, columns, frozenset(), places)
    names = [f"A{i}" for i in range(1, agents + 1)]
    there, away = Condition("meeting place"), Condition("meeting place", inside=False)
    events: dict[str, dict[str, Condition]] = {"r": dict.fromkeys(names, there)}
    parts, team = {}, {}
    for i, (name, (start, _)) in enumerate(zip(names, ends, strict=True), start=1):
        arrive, leave, home = f"r{i}", f"l{i}", f"g{i}"
        moves = {("0", arrive): "1", ("1", leave): "0", ("1", "r"): "2", ("2", home): "3"}
        parts[name] = RewardMachine(initial="0", transitions=moves, final={"3"})
        events |= {arrive: {name: there}, leave: {name: away}, home: {name: Condition(f"goal {i}")}}
        options = (Option("meeting place"), Option(f"goal {i}"))
        team[name] = Agent(grid.cell(*start), parts[name].events, memory=("r", home), options=options)
    about = "All agents meet at one place, and then each goes to its own goal."
    return Task(f"rendezvous-{agents}", grid, team, events, Composition(parts), description=about)


def _ends(index: int, rows: int, columns: int, meeting: Position, seed: int) -> tuple[Position, Position]:
    """Return an agent's start and goal, the paper's or random ones; neither is the meeting place."""
    if (rows, columns) == (10, 10) and index < len(RENDEZVOUS_ENDS):
        return RENDEZVOUS_ENDS[index]
    cells = [divmod(cell, columns) for cell in range(rows * columns) if divmod(cell, columns) != meeting]
    first = mix((seed * 2_000_003 + index * 2 + 1) & MASK) % len(cells)
    step = 1 + mix((seed * 2_000_003 + index * 2 + 2) & MASK) % (len(cells) - 1)
    return cells[first], cells[(first + step) % len(cells)]


def office(number: int) -> Task:
    """Build one of the four tasks of OfficeWorld: coffee to the office, mail, both, or a patrol of A, B, C and D."""
    task, traces = _built_in("office"), {1: ("coffee", "deliver"), 2: ("mail", "deliver"), 4: ("A", "B", "C", "D")}
    if trace := traces.get(number):
        moves = {(str(step), event): str(step + 1) for step, event in enumerate(trace)}
        moves |= {(str(step), "plant"): "broken" for step in range(len(trace))}
        machine = RewardMachine(initial="0", transitions=moves, final={str(len(trace))})
        agents = {"A1": replace(task.agents["A1"], knows=machine.events)}
        events = {event: task.events.get(event, {"A1": Condition(event)}) for event in machine.events}
        about = f"OfficeWorld: {', '.join(trace)}, and no plant."
        task = replace(task, agents=agents, events=events, machine=machine, description=about)
    elif number != 3:
        raise FormatError(f"there are four tasks in the office, got {number}")
    return replace(task, name=f"office-{number}", source=f"office-{number}")


_token_task = Lazy("hocket.task.tokens", "token_task")
FAMILIES: dict[str, Callable[[int], Task]] = {
    "office": office,
    "rendezvous": rendezvous,
    "token-buttons": lambda agents: _token_task(f"token-buttons-{agents}"),
    "token-rooms": lambda agents: _token_task(f"token-rooms-{agents}"),
}
