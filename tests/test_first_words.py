"""What a newcomer types first: help, the list of tasks, a task to start from, and tab."""

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import hocket as hk
from hocket.cli import main as cli
from hocket.cli.options import whole_number
from hocket.learn.catalogue import LEARNERS
from hocket.task.catalogue import FAMILIES, built_in_tasks, source_of
from hocket.task.verdict import check_task

COMMANDS = ["tasks", "new", "check", "repair", "show", "play", "train", "study", "paper", "report", "evaluate", "bench"]
LONGEST_WAIT = 60  # seconds, for a shell that never answers


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_has_no_words_of_python_in_it_and_fits_sixty_columns(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert cli.run([*command.split(), "--help"]) == 0
    said = capsys.readouterr().out
    for noise in ("None", "False", "(default: )", "''", "{", "()"):
        assert noise not in said.split("\n\n", 1)[1]  # the line of usage comes first
    body = said[said.index("options") :].splitlines()  # what stands before is wrapped by the terminal
    assert max(map(len, body)) <= 60


def test_the_help_names_every_command_and_the_version(capsys):
    assert cli.run(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"• {name}" in said for name in COMMANDS)
    assert "--version" in said
    for word in ("--version", "-V"):
        assert cli.run([word]) == 0
        assert capsys.readouterr().out == f"hocket {hk.__version__}\n"


def test_tasks_lists_every_built_in_task_with_its_description(capsys):
    assert cli.run(["tasks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in built_in_tasks():
        assert any(line.startswith(f"{name} ") and hk.load_task(name).description in line for line in lines)
    assert cli.run(["tasks", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {*built_in_tasks(), *(f"{family}-2" for family in FAMILIES)} == told.keys()
    assert told["buttons"]["agents"] == ["A1", "A2", "A3"]


def test_the_list_of_tasks_fits_a_narrow_terminal():
    screen = (
        "import os, sys; os.get_terminal_size = lambda *_: os.terminal_size((60, 24)); sys.stdout.isatty = lambda: 1"
    )
    code = f"{screen}\nfrom hocket.cli.main import run\nrun(['tasks'])"
    said = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "60"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert max(len(line) for line in re.sub(r"\x1b\[[0-9;]*m", "", said).splitlines()) <= 60


def test_a_new_task_is_whole_sound_and_named_by_its_file(tmp_path, capsys):
    path = tmp_path / "parcel.toml"
    assert cli.run(["new", str(path)]) == 0
    assert str(path) in capsys.readouterr().out
    task = hk.load_task(path)
    assert task.name == "parcel"
    assert check_task(task).ok
    assert path.read_text() == source_of()
    assert cli.run(["check", str(path)]) == 0


def test_the_new_tasks_own_advice_leads_to_a_counterexample(tmp_path):
    path = tmp_path / "parcel.toml"
    path.write_text(source_of().replace('knows = ["open", "fetch", "meet"]', 'knows = ["fetch", "meet"]'))
    assert hk.load_task(path).decomposition.counterexample.event == "fetch"


@pytest.mark.parametrize("name", ["warehouse", "rendezvous-3", "crew-4"])
def test_a_copy_of_a_built_in_task_is_the_same_task(name, tmp_path):
    path = tmp_path / "copy.toml"
    assert cli.run(["new", str(path), "--from", name]) == 0
    copy, task = hk.load_task(path), hk.load_task(name)
    assert copy.agents == task.agents
    assert copy.grid == task.grid
    assert copy.knows == task.knows
    assert copy.decomposition.ok


def test_a_file_that_exists_is_never_overwritten(tmp_path, capsys):
    path = tmp_path / "mine.toml"
    path.write_text("mine")
    assert cli.run(["new", str(path)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["new", "task.yaml"], "a task file ends in .toml"),
        (["new", "task.toml", "--from", "button"], "did you mean 'buttons'?"),
        (["new", "nowhere/task.toml"], "cannot be written"),
        (["train"], "`hocket tasks` lists"),
        (["--completion", "zhs"], "did you mean 'zsh'?"),
        (["train", "buttons", "--learner", "dqrpm"], "did you mean 'dqprm'?"),
        (["train", "buttons", "--set", "sync_probabilty=1"], "did you mean 'sync_probability'?"),
        (["train", "buttons", "--set", "share_world=true,backups=3"], "as words with blanks between them"),
        (["study", "papr"], "did you mean 'paper'?"),
    ],
)
def test_a_wrong_word_gets_one_sentence_and_a_suggestion(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.run(words) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


class Shell:
    """An interactive shell that knows the completion, on a terminal."""

    def __init__(self, name: str, folder: Path) -> None:
        quiet = {"bash": ["--norc", "--noprofile", "-i"], "zsh": ["-f", "-i"]}[name]
        self.process, self.master = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            environment = {"PATH": os.environ["PATH"], "TERM": "vt100", "PS1": "$ ", "HOME": str(folder)}
            os.execvpe(name, [name, *quiet], environment)
        self.type(". ./script; hocket() { printf '<%s>' \"$@\"; echo '!'; }; echo rea''dy\n")
        self.read("ready")

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def read(self, expected: str) -> str:
        seen = ""
        while expected not in seen:
            assert select.select([self.master], [], [], LONGEST_WAIT)[0], f"no {expected!r} in {seen!r}"
            seen += os.read(self.master, 4096).decode(errors="replace")
        return seen

    def close(self) -> None:
        os.close(self.master)
        os.waitpid(self.process, 0)


@pytest.mark.parametrize("name", ["bash", "zsh"])
def test_tab_completes_commands_options_tasks_learners_settings_and_files(name, tmp_path, capsys):
    if shutil.which(name) is None:
        pytest.skip(f"no {name} here")
    assert cli.run(["--completion", name]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out)
    (tmp_path / "mytask.toml").write_text("")
    shell = Shell(name, tmp_path)
    try:
        for typed, completed in [
            ("tra", "train"),
            ("check ware", "check warehouse"),
            ("check myt", "check mytask.toml"),
            ("train --learner dqprm,opt", "train --learner dqprm,optimal"),
            ("train buttons --set sync_pro", "train buttons --set sync_probability="),
            ("train buttons --json four", "train buttons --json four-buttons"),
            ("evaluate --gre", "evaluate --greedy"),
            ("study paper-", "study paper-quick"),
            ("report --format svg,pd", "report --format svg,pdf"),
        ]:
            shell.type(f"hocket {typed}\t")
            shell.type("\n")
            shell.read("".join(f"<{word}>" for word in completed.split()) + "!")
    finally:
        shell.close()


def test_the_completion_knows_all_learners_and_all_their_settings(capsys):
    assert cli.run(["--completion", "bash"]) == 0
    said = capsys.readouterr().out
    assert f"values='{' '.join(LEARNERS)}'" in said
    assert all(f"{field.name}=" in said for own in LEARNERS.values() for field in fields(own.settings))


def test_a_command_looks_for_cycles_seldom_and_never_among_what_is_loaded(monkeypatch, capsys):
    done = []
    monkeypatch.setattr(cli.gc, "freeze", lambda: done.append("freeze"))
    monkeypatch.setattr(cli.gc, "set_threshold", lambda *own: done.append(own))
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert done == ["freeze", cli.GC_THRESHOLDS] and cli.GC_THRESHOLDS[0] > 10_000
    assert capsys.readouterr().out.startswith("hocket ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("trian", "buttons"), "hocket: there is no command 'trian' (did you mean 'train'?)"),
        (("train", "buttons", "--set"), "hocket: --set takes words of the form NAME=VALUE"),
        (
            ("train", "buttons", "--set", "learningrate=1"),
            "no setting 'learningrate' (learning_rate is one of",
        ),
        (("train", "buttons", "--set", "back_ups=1"), "sweep has no setting 'back_ups' (did you mean 'backups'?)"),
        (("evaluate", "buttons", "runs/nowhere"), "hocket: runs/nowhere: is not a folder of runs"),
        (("train", "buttons", "--steps", "many"), "Error parsing --steps: must be a whole number, got 'many'"),
        (("evaluate", "buttons", "runs", "--episodes", "2.5"), "Error parsing --episodes: must be a whole number"),
    ],
)
def test_a_slip_of_the_keys_is_told_in_a_sentence(hocket, words, said):
    code, out, err = hocket(*words)
    assert (code, out) == (2, "") and said in err and "NoneType" not in err


def test_a_task_without_its_suffix_is_offered_as_the_file_that_is_there(hocket, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hocket("new", "mine.toml")
    code, _, err = hocket("check", "mine")
    assert code == 2 and "(did you mean 'mine.toml'?)" in err


@pytest.mark.parametrize(
    ("text", "number"), [("3000", 3000), ("3,000", 3000), ("3_000", 3000), ("3e3", 3000), ("+7", 7)]
)
def test_numbers_are_read_as_people_write_them(text, number):
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["", "x", "1.5", "1e400", "1e30", "nan", "inf", "--", "9" * 5000])
def test_what_is_no_whole_number_is_refused(text):
    with pytest.raises(ValueError, match="must be a whole number, got"):
        whole_number(text)
