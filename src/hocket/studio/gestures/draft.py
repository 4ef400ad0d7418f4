"""A task file that is being edited: its tables, lists and texts, which keep their form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from functools import cached_property
from typing import Any, NewType

import tomlkit
from tomlkit.container import Container, OutOfOrderTableProxy
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, InlineTable, String, StringType, Table, Trivia
from tomlkit.toml_document import TOMLDocument

from hocket.errors import FormatError
from hocket.machine.formats.schema import LANGUAGES
from hocket.studio.sections import TextSection, parse, split

Row = MutableMapping[str, Any]
NewName = NewType("NewName", str)  # of an agent, event, place or state, that will be written


class Draft(MutableMapping[str, Any]):
    """A TOML text that keeps its comments and layout. Its sections are parsed when they are used."""

    def __init__(self, text: str) -> None:
        parse(text)  # raises errors with a line
        self._parts: list[TextSection | TOMLDocument] = [*split(text)]

    @property
    def text(self) -> str:
        return "".join(part.text if isinstance(part, TextSection) else tomlkit.dumps(part) for part in self._parts)

    def _edited(self, index: int) -> TOMLDocument:
        part = self._parts[index]
        if isinstance(part, TextSection):
            try:
                part = self._parts[index] = tomlkit.parse(part.text)
            except (TOMLKitError, RecursionError):
                raise FormatError("this file can be changed as text only") from None
        return part

    def _with(self, key: str) -> TOMLDocument:
        """Find the part that has a key."""
        for index, part in enumerate(self._parts):
            if key in _keys(part):
                return self._edited(index)
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return any(key == name for name in self)

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401
        return self._with(key)[key]

    def __setitem__(self, key: str, value: object) -> None:
        if key in self:
            self._with(key)[key] = value
        elif isinstance(value, Table):
            table = tomlkit.document()
            table[key] = value
            self._parts += [TextSection(None, "\n" if self.text.endswith("\n") else "\n\n"), table]
        else:
            put(self._edited(0), key, value)

    def __delitem__(self, key: str) -> None:
        del self._with(key)[key]

    def __iter__(self) -> Iterator[str]:
        return (key for part in self._parts for key in _keys(part))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def table(self, key: str) -> Row:
        """Return a table; add it at the end of the file if it is missing."""
        table = self.get(key)
        if table is None:
            self[key] = tomlkit.table()
            table = self[key]
        if not isinstance(table, MutableMapping):
            raise FormatError("must be a table", where=key)
        return table

    @property
    def has_world(self) -> bool:
        """Whether it is a task, and not a machine alone."""
        return "machine" in self

    def parts(self) -> dict[str, Row]:
        """The tables with transitions: of each part by name, or of the machine, whose name is then empty."""
        whole: Row = self.table("machine") if self.has_world else self
        return dict(whole["parts"].items()) if "parts" in whole else {"": whole}

    def machine(self, part: str) -> Row:
        """Return the table of a part or of the machine, if its transitions are in the text."""
        table = self.parts().get(part)
        if table is None:
            rule = "is derived from other parts of the text; change the text instead"
            raise FormatError(f"the machine of {part or 'the team'} {rule}")
        if "file" in table:
            raise FormatError("the machine is in a separate file; change that file instead")
        if {*LANGUAGES} & {*table}:
            raise FormatError("the machine is made from a sentence; change the sentence instead")
        return table

    def transitions(self, part: str) -> Row:
        """Return the transitions of a part or of the machine, by their states."""
        rows: Row | None = self.machine(part).get("transitions")
        if rows is None:
            raise FormatError("the machine has no transitions in this text")
        return rows

    def rows(self) -> Iterator[tuple[Row, str, Row]]:
        """Yield a machine's table, a state and its row for all transitions; an error says why they cannot be edited."""
        for part in self.parts():
            table = self.machine(part)
            for state, row in table.get("transitions", {}).items():
                yield table, state, row

    @cached_property
    def events(self) -> list[str]:
        """All events, in the order of the file."""
        document = parse(self.text)
        listed = document.get("events") if self.has_world else None
        if isinstance(listed, dict):
            return [*listed]
        rows = document.get("transitions")
        return [*dict.fromkeys(event for row in rows.values() for event in row)] if isinstance(rows, dict) else []

    def agent(self, name: str) -> Row:
        """Return the row of an agent."""
        row: Row | None = self.table("agents").get(name)
        if row is None:
            raise FormatError(f"the text has no row for agent {name!r}; change teams of identical agents as text")
        return row

    def add_known(self, agent: str, event: str) -> None:
        """Add an event to an agent's local event set, if the text lists it."""
        known = self.table("agents").get(agent, {}).get("knows")
        if known is not None and event not in known:
            known.append(event)


def _keys(part: TextSection | TOMLDocument) -> Iterable[str]:
    return part.parse() if isinstance(part, TextSection) else part


def put(row: Row, key: str, value: object) -> None:
    """Set a value: a new one after the last key, before the blank lines and comments that precede the next heading."""
    if key not in row and isinstance(row, InlineTable):  # which keeps the blank before its end, if it has one
        spaced, item = row.as_string().endswith(" }"), tomlkit.item(value)
        row[key] = item
        if spaced and not row.as_string().endswith(" }"):
            item.trivia.trail = " "
        return
    container: Any = row.value if isinstance(row, Table) else row
    body = container.body if isinstance(container, Container) else []
    plain = [name for name, item in body if name is not None and not isinstance(item, Table | AoT)]
    if key in row or not plain:
        row[key] = value
        return
    container._insert_after(plain[-1], key, tomlkit.item(value))  # tomlkit has no public way to do this
    if isinstance(row, Table):
        dict.__setitem__(row, key, container[key])


def inline(values: Mapping[str, object]) -> InlineTable:
    """Write a small table in one line."""
    pairs = [f"{tomlkit.key(key).as_string()} = {tomlkit.item(value).as_string()}" for key, value in values.items()]
    table = tomlkit.value(f"{{ {', '.join(pairs)} }}" if pairs else "{}")
    assert isinstance(table, InlineTable)
    return table


def rename_key(row: Row, key: str, name: str) -> None:
    """Rename a key, in its place."""
    if key not in row or key == name:
        return
    if name in row:
        raise FormatError(f"there is {name!r} already")
    container: Any = row.value if isinstance(row, Table | InlineTable) else row
    if isinstance(row, OutOfOrderTableProxy):
        raise FormatError(f"what belongs to {key!r} stands in several places; change the text instead")
    _forget_heading(row[key])
    container._replace(key, name, row[key])  # tomlkit has no public way to do this
    if isinstance(row, dict):  # the table has a copy of its container's values
        dict.clear(row)
        dict.update(row, {name: container[name] for name in container})


def _forget_heading(value: object) -> None:
    """Let a table and those in it get the headings that follow from their keys."""
    if isinstance(value, Table):
        value.display_name = None
        for inner in value.values():
            _forget_heading(inner)


def take(rows: Row, state: str, event: str) -> None:
    """Remove a transition from the rows of a machine; the states that it leads to stay."""
    if event not in rows[state]:
        return
    targets = targets_of({state: {event: rows[state][event]}})
    del rows[state][event]
    if not rows[state]:
        rows[state] = inline({})
    for target in targets - {*rows} - targets_of(rows):
        put(rows, target, inline({}))


def targets_of(rows: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """List the states that transitions lead to."""
    ends = [target for row in rows.values() for target in row.values()]
    plain = {str(target) for target in ends if isinstance(target, str)}
    return plain | {str(end[key]) for end in ends if isinstance(end, dict) for key in ("to", "otherwise") if key in end}


def replace_all(holder: Any, old: str, new: str | None = None) -> None:  # noqa: ANN401
    """Replace a name in a list, or among the values of a table; remove it if there is no new one."""
    pairs = holder.items() if isinstance(holder, MutableMapping) else enumerate(holder)
    for key in [key for key, name in pairs if name == old][::-1]:
        if new is None:
            del holder[key]
        else:
            holder[key] = new


def long_text(value: str, like: object) -> String:
    """Write a text of several lines with the same kind of quotes as before."""
    kind = like._t if isinstance(like, String) else StringType.MLB
    if kind is StringType.MLL and "'''" not in value:
        return String(kind, value, f"\n{value}", Trivia())
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return String(StringType.MLB, value, f"\n{escaped}", Trivia())
