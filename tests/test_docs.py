"""The pages of docs say what is so: their tables, numbers, commands and links are held against the code."""

import copy
import json
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest
import tyro

import hocket as hk
from hocket.cli.main import Command
from hocket.evaluation.evaluate import Evaluation
from hocket.files import MEGABYTE
from hocket.learn.dqprm import DqprmSettings
from hocket.machine.completion import LARGEST_SEARCH
from hocket.machine.composition import Composition
from hocket.machine.decomposition import LARGEST_ENUMERATION
from hocket.machine.formats import FORMATS
from hocket.report.performance import ENOUGH, LAST_TESTS, NEAR
from hocket.study.study import Level, load_study
from hocket.study.testing import EPISODES
from hocket.task import files, grid, settling
from hocket.task.agents import MOST_LATCHED
from hocket.task.catalogue import MOST_AGENTS, built_in_tasks
from hocket.task.settling import propose
from hocket.task.tables import MOST_ENTRIES, MOST_EVENTS, MOST_STATES
from hocket.task.tokens import MAPS

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")])
    if path.parent.name != "reference"  # written from the code
}
FORMAT = PAGES["docs/format.md"]
DOOR = tomllib.loads(re.findall(r"^```toml\n(.*?)^```$", FORMAT, re.MULTILINE | re.DOTALL)[0])
SUFFIXES = {"Text": ".txt", "DOT": ".dot", "HOA": ".hoa"}  # heading of a table -> of the file that it is about


def cells(row: str) -> list[str]:
    """Cut a row of a table into its cells."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip())[1:-1]]


def tables(page: str) -> list[tuple[str, list[str], list[list[str]]]]:
    """List the tables of a page: the heading above, the names of the columns, the rows."""
    found = []
    for match in re.finditer(r"^\|.*\|\n\| ?-.*\n((?:\|.*\|\n?)*)", page, re.MULTILINE):
        heading = re.findall(r"^#+ (.*)$", page[: match.start()], re.MULTILINE)[-1]
        head, _, *rows = match[0].splitlines()
        found.append((heading, cells(head), [cells(row) for row in rows]))
    return found


def code(cell: str) -> list[str]:
    """List what is in backquotes."""
    return re.findall(r"`([^`]+)`", cell)


# What is wrong, and what hocket says of it.

MISTAKES = [
    (heading, *row) for heading, columns, rows in tables(FORMAT) if columns == ["wrong", "says", "do"] for row in rows
]


def with_lines(document: dict, lines: list[str]) -> dict:
    """Replace what TOML lines such as `agents.A1.start = "1"` are about."""
    changed = copy.deepcopy(document)
    for line in lines:
        *path, last = line.partition(" = ")[0].split(".")
        value, table = tomllib.loads(line), changed
        for name in path:
            value, table = value[name], table.setdefault(name, {})
        table[last] = value[last]
    return changed


def test_every_table_of_mistakes_is_read():
    headings = {heading for heading, *_ in MISTAKES}
    assert {"map and legend", "What is checked", *SUFFIXES} <= headings
    assert all("says" not in columns or columns[0] == "wrong" for _, columns, _ in tables(FORMAT))


@pytest.mark.parametrize(("heading", "wrong", "says", "do"), MISTAKES, ids=[f"{m[0]}: {m[2]}"[:80] for m in MISTAKES])
def test_a_mistake_is_answered_as_the_page_says(hocket, tmp_path, heading, wrong, says, do):
    (said,) = code(says)
    path = tmp_path / f"door{SUFFIXES.get(heading, '.json')}"
    content = "\n".join(code(wrong)) if heading in SUFFIXES else json.dumps(with_lines(DOOR, code(wrong)))
    path.write_text(content + "\n", encoding="utf-8")
    exit_code, out, err = hocket("check", path)
    if exit_code == 2:
        assert (out, err) == ("", f"hocket: {path}: {said}\n")
    else:
        assert said in [line.strip() for line in out.splitlines()] and not err
        assert exit_code == (0 if "only a note" in do else 1)


def test_the_file_that_the_mistakes_are_made_in_has_none(hocket, tmp_path):
    (tmp_path / "door.json").write_text(json.dumps(DOOR))
    assert hocket("check", tmp_path / "door.json")[0] == 0


# Keys and formats.


def test_the_page_on_files_has_every_key_of_a_task_and_no_other():
    (rows,) = [rows for heading, _, rows in tables(FORMAT) if heading == "All keys"]
    named = ["".join(code(row[0])) for row in rows]
    assert {name.partition(".")[0] for name in named} == {*files.TASK_KEYS}
    agents = {name.removeprefix("agents.NAME.") for name in named if name.startswith("agents.NAME.")}
    assert agents == {*files.AGENT_KEYS}


def test_the_page_on_files_has_every_suffix_of_a_machine():
    (rows,) = [rows for heading, columns, rows in tables(FORMAT) if columns[0] == "suffix"]
    assert {suffix for row in rows for suffix in code(row[0])} == {*FORMATS}


def test_the_page_on_tasks_has_every_builtin_task_as_it_is():
    (rows,) = [rows for _, columns, rows in tables(PAGES["docs/tasks.md"]) if columns[0] == "task"]
    shown = {code(row[0])[0]: row[1:4] for row in rows}
    assert {*shown} - {"rendezvous-N", *MAPS} == {*built_in_tasks()}
    for name, (agents, size, machine) in shown.items():
        task = hk.load_task(name.replace("-N", "-7"))
        assert agents == ("N" if name == "rendezvous-N" else str(len(task.agents)))
        assert size == f"{task.grid.rows} x {task.grid.columns}"
        if isinstance(task.machine, Composition):
            assert machine == f"composition of {agents} parts"
        else:
            assert machine == f"{len(task.machine.states)} states"


# Numbers that the code decides.

PAPER = DqprmSettings()
PAPER_RUNS = [batch for batch in load_study("paper").groups() if batch.learner != "optimal"]
NUMBERS = {
    "README.md": [f"{sum(len(group.seeds) for group in PAPER_RUNS)} runs of four learners"],
    "docs/format.md": [
        f"one file of at most {files.LIMIT // MEGABYTE} MB",
        f"has at most {grid.MOST_CELLS:,} cells",
        f"list of at most {MOST_LATCHED} events",
        f"whole number from 1 to {MOST_AGENTS:,}",
        f"up to {LARGEST_SEARCH:,} (fewer",
        f"enumerated, up to {LARGEST_ENUMERATION:,} states",
        f"at most {MOST_STATES:,} states",
        f"at most {MOST_EVENTS:,} events",
        f"at most {MOST_ENTRIES:,} entries",
        f"as TOML up to {FORMATS['.toml'].limit // MEGABYTE} MB",
        f"as HOA up to {FORMATS['.hoa'].limit // MEGABYTE} MB",
        f"the others up to {FORMATS['.json'].limit // MEGABYTE} MB",
        f"number from 0 to 1 | `{hk.Task.slip}` |",
        f"The learner's setting, {PAPER.sync_probability},",
    ],
    "docs/tasks.md": [f"up to {MOST_AGENTS:,}:"],
    "docs/results.md": [
        f"discount {PAPER.discount}, learning rate {PAPER.learning_rate}, temperature {PAPER.temperature}, "
        f"simulated synchronisation {PAPER.sync_probability}, slips of {100 * hk.Task.slip:g} %, "
        f"episodes of at most {PAPER.max_episode_steps:,} steps, "
        f"one test after every {PAPER.test_every:,} training steps"
    ],
    "docs/studies.md": [
        f"the median over the episodes of its last {LAST_TESTS} tests",
        f"the last {LAST_TESTS} tests of each run",
        f"its success is at least {ENOUGH} and its steps are within {100 * NEAR:g} %",
        f"over {EPISODES} episodes of every run",
    ],
    "docs/wrap.md": [f"`sync_probability` ({PAPER.sync_probability})"],
}


@pytest.mark.parametrize(
    ("page", "said"), [(page, said) for page, all_said in NUMBERS.items() for said in all_said], ids=str
)
def test_a_number_on_a_page_is_that_of_the_code(page, said):
    assert said in " ".join(PAGES[page].split())


def test_the_page_on_results_shows_what_the_papers_study_says_is_published():
    (rows,) = [rows for _, columns, rows in tables(PAGES["docs/results.md"]) if "final: published" in columns]
    published = load_study("paper", 1).published
    shown = {}
    for task, learner, final, measured, difference, reached, _, success, _ in rows:
        steps, own = (float(cell.replace(",", "")) for cell in (final, measured))
        shown[task, learner] = Level(
            steps, None if reached == "never" else int(reached.replace(",", "")), float(success)
        )
        assert abs(100 * (own / steps - 1) - float(difference.removesuffix(" %"))) < 1
    assert published is not None and shown == published.levels


def test_the_readme_says_which_commands_print_json():
    found = {command.__metadata__[0].name: command.__origin__ for command in Command.__args__}
    silent = [name for name, command in found.items() if "json" not in {own.name for own in fields(command)}]
    *first, last = (f"`{name}`" for name in silent)
    listed = f"{', '.join(first)} and {last}"
    assert f"all commands but {listed} print JSON with `--json`" in " ".join(PAGES["README.md"].split())


# The glossary.

GLOSSARY = [row for _, columns, rows in tables(PAGES["docs/glossary.md"]) for row in rows if "Python" in columns]
PLACES = [row for _, columns, rows in tables(PAGES["docs/glossary.md"]) for row in rows if "Python" not in columns]


@pytest.mark.parametrize(("symbol", "meaning", "python", "keys"), GLOSSARY, ids=[row[0] for row in GLOSSARY])
def test_the_glossary_names_what_there_is(symbol, meaning, python, keys):
    task = hk.load_task("buttons")
    names = {"hk": hk, "task": task, "m": task.machine, "d": task.decomposition, "i": "A1", **vars(settling)}
    names["propose"] = propose
    if python.startswith("setting"):
        assert {*code(python)} <= {own.name for own in fields(DqprmSettings)}
    elif "hk.evaluate" in python:
        assert {*code(python)} <= {"hk.evaluate", *(own.name for own in fields(Evaluation))}
    else:
        for expression in code(python):
            value = eval(expression, names)
            assert value is not None or "counterexample" in expression
    for key in code(keys):
        first, *rest = key.split(".")
        assert first in files.TASK_KEYS
        assert first != "agents" or rest[1] in files.AGENT_KEYS


@pytest.mark.parametrize(("term", "meaning", "places"), PLACES, ids=[row[0] for row in PLACES])
def test_the_glossary_says_where_in_the_code_a_thing_is(term, meaning, places):
    for place in code(places):
        try:
            assert import_module(place)
        except ModuleNotFoundError:
            module, _, name = place.rpartition(".")
            assert getattr(import_module(module), name)


# Commands and links.


def shell_lines(page: str) -> list[str]:
    """List the lines that a page gives to a shell: in blocks, after a prompt, and in backquotes."""
    blocks = re.findall(r"^```(?:sh\b.*|console)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += re.findall(r"^    (\S.*)$", page, re.MULTILINE)
    lines += re.findall(r"`([^`\n]+)`", page)
    return [part.strip() for line in lines for part in re.split(r"\$ | && | \| ", line)]


HOCKET = sorted(
    {
        line.partition("  #")[0].removeprefix(".venv/bin/")
        for page in PAGES.values()
        for line in shell_lines(page)
        if re.match(r"(\.venv/bin/)?hocket [a-z]", line)
    }
)


@pytest.mark.parametrize("line", HOCKET)
def test_a_command_on_a_page_is_one_that_hocket_takes(line):
    words = shlex.split(line)[1:]
    if len(words) > 1:  # a command alone, such as `hocket check`, only names it
        tyro.cli(Command, args=words)
    else:
        assert words[0] in {command.__metadata__[0].name for command in Command.__args__}


def test_the_pages_have_commands_to_check():
    assert len(HOCKET) > 20


def test_making_a_task_of_ones_own_goes_as_the_page_says(tmp_path):
    section = PAGES["docs/tasks.md"].partition("## Copy one")[2]
    lines = re.findall(r"^    (\S.*)$", section, re.MULTILINE)
    assert [line.split()[1] for line in lines] == ["new", "show", "check", "repair", "play", "show"]
    for line in lines:
        words = shlex.split(line)
        done = subprocess.run(
            [sys.executable, "-m", "hocket", *words[1:]],
            cwd=tmp_path,
            input="d\n",
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), line
    assert {path.name for path in tmp_path.iterdir()} == {"mine.toml", "repaired.toml", "mine.svg"}


def test_the_study_on_the_page_is_one(tmp_path):
    study, published = re.findall(r"^```toml\n(.*?)^```$", PAGES["docs/studies.md"], re.MULTILINE | re.DOTALL)
    (tmp_path / "sync.toml").write_text(study + published, encoding="utf-8")
    hk.save_task(hk.load_task("buttons"), tmp_path / "my-task.toml")
    found = load_study(tmp_path / "sync.toml")
    assert found.groups() and found.published is not None
    assert found.published.levels == {("buttons", "dqprm"): Level(30.0, 17_000, 1.0)}


def anchors(page: str) -> set[str]:
    """List the names that headings of a page are linked by."""
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_a_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", PAGES[page]):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), target


@pytest.mark.parametrize("page", PAGES)
def test_a_path_of_the_source_exists(page):
    for path in re.findall(r"`((?:src|tests|bench|examples|docs)/[\w./-]+)`", PAGES[page]):
        assert list(ROOT.glob(path.replace("NAME", "*"))), path
