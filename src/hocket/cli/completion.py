"""Shell completion: a script for bash or zsh with all commands, options, tasks, learners and settings.

The completion scripts of tyro complete commands, options and fixed choices. This one also completes names of tasks,
files, comma-separated lists of learners, and NAME= of a setting; and it does not start Python at each press of the tab
key, as tyro's script for bash does. In both shells, `_hocket_find` of completion.sh takes the words before the one to
complete and finds the possible words; `kind` says what may follow them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import fields
from importlib.resources import files
from typing import get_args, get_type_hints

from hocket.errors import SettingsError, known_names

SHELLS = ("bash", "zsh")


def completion_script(shell: str, commands: object) -> str:
    """Write the script for a shell; `commands` is a union of annotated dataclasses."""
    if shell not in SHELLS:
        raise SettingsError(f"completion is for {' and '.join(SHELLS)}, got {shell!r} ({known_names(shell, SHELLS)})")
    kinds, flags, several = _kinds(), {"-h", "--help"}, set[str]()
    values: list[str] = []
    options: dict[str, list[str]] = {}
    for annotated in get_args(commands):
        command, about = get_args(annotated)
        name, positional = about.name, list[str]()
        options[name] = ["-h", "--help"]
        for words, metavar, is_several in _words(command):
            options[name] += words
            if not words:
                positional.append(_line(f"'{name} '", **kinds.get(metavar, {})))
            elif metavar in kinds:
                values.append(_line(" | ".join(f"'{name} {word}'" for word in words), **kinds[metavar]))
            if is_several:
                several |= {*words}
            if not metavar:
                flags |= {*words}
        values.append(_line(f"'{name} -'*"))  # all other options have no known values
        values += positional[:1]
    values.insert(0, _line("' '", values=" ".join(options)))
    table = {"flags": " ".join(sorted(flags)), "several": " ".join(sorted(several)), "values": "\n".join(values)}
    table["options"] = "\n".join(_line(f"'{name}'", options=" ".join(words)) for name, words in options.items())
    common, of_shell = (files("hocket.cli").joinpath(f"completion.{name}").read_text("utf-8") for name in ("sh", shell))
    return common % table + of_shell


def _line(pattern: str, **values: str) -> str:
    return f"    {pattern}) {' '.join(f'{name}={shlex.quote(value)}' for name, value in values.items())} ;;"


def _words(command: type) -> Iterator[tuple[tuple[str, ...], str, bool]]:
    """List each option of a command: its words (none if positional), metavar (none of a flag), if it takes several."""
    for name, hint in get_type_hints(command, include_extras=True).items():
        notes = getattr(hint, "__metadata__", ())
        described = next((note for note in notes if hasattr(note, "aliases")), None)
        metavar = getattr(described, "metavar", None) or ""
        if any("Positional" in repr(note) for note in notes):
            yield (), metavar, False
        else:
            flag = "--" + (getattr(described, "name", None) or name).replace("_", "-")
            is_several = any(getattr(note, "_action", "") == "append" for note in notes)
            yield (*(getattr(described, "aliases", None) or ()), flag), metavar, is_several


def _kinds() -> dict[str, dict[str, str]]:
    """Return for each metavar the possible words, and what may follow them."""
    from hocket.learn.catalogue import LEARNERS
    from hocket.study.study import built_in_studies
    from hocket.task.catalogue import known_tasks

    settings = {f"{field.name}=" for learner in LEARNERS.values() for field in fields(learner.settings)}
    tasks, file = {"kind": "task", "values": " ".join(known_tasks())}, {"kind": "file"}
    return {
        **dict.fromkeys(("TASK", "[TASK|MACHINE]"), tasks),
        **dict.fromkeys(("FILE", "[FILE]", "FOLDER"), file),
        "STUDY": {"kind": "task", "values": " ".join(built_in_studies())},
        "LEARNER": {"values": " ".join(LEARNERS)},
        "LEARNER,...": {"kind": "list", "values": " ".join(LEARNERS)},
        "FORMAT,...": {"kind": "list", "values": "svg png pdf"},
        "ENGINE": {"values": "threads dask"},
        "DEVICE": {"values": "cpu cuda"},
        "NAME=VALUE,...": {"kind": "setting", "values": " ".join(sorted(settings))},
    }
