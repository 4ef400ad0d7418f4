"""A task file that is being changed: its tables, lists and texts, each in the form in which it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, MutableSequence
from typing import Any

import tomlkit
from tomlkit.container import OutOfOrderTableProxy
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable, String, StringType, Table, Trivia

from hocket.errors import FormatError
from hocket.machine.formats import toml
from hocket.machine.formulas import LANGUAGES
from hocket.machine.names import check_name

Row = MutableMapping[str, Any]


class Gesture:
    """What the page asks for; every value is checked when it is read."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self.values = values

    def text(self, key: str) -> str:
        """Read a text."""
        value = self.values.get(key)
        if not isinstance(value, str):
            raise FormatError(f"must be text, got {value!r:.60}", where=key)
        return value

    def name(self, key: str, what: str) -> str:
        """Read a name that is about to be written."""
        return check_name(self.text(key), what).strip()

    def number(self, key: str, least: int, most: int) -> int:
        """Read a whole number."""
        value = self.values.get(key)
        if type(value) is not int or not least <= value <= most:
            raise FormatError(f"must be a whole number from {least} to {most}, got {value!r:.60}", where=key)
        return value

    def flag(self, key: str) -> bool:
        """Read whether something is so."""
        return self.values.get(key) is True

    def has(self, key: str) -> bool:
        """Say whether there is a value."""
        return self.values.get(key) not in (None, "")


class Draft:
    """A TOML document that keeps its comments and layout."""

    def __init__(self, text: str) -> None:
        toml.parse(text)  # says what is wrong, and in which line
        try:
            self.document = tomlkit.parse(text)
        except (TOMLKitError, RecursionError):
            raise FormatError("this file can be changed as text only") from None

    @property
    def text(self) -> str:
        return tomlkit.dumps(self.document)

    def table(self, key: str) -> Row:
        """Find a table, or begin it at the end of the file."""
        table = self.document.get(key)
        if table is None:
            self.document[key] = tomlkit.table()
            table = self.document[key]
        if not isinstance(table, MutableMapping):
            raise FormatError("must be a table", where=key)
        return table

    # The machine.

    @property
    def has_world(self) -> bool:
        """Whether it is a task, and not a machine alone."""
        return "machine" in self.document

    def parts(self) -> dict[str, Row]:
        """The tables in which transitions are written: of each part, or of the machine, which has no name then."""
        whole: Row = self.table("machine") if self.has_world else self.document
        if "parts" not in whole:
            return {"": whole}
        return dict(whole["parts"].items())

    def machine(self, part: str) -> Row:
        """Find the table of a part, or of the machine, if its transitions stand in the text."""
        table = self.parts().get(part)
        if table is None:
            raise FormatError(
                f"the machine of {part or 'the team'} is derived from other parts of the text; change the text instead"
            )
        if "file" in table:
            raise FormatError("the machine is in a separate file; change that file instead")
        if {*LANGUAGES} & {*table}:
            raise FormatError("the machine is made from a sentence; change the sentence instead")
        return table

    def rows(self) -> Iterator[tuple[Row, str, Row]]:
        """List all transitions that the text has: a machine's table, a state, and its row."""
        for table in self.parts().values():
            for state, row in table.get("transitions", {}).items():
                yield table, state, row

    # Agents.

    def agent(self, name: str) -> Row:
        """Find the row of an agent."""
        rows = self.table("agents")
        if name not in rows:
            raise FormatError(f"{name} is one of a team of like agents, which the text describes once; change the text")
        row: Row = rows[name]
        return row

    def add_known(self, agent: str, event: str) -> None:
        """Add an event to an agent's local event set, if the text lists it."""
        known = self.table("agents").get(agent, {}).get("knows")
        if known is not None and event not in known:
            known.append(event)


def put(row: Row, key: str, value: object) -> None:
    """Set a value; in an inline table, with the blank before its end where it had one."""
    if key in row or not isinstance(row, InlineTable):
        row[key] = value
        return
    spaced = row.as_string().endswith(" }")
    item = tomlkit.item(value)
    row[key] = item
    if spaced and not row.as_string().endswith(" }"):
        item.trivia.trail = " "


def inline(values: Mapping[str, object]) -> InlineTable:
    """Write a small table on a line."""
    table = tomlkit.inline_table()
    table.update(values)
    if values:
        first, last = table.value.body[0], table.value.body[-1]
        if first[0] is not None:
            first[1].trivia.indent = " "
        last[1].trivia.trail = " "
    return table


def rename_key(row: Row, key: str, name: str) -> None:
    """Give a value another key in its place."""
    if key not in row or key == name:
        return
    if name in row:
        raise FormatError(f"there is {name!r} already")
    container: Any = row.value if isinstance(row, Table | InlineTable) else row
    if isinstance(row, OutOfOrderTableProxy):
        raise FormatError(f"what belongs to {key!r} stands in several places; change the text instead")
    _forget_heading(row[key])
    container._replace(key, name, row[key])  # tomlkit has no public way to do this
    if isinstance(row, dict):  # the table's own copy of what its container has
        dict.clear(row)
        dict.update(row, {name: container[name] for name in container})


def _forget_heading(value: object) -> None:
    """Let a table and those in it have the headings that follow from their keys."""
    if isinstance(value, Table):
        value.display_name = None
        for inner in value.values():
            _forget_heading(inner)


def replace_all(names: MutableSequence[str], old: str, new: str) -> None:
    """Replace a name in a list."""
    for index, name in enumerate(names):
        if name == old:
            names[index] = new


def drop_all(names: MutableSequence[str], old: str) -> None:
    """Take a name out of a list."""
    while old in names:
        del names[names.index(old)]


def long_text(value: str, like: object) -> String:
    """Write a text of several lines as it was written before."""
    kind = like._t if isinstance(like, String) else StringType.MLB
    if kind is StringType.MLL and "'''" not in value:
        return String(kind, value, f"\n{value}", Trivia())
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return String(StringType.MLB, value, f"\n{escaped}", Trivia())
