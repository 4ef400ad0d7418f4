"""Tasks as TOML or JSON files; docs/format.md describes the format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import product
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hocket.documents import Document, Read, as_any, as_flag, as_number, as_table, as_text, as_texts, entries, table_of
from hocket.errors import FormatError, located, require_known, shown
from hocket.files import MEGABYTE, read_text
from hocket.machine.composition import Composition
from hocket.machine.decomposition import decompose
from hocket.machine.formats import beside, files_in, load_machine, toml
from hocket.machine.formats import json as json_notation
from hocket.machine.formats.schema import LANGUAGES, Files, machine_from, sentence_from
from hocket.machine.reward_machine import RewardMachine
from hocket.task.agents import Agent, Gate, Option
from hocket.task.bodies import SYMMETRIC
from hocket.task.conditions import Condition, Lexicon, parse_conditions, parse_option
from hocket.task.grid import Grid, read_map
from hocket.task.task import Machine, Task, check_conditions

if TYPE_CHECKING:
    from hocket.machine.formulas.build import Reading
    from hocket.machine.formulas.syntax import Limits

LIMIT = 128 * MEGABYTE
WORLD_KEYS = ("map", "agents", "legend", "places", "machine")  # a task has some of these, a machine alone has none
NUMBER, SIZE = "{i}", "{n}"
MOST_AGENTS = 100_000  # in a family
MOST_GROUPS = 100
MOST_TEXT = 8 * MEGABYTE  # characters that a template may expand to


def has_world(document: object) -> bool:
    """Return whether a document is a task, and not a machine alone."""
    return isinstance(document, Mapping) and any(key in document for key in WORLD_KEYS)


def read_task(path: Path, size: int | None = None, document: object = None, source: str | None = None) -> Task:
    """Read a task from a .toml or .json file, or from the `document` in it; `size` is the number of identical agents,
    `source` the task's name for commands, by default its path."""
    if source is None:
        source = f"{path}" if size is None else f"{path}:{size}"
    with located(path=path, whole="task"):
        if document is None:
            content = read_text(path, LIMIT)
            document = json_notation.parse(content) if path.suffix.lower() == ".json" else toml.parse(content)
        return task_from(document, path.stem, path.parent, size, source)


def task_from(
    document: object, name: str = "task", folder: Path | None = None, size: int | None = None, source: str = ""
) -> Task:
    """Build a task from nested dictionaries and lists, checking every key and type."""
    table = entries(expand_team(as_table(document, "the document"), size), TASK_KEYS)
    for key in ("map", "agents", "events", "machine"):
        if key not in table:
            raise FormatError("is missing", where=key)
    rows, plan, conditions = table["agents"], table["machine"], table["events"]
    if not rows:
        raise FormatError("a task needs at least one agent", where="agents")
    for agent, row in rows.items():
        if "start" not in row:
            rule = "is missing; it is a letter on the map, a place, or [row, column]"
            raise FormatError(rule, where=f"agents.{agent}.start")
        if "knows" not in row and "parts" not in plan:
            raise FormatError("is missing; it is the agent's local event set", where=f"agents.{agent}.knows")
    grid, letters = _grid_from(table)
    files = files_in(folder)
    machine = _machine_from(plan, folder, files)
    as_edges = False
    if not isinstance(machine, RewardMachine | Composition):  # a formula
        # For events of one agent `at` means `enters`: a formula counts arrivals, not the steps of a stay.
        as_edges = as_flag(plan.get("edges", True), "machine.edges")
        check_conditions(machine.events, conditions)
        machine = _make_machine(machine, {agent: row["knows"] for agent, row in rows.items()}, files.limits)
    agents = _agents_from(table, grid, letters, machine)
    read_event = partial(_conditions_from, agents=Lexicon(rows), places=Lexicon(grid.places), as_edges=as_edges)
    optional = {key: table[key] for key in ("slip", "description", "bodies") if key in table}
    name = table.get("name", name) + ("" if size is None else f"-{size}")
    return Task(name, grid, agents, table_of(read_event)(conditions, "events"), machine, source=source, **optional)


def _grid_from(table: Mapping[str, Any]) -> tuple[Grid, dict[str, list[int]]]:
    starts = [row["start"] if isinstance(row["start"], list) else [row["start"]] for row in table["agents"].values()]
    letters = [start for listed in starts for start in listed if isinstance(start, str)]
    grid, cells_of = read_map(table["map"], table.get("legend", {}), letters, torus=table.get("torus", False))
    places = dict(grid.places)
    for name, value in table.get("places", {}).items():
        places[name] = places.get(name, frozenset()) | {*_cells_from(value, grid, f"places.{name}")}
    return replace(grid, places=places), cells_of


def _names_from(value: object, key: str) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else as_texts(value, key) if isinstance(value, list) else ()
    if not names:
        raise FormatError(f"must be a name or a list of names, got {value!r:.60}", where=key)
    return names


def _cells_from(value: object, grid: Grid, key: str) -> tuple[int, ...]:
    """Read [row, column], or a list of them."""
    cells = []
    for cell in value if isinstance(value, list) and value and isinstance(value[0], list) else [value]:
        if not (isinstance(cell, list) and len(cell) == 2 and all(type(number) is int for number in cell)):
            raise FormatError(f"must be [row, column], counted from 0 at the top left, got {cell!r:.60}", where=key)
        row, column = cell
        if not (0 <= row < grid.rows and 0 <= column < grid.columns):
            size = f"{grid.rows} rows and {grid.columns} columns"
            raise FormatError(f"must lie on the map of {size}, got {cell}", where=key)
        cells.append(grid.cell(row, column))
    return tuple(cells)


def _machine_from(table: Document, folder: Path | None, files: Files) -> Machine | Reading:
    if "file" in table:
        path = beside(folder, entries(table, {"file": as_text}, "machine.")["file"], "machine.file")
        with located("machine.file"):
            return load_machine(path)
    if "parts" in table:
        readers = {"parts": table_of(partial(machine_from, files=files))}
        return Composition(entries(table, readers, "machine.")["parts"])
    if {*LANGUAGES} & {*table}:
        return sentence_from(table, "machine.", ("edges",), files=files)
    return machine_from(table, "machine", files)


def _make_machine(reading: Reading, knows: Mapping[str, tuple[str, ...]], limits: Limits) -> Machine:
    """Make the team machine of a formula: a part for each agent if its independent parts are decomposable; otherwise
    one machine, of which a check gives a counterexample and a repair."""
    with located("machine"):
        if len(reading.groups) > 1:
            decomposition = decompose(reading.parts(limits), knows)
            if decomposition.ok:
                return Composition(dict(decomposition.machines))
        return reading.machine(limits)


def _agents_from(
    table: Mapping[str, Any], grid: Grid, letters: Mapping[str, list[int]], machine: Machine
) -> dict[str, Agent]:
    memory, gates, agents = table.get("memory", ()), table.get("gates", {}), dict[str, Agent]()
    for event in memory:
        require_known(event, machine.events, "event", partial(FormatError, where="memory"), " in the machine")
    for region, row in gates.items():
        for name in row:
            require_known(name, table["agents"], "agent", partial(FormatError, where=f"gates.{region}.{name}"))
    parts = machine.parts if isinstance(machine, Composition) else {}
    for name, row in table["agents"].items():
        start = _start_from(row["start"], grid, letters, f"agents.{name}.start")
        known = row["knows"] if "knows" in row else parts[name].events if name in parts else ()
        closed = {region: gate[name] for region, gate in gates.items() if name in gate}
        remembered = row.get("memory", memory)
        options = tuple(Option(*parse_option(text, grid.places, remembered)) for text in row.get("options", ()))
        agents[name] = Agent(start, known, closed, remembered, options, row.get("sync", {}))
    return agents


def _gate_from(value: object, where: str) -> Gate:
    """Read a gate: the event that opens it, or a table of what opens and closes it and whether it starts open."""
    table = value if isinstance(value, dict) else {"open": as_text(value, where)}
    row = entries(table, {"open": _names_from, "close": _names_from, "starts_open": as_flag}, f"{where}.")
    return Gate(row.get("open", ()), row.get("close", ()), row.get("starts_open"))


def _bodies_from(value: object, where: str) -> object:
    if not isinstance(value, bool | str | list) or value == []:
        raise FormatError(f"must be true, {SYMMETRIC!r} or a list of regions, got {value!r:.60}", where=where)
    return as_texts(value, where) if isinstance(value, list) else value


def _start_from(value: object, grid: Grid, letters: Mapping[str, list[int]], key: str) -> tuple[int, ...]:
    """Read the cells in which an agent may start, given by letters, places or coordinates."""
    if isinstance(value, str):
        return tuple(letters[value] if value in letters else grid.place(value, key))
    if isinstance(value, list) and any(isinstance(start, str) for start in value):
        return tuple(cell for start in value for cell in _start_from(start, grid, letters, key))
    return _cells_from(value, grid, key)


def _conditions_from(value: object, key: str, agents: Lexicon, places: Lexicon, as_edges: bool) -> dict[str, Condition]:
    """Read a sentence, or for each agent the end of one, "at mat", or a list of these, of which one has to hold."""
    if isinstance(value, dict):
        conditions = {}
        for agent, end in value.items():
            where = f"{key}.{agent}"
            ends = as_texts(end, where) if isinstance(end, list) else (as_text(end, where),)
            if not ends:
                raise FormatError("must say where the agent has to be, got an empty list", where=where)
            alternatives = (parse_conditions(f"{agent} {end}", [agent], places, where)[agent] for end in ends)
            conditions[agent] = reduce(or_, alternatives)
    elif not isinstance(value, str):
        raise FormatError(f"must be a sentence such as 'A1 at door', got {value!r:.60}", where=key)
    elif not value.strip():
        raise FormatError("must say when the event happens, such as 'A1 at door'", where=key)
    else:
        conditions = parse_conditions(value, agents, places, key)
    if as_edges and len(conditions) == 1:
        return {agent: condition.as_edge() for agent, condition in conditions.items()}
    return conditions


AGENT_KEYS: Mapping[str, Read] = {
    "start": as_any, "knows": as_texts, "memory": as_texts, "options": as_texts, "sync": table_of(as_number),
}  # fmt: skip
TASK_KEYS: Mapping[str, Read] = {
    "name": as_text, "description": as_text, "slip": as_number, "team": as_any, "bodies": _bodies_from,
    "torus": as_flag, "map": as_text, "legend": table_of(_names_from), "places": as_table,
    "agents": table_of(lambda row, where: entries(as_table(row, where), AGENT_KEYS, f"{where}.")),
    "gates": table_of(table_of(_gate_from)), "events": as_table, "memory": as_texts, "machine": as_table,
}  # fmt: skip


# Teams of identical agents: what a file says of agent `{i}` holds for each of 1, 2, ... up to `team`.


def expand_team(table: Document, size: int | None = None) -> Document:
    """Expand the templates of a task for its number of identical agents, or another `size`, if it has `team`.

    >>> expand_team({"team": {"miner": 2}, "agents": {"{miner}": {"knows": ["dig by {miner}", "all {n}"]}}})["agents"]
    {'miner1': {'knows': ['dig by miner1', 'all 2']}, 'miner2': {'knows': ['dig by miner2', 'all 2']}}
    """
    if "team" not in table:
        if size is not None:
            raise FormatError("a team size can be chosen only for a task with `team`")
        return table
    team = table["team"]
    if isinstance(team, dict):
        if size is not None:
            raise FormatError("a team size can be chosen only for a task whose `team` is a number")
        template = _groups_of(team)
    else:
        count = _count(team if size is None else size, "team")
        template = _Template({NUMBER: [str(number) for number in range(1, count + 1)]}, {SIZE: str(count)})
    rest = {key: value for key, value in table.items() if key not in ("team", "map")}  # a map has no placeholders
    return {**({"map": table["map"]} if "map" in table else {}), **template.table(rest, "", {})}


def _groups_of(team: Mapping[str, object]) -> _Template:
    """Name the members of groups after them: {miner} stands for miner1, miner2, ..., {n.miner} for their number."""
    if not 1 <= len(team) <= MOST_GROUPS:
        raise FormatError(f"must have from 1 to {MOST_GROUPS} groups of like agents, got {len(team):,}", where="team")
    counts = {group: _count(count, f"team.{group}") for group, count in team.items()}
    for group in counts:
        if not group.isidentifier() or f"{{{group}}}" in (NUMBER, SIZE):
            raise FormatError(f"a group's name is a word other than i and n, got {shown(group)}", where="team")
    total = _count(sum(counts.values()), "team")
    members = {f"{{{group}}}": [f"{group}{i}" for i in range(1, count + 1)] for group, count in counts.items()}
    return _Template(members, {SIZE: str(total)} | {f"{{n.{group}}}": str(count) for group, count in counts.items()})


def _count(count: object, where: str) -> int:
    if type(count) is not int or not 1 <= count <= MOST_AGENTS:
        raise FormatError(f"must be a whole number from 1 to {MOST_AGENTS:,}, got {count!r:.60}", where=where)
    return count


class _Template:
    """Expands the placeholders in a document, up to a number of characters."""

    def __init__(self, members: Mapping[str, Sequence[str]], sizes: Mapping[str, str]) -> None:
        self.members = members  # placeholder -> its values, one for each agent
        self.sizes = sizes  # placeholder -> a number of agents
        self.remaining = MOST_TEXT

    def table(self, table: Mapping[str, object], at: str, chosen: Mapping[str, str]) -> Document:
        """Repeat keys with a placeholder for each of its values; `chosen` are those of the keys around it."""
        expanded: Document = {}
        for key, value in table.items():
            where = f"{at}{self.fill(key, chosen)}"
            for name, members in self.repeated(key, chosen):
                if name in expanded:
                    placeholder = next((placeholder for placeholder in self.members if placeholder in key), NUMBER)
                    raise FormatError(f"{name!r} is given twice: in full and by {placeholder}", where=where)
                expanded[name] = self.value(value, where, members)
        return expanded

    def repeated(self, text: str, chosen: Mapping[str, str]) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Fill all values of the placeholders in a text in, one after the other; also return which these are."""
        named = [placeholder for placeholder in self.members if placeholder in text and placeholder not in chosen]
        for members in product(*(self.members[placeholder] for placeholder in named)):
            more = {**chosen, **dict(zip(named, members, strict=True))}
            yield self.fill(text, more), more

    def value(self, value: object, where: str, chosen: Mapping[str, str]) -> object:
        """Expand a value; an element of a list is repeated for each value of the placeholders in it."""
        if isinstance(value, dict):
            return self.table(value, f"{where}.", chosen)
        if isinstance(value, list):
            rows = (self.repeated(item, chosen) if isinstance(item, str) else [(item, chosen)] for item in value)
            return [self.value(item, where, members) for row in rows for item, members in row]
        if not isinstance(value, str):
            self.spend(1)
            return value
        text = self.fill(value, chosen)
        for placeholder in self.members:
            if placeholder in text:
                rule = f"{placeholder} belongs in a key that is repeated, or in an element of a list"
                raise FormatError(f"{rule}, got {text!r:.60}", where=where)
        return text

    def fill(self, text: str, chosen: Mapping[str, str]) -> str:
        """Fill in the chosen values and the numbers of agents."""
        self.spend(len(text))
        for placeholder, word in (*chosen.items(), *self.sizes.items()) if "{" in text else ():
            text = text.replace(placeholder, word)
        return text

    def spend(self, characters: int) -> None:
        self.remaining -= characters
        if self.remaining < 0:
            team, limit = f"a team of {int(self.sizes[SIZE]):,}", MOST_TEXT // MEGABYTE
            raise FormatError(f"{team} would make a task of more than {limit} MB", where="team")
