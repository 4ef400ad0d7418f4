"""What a player sees and can do: the map, the frames, scripts in a pipe, and keys on a real terminal."""

import fcntl
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import hocket as hk
from hocket.cli import main as cli
from hocket.cli.check import print_map
from hocket.cli.play import Keyboard, TerminalGame, draw_frame
from hocket.draw import palette
from hocket.draw.scene import Moment, Scene
from hocket.draw.task_scene import scene_of
from hocket.draw.text import TextMap, Window, clip
from hocket.learn.policies import reference_teammates, trained_teammates
from hocket.task.catalogue import built_in_tasks
from hocket.task.grid import ACTIONS
from strategies import quick
from test_drawing import SIGHT, TO_CONES, TO_OKLAB, linear

PATIENCE = 120  # seconds after which a program will not answer any more, however busy the machine is
ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[@-~]|\].*?\x07|.)")
UP, RIGHT, LEFT = b"\x1b[A", b"\x1b[C", b"\x1bOD"  # the last as terminals in application mode send it

CORRIDOR = """
name = "corridor"
slip = 0
map = "1...G"
legend = { G = "goal" }
agents.A1 = { start = "1", knows = ["Goal"] }
events.Goal = "A1 at goal"
machine = { initial = "u0", final = ["u1"], transitions = { u0 = { Goal = "u1" } } }
"""

# The projection of A2 merges the states before and after open, so it proposes the bell too early.
HASTY = """
name = "hasty"
slip = 0
map = "1D.B2"
legend = { D = "door", B = "bell" }
agents.A1 = { start = "1", knows = ["open"] }
agents.A2 = { start = "2", knows = ["ring"] }
events.open = "A1 at door"
events.ring = "A2 at bell"
machine = { initial = "u0", final = ["u2"], transitions = { u0 = { open = "u1" }, u1 = { ring = "u2" } } }
"""


@pytest.fixture
def corridor(tmp_path):
    path = tmp_path / "corridor.toml"
    path.write_text(CORRIDOR)
    return str(path)


@pytest.fixture
def play(monkeypatch, capsys):
    """Run a command in a pipe; give back its exit code and what it printed."""

    def run(*args: str, typed: str = "") -> tuple[int, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        code = cli.run(["play", *args])
        printed = capsys.readouterr()
        assert "\x1b" not in printed.out + printed.err
        return code, printed.out + printed.err

    return run


def plain(lines) -> list[str]:
    return [line.plain for line in lines]


def squares(task: hk.Task, moment: Moment) -> dict[int, str]:
    """Find the two characters that are drawn for each cell."""
    rows = plain(TextMap(scene_of(task)).draw(moment))
    assert [len(row) for row in rows] == [2 * task.grid.columns] * task.grid.rows
    return {
        task.grid.cell(row, column): line[2 * column : 2 * column + 2]
        for row, line in enumerate(rows)
        for column in range(task.grid.columns)
    }


# The map


@pytest.mark.parametrize(
    "name", [name for name in [*built_in_tasks(), "rendezvous-3", "rendezvous-10"] if not hk.load_task(name).grid.thin]
)
def test_walls_floor_agents_places_and_closed_gates_are_drawn_where_they_are(name):
    task = hk.load_task(name)
    scene = scene_of(task)
    drawn = squares(task, scene.opening)
    gated = {cell for agent in task.agents.values() for region in agent.gates for cell in task.grid.places[region]}
    starts = {agent.start for agent in task.agents.values()}
    for cell, square in drawn.items():
        here = {area.tag[0] for area in scene.areas if cell in scene.cells_in(area.shapes)}
        if cell in task.grid.walls:
            assert square == "##"
        elif cell in starts:
            assert square[0].isdigit() or square == "++"
        else:
            assert square[0] in here if here else square[0] == "·"
            assert (square[1] == "×") == (cell in gated)


def test_the_legend_of_buttons_names_all_places_and_to_whom_they_are_closed():
    task = hk.load_task("buttons")
    scene = scene_of(task)
    said = "   ".join(plain(TextMap(scene).legend(scene.opening, 80))) + "   "
    tags = {area.name: area.tag for area in scene.areas}
    assert {*tags} | {f"{name}'s corner" for name in task.agents} == {*task.grid.places}
    assert len(set(tags.values())) == len(tags)
    closed = {"yellow region": " × A2", "green region": " × A3", "red region": " × A1"}
    for place, letter in tags.items():
        assert f"{letter}  {place}{closed.get(place, '')}   " in said
    assert all(f"{number}  {agent}   " in said for number, agent in enumerate(task.agents, start=1))


def test_an_open_gate_has_no_cross_and_a_driver_sees_only_its_own_gates():
    task = hk.load_task("buttons")
    scene = scene_of(task)
    states = {name: machine.initial for name, machine in task.machines.items()}
    cells = scene.opening.cells

    def closed(**seen) -> dict[str, list[str]]:
        return {area.name: agents for area, agents in scene.closed(Moment(cells, states, **seen)).items()}

    assert closed() == {"yellow region": ["A2"], "green region": ["A3"], "red region": ["A1"]}
    assert closed(driven="A1") == {"red region": ["A1"]}
    pressed = states | {name: task.machines[name].transitions[states[name], "Y"] for name in ("A1", "A2")}
    drawn = squares(task, Moment(cells, pressed))
    assert {drawn[cell] for cell in task.grid.places["yellow region"]} == {"y "}
    assert {drawn[cell] for cell in task.grid.places["green region"]} == {"n×"}


def test_agents_that_share_a_cell_and_starts_that_are_left_are_marked():
    task = hk.load_task("rendezvous-11")
    meeting = next(iter(task.grid.places["meeting place"]))
    cells = dict.fromkeys(task.agents, meeting)
    starts = {name: agent.start for name, agent in task.agents.items()}
    drawn = squares(task, Moment(cells))
    assert drawn[meeting] == "1+"
    assert (drawn[starts["A1"]], drawn[starts["A11"]]) == ("·₁", "·°")
    assert (drawn[starts["A10"]], drawn[min(task.grid.places["goal 10"])]) == ("G9", "G…")  # what fits of a place's tag
    assert squares(task, Moment(cells, driven="A4"))[meeting] == "@+"
    assert squares(task, Moment(cells | {"A4": starts["A1"]}, driven="A4"))[starts["A1"]] == "@4"
    assert squares(task, Moment(cells | {"A10": starts["A1"]}, driven="A10"))[starts["A1"]] == "@@"
    assert squares(task, Moment(cells | {"A10": starts["A1"]}))[starts["A1"]] == "10"


@quick
@given(st.lists(st.tuples(st.text(min_size=1), st.integers(1, 3)), unique_by=lambda item: item[0], max_size=60))
def test_every_place_has_a_narrow_letter_of_its_own_until_they_run_out(named):
    places = {name.strip() or "x": size for name, size in named}
    letters = palette.choose_letters(places, [name for name, size in places.items() if size > 1])
    assert list(letters) == list(places)
    lettered = [letter for letter in letters.values() if letter]
    assert len(set(lettered)) == len(lettered) == min(52, len(places))
    assert all(letter.isascii() and letter.isalpha() for letter in lettered)


def test_places_have_backgrounds_of_their_own_and_names_that_tell_a_colour_get_it():
    colors = {area.name: area.color for area in scene_of(hk.load_task("buttons")).areas}
    assert len(set(colors.values())) == len(colors)
    assert [colors[f"{color} button"] for color in ("yellow", "green", "red")] == [
        palette.PLACE_COLORS[color] for color in ("yellow", "green", "red")
    ]


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("colors", [[*palette.PLACE_COLORS.values(), palette.FLOOR], palette.AGENT_COLORS])
def test_colours_on_a_map_can_be_told_apart_with_any_sight(sight, colors):
    seen = np.clip([np.array(SIGHT[sight]) @ linear(color) for color in colors], 0, 1)
    points = np.cbrt(seen @ np.transpose(TO_CONES)) @ np.transpose(TO_OKLAB)
    assert min(np.linalg.norm(one - other) for one, other in combinations(points, 2)) >= 0.08


def test_letters_and_numbers_can_be_read_on_their_colours():
    def luminance(color: str) -> float:
        return linear(color) @ [0.2126, 0.7152, 0.0722] + 0.05

    for color in palette.PLACE_COLORS.values():
        assert luminance(color) / luminance(palette.INK) >= 5.5
    for color in palette.AGENT_COLORS:
        assert luminance(palette.WHITE) / luminance(color) >= 4.5


@quick
@given(st.integers(1, 50), st.integers(1, 50), st.integers(-5, 60), st.integers(-5, 60), st.data())
def test_a_clipped_map_keeps_the_cell_in_sight_and_is_as_large_as_allowed(rows, columns, height, width, data):
    scene = Scene("t", columns, rows, (), {}, {})
    cell = data.draw(st.integers(0, rows * columns - 1))
    row, column = divmod(cell, columns)
    window = clip(scene, cell, height, width)
    assert (window.rows, window.columns) == (min(rows, max(1, height)), min(columns, max(1, width)))
    assert 0 <= window.top <= row < window.top + window.rows <= rows
    assert 0 <= window.left <= column < window.left + window.columns <= columns


def test_a_part_of_a_map_is_the_same_part_of_the_whole():
    task = hk.load_task("rooms")
    scene = scene_of(task)
    board = TextMap(scene)
    whole, part = plain(board.draw(scene.opening)), plain(board.draw(scene.opening, Window(5, 7, 11, 13)))
    assert part == [line[14:40] for line in whole[5:16]]


def test_names_are_never_taken_for_markup():
    grid = hk.Grid(1, 3, places={"[red]x[/red]": {1}, ":bell:": {2}})
    machine = hk.RewardMachine(initial="[b]", transitions={("[b]", "[/i]"): "end"}, final={"end"})
    agents = {"[u]a": hk.Agent(0, ["[/i]"], gates={":bell:": "[/i]"})}
    task = hk.Task("[bold]", grid, agents, {"[/i]": {"[u]a": hk.Condition("[red]x[/red]")}}, machine, slip=0)
    out = io.StringIO()
    print_map(Console(file=out, width=120), task)
    assert all(name in out.getvalue() for name in ("[red]x[/red]", ":bell: × [u]a", "1  [u]a"))
    game = TerminalGame(task, ("[u]a",), 0, 10)
    before = "\n".join(plain(draw_frame(game, 100)))
    game.choose("right")
    after = "\n".join(plain(draw_frame(game, 100)))
    assert "[b]" in before and "[bold]  step 1" in after and "[/i] by [u]a; team in end" in after


def test_show_prints_the_map_before_the_machines(capsys):
    assert cli.run(["show", "buttons"]) == 0
    printed = capsys.readouterr().out
    assert printed.index("1 · Y ##· 2 · ##3 ·\n") < printed.index("Y  yellow button") < printed.index("\nteam\n")
    assert "\x1b" not in printed and all(line == line.rstrip() for line in printed.splitlines())


def test_show_clips_the_map_on_a_narrow_terminal():
    out = io.StringIO()
    print_map(Console(file=out, width=50, force_terminal=True, color_system=None), hk.load_task("rooms"))
    lines = ESCAPE.sub("", out.getvalue()).splitlines()
    assert "columns" in lines[0] and {len(line) for line in lines[1:41]} == {50}


def test_show_prints_a_part_of_a_map_that_is_large_and_says_how_large_it_is():
    out = io.StringIO()
    print_map(Console(file=out, width=10_000, color_system=None), hk.rendezvous(2, rows=150, columns=500))
    lines = out.getvalue().splitlines()
    assert lines[0] == "rows 50–149, columns 0–399 of the map (150 × 500)"
    assert {len(line) for line in lines[1:101]} == {799} and not lines[101]  # a space at the end is not printed


# Frames


@pytest.mark.parametrize("name", [*built_in_tasks(), "rendezvous-10", "rendezvous-60"])
@pytest.mark.parametrize("size", [(120, 60), (120, 24), (80, 24), (50, 14), (40, 60), (20, 5), (1, 1)])
def test_a_frame_fits_the_screen_and_shows_the_driven_agent(name, size):
    task = hk.load_task(name)
    for drivers in ((), (list(task.agents)[-1],)):
        game = TerminalGame(task, drivers, 0, 100)
        for _ in range(20):
            lines = draw_frame(game, *size, keys="q: quit")
            assert len(lines) <= size[1] and all(line.cell_len <= size[0] for line in lines)
            assert size == (1, 1) or not drivers or "@" in "".join(plain(lines))
            game.choose("stay")


def test_a_map_of_60_columns_fits_whole_into_120():
    game = TerminalGame(hk.load_task("rooms"), ("A1",), 0, 100)
    whole = plain(game.board.draw(game.moment))
    assert plain(draw_frame(game, 120))[:40] == whole
    assert plain(draw_frame(game, 120, 65))[:40] == whole


def test_a_frame_says_who_waits_for_whom():
    game = TerminalGame(hk.load_task("buttons"), ("A1",), 0, 100)
    while game.episode.states["A1"] == "u0":
        goal = game.task.grid.row_column(next(iter(game.task.grid.places["yellow button"])))
        row, column = game.task.grid.row_column(game.episode.cells["A1"])
        game.choose("up" if row > goal[0] else "left" if column > goal[1] else "right")
    game.choose("stay")
    frame = "\n".join(plain(draw_frame(game, 120)))
    assert re.search(r"@1  A1  \{u1,…,u5\}  R waits for A2, A3, at yellow button", frame)
    assert re.search(r"step \d+: Y by A1 with A2; team in u1", frame)


# In a pipe


def test_a_scripted_driver_completes_the_corridor_in_four_steps(play, corridor):
    code, printed = play(corridor, "--agent", "A1", typed="dddd\n")
    assert code == 0
    lines = printed.splitlines()
    assert lines[0] == "step 4: Goal by A1; team in u1"
    assert lines[1].startswith("·₁· · · @1   corridor  step 4 of 1,000, seed 0")
    assert lines[-1] == "Completed in 4 steps."


def test_a_frame_is_printed_after_every_line_and_the_end_of_input_quits(play, corridor):
    code, printed = play(corridor, "--agent", "A1", typed="dl\na.h\n\n")
    assert code == 0
    assert re.findall(r"step (\d+) of|at \(0, (\d)\)", printed) == [
        ("2", ""), ("", "2"), ("5", ""), ("", "0"), ("5", ""), ("", "0")
    ]  # fmt: skip
    assert printed.endswith("Stopped after 5 steps.\n")


def test_all_keys_that_move_do(play, tmp_path):
    path = tmp_path / "square.toml"
    path.write_text(CORRIDOR.replace('"1...G"', '"""\n....G\n..1..\n.....\n"""'))
    for keys, spot in {"wk": "0, 2", "sj": "2, 2", "ah": "1, 1", "dl": "1, 3", " .": "1, 2"}.items():
        for key in keys:
            assert f"at ({spot})" in play(str(path), "--agent", "A1", typed=f"{key}\n")[1]


def test_the_answer_is_no_when_the_steps_run_out(play, corridor):
    code, printed = play(corridor, "--agent", "A1", "--steps", "3", typed="dddd\ndddd\n")
    assert (code, printed.splitlines()[-1]) == (1, "Not completed within 3 steps.")


def test_quitting_ends_at_once_and_well(play, corridor):
    code, printed = play(corridor, "--agent", "A1", typed="dqddd\n")
    assert (code, printed) == (0, "Stopped after 1 step.\n")


def test_starting_again_takes_the_next_seed(play, corridor):
    code, printed = play(corridor, "--agent", "A1", "--seed", "6", typed="ddr\ndddd\n")
    assert code == 0 and "step 0 of 1,000, seed 7" in printed and "Completed in 4 steps." in printed


def test_teammates_of_a_driven_agent_act_at_random_by_the_seed(play):
    _, printed = play("buttons", "--agent", "A1", "--seed", "5", typed="ddddssss\n")
    episode = hk.TeamEpisode(hk.load_task("buttons"), seed=5)
    for action in ["right"] * 4 + ["down"] * 4:
        episode.step(episode.random_actions() | {"A1": action})
    for number, (agent, cell) in enumerate(episode.cells.items(), start=1):
        places = [place for place, cells in episode.task.grid.places.items() if cell in cells]
        where = ", ".join(places) or str(episode.task.grid.row_column(cell))
        assert re.search(rf"[@ ]?{number} +{agent} .*at {re.escape(where)}$", printed, re.MULTILINE)


def test_optimal_teammates_do_what_optimal_policies_do_in_a_test(play):
    code, printed = play("buttons", "--with", "optimal", "--steps", "60")
    assert code == 0
    assert "Completed in" in printed
    task = hk.load_task("rendezvous-3")
    (run,) = hk.train(task, learner="optimal", seeds=1, steps=1000, threads=1)
    best, learnt = reference_teammates(task, "optimal"), trained_teammates(task, [run.policy])
    episode = hk.TeamEpisode(task, 3)
    for _ in range(30):
        assert best(episode) == learnt(episode)
        assert {*best(episode).values()} <= {*ACTIONS}
        episode.step(best(episode))
    assert episode.done


def test_agents_are_driven_in_turn_and_the_team_moves_after_the_last(corridor):
    game = TerminalGame(hk.load_task("rendezvous-2"), ("A2", "A1"), 0, 100)
    before = dict(game.episode.cells)
    assert (game.driven, game.choose("stay")) == ("A2", [])
    assert (game.driven, game.episode.time) == ("A1", 0)
    game.choose("down")
    assert (game.driven, game.episode.time) == ("A2", 1)
    assert game.episode.cells["A2"] == before["A2"] and game.episode.cells["A1"] != before["A1"]


def test_trained_teammates_come_from_a_folder_of_runs(play, tmp_path):
    task = hk.load_task("rendezvous-2")
    folder = tmp_path / "runs"
    assert cli.run(["train", "rendezvous-2", "--learner", "optimal", "--seeds", "1", "--out", str(folder)]) == 0
    code, printed = play("rendezvous-2", "--with", str(folder), "--steps", "40")
    assert (code, printed.count("\nstep ")) == (0, len({*task.machine.events} - {"l1", "l2"}))
    (run,) = hk.train(task, learner="iql", seeds=1, steps=1000, threads=1)
    with pytest.raises(hk.HocketError, match="a policy of iql depends on the agent's memory"):
        trained_teammates(task, [run.policy])
    episode, usable = hk.TeamEpisode(task), hk.load_policies(folder, task)
    assert trained_teammates(task, [run.policy, *usable])(episode) == trained_teammates(task, usable)(episode)


def test_watching_in_a_pipe_tells_what_happens_to_a_random_team_with_that_seed(play):
    code, printed = play("buttons", "--seed", "3", "--steps", "400")
    assert (code, printed) == play("buttons", "--seed", "3", "--steps", "400", "--delay", "100")
    episode = hk.TeamEpisode(hk.load_task("buttons"), seed=3)
    expected = []
    while not episode.done and episode.time < 400:
        step = episode.step(episode.random_actions())
        expected += [(episode.time, event, step.team_state) for event in step.events]
    told = re.findall(r"^step (\d+): (\S+) by .*; team in (\S+)$", printed, re.MULTILINE)
    assert expected and told == [(str(when), event, state) for when, event, state in expected]
    assert code == (0 if episode.done else 1) and printed.endswith("steps.\n")
    assert printed != play("buttons", "--seed", "4", "--steps", "400")[1]


def test_a_premature_completion_is_not_a_completion(play, tmp_path):
    path = tmp_path / "hasty.toml"
    path.write_text(HASTY)
    code, printed = play(str(path), "--agent", "A2", "--steps", "200", typed="a" + "." * 199 + "\n")
    assert code == 1 and "Not sound" in printed and "step 1: ring by A2; team in u0" in printed
    assert re.search(
        r"^All local reward machines are final after \d+ steps, but the team machine is in u1\.$", printed, re.MULTILINE
    )
    assert play(str(path))[1].startswith("Not sound")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--agent", "A9"], "--agent: agent 'A9' does not exist (did you mean 'A1'?)"),
        (["--steps", "0"], "--steps must be an integer of at least 1, got 0"),
        (["--delay", "-1"], "--delay must be between 0 and 3600 seconds, got -1.0"),
        (["--delay", "nan"], "--delay must be between 0 and 3600 seconds, got nan"),
        (["--agent", "A1"], "key 'x' does nothing"),
    ],
)
def test_bad_input_is_an_error_in_one_sentence(play, corridor, args, said):
    code, printed = play(corridor, *args, typed="dx\n")
    assert code == 2 and said in printed and printed.startswith("hocket: ") and printed.count("\n") == 1


def test_a_machine_without_a_world_cannot_be_played(play, tmp_path):
    path = tmp_path / "machine.toml"
    hk.save_machine(hk.load_task("buttons").machine, path)
    code, printed = play(str(path))
    assert code == 2 and "machine without a map" in printed


def test_input_that_is_no_text_is_an_error_without_a_traceback(corridor):
    ran = subprocess.run(
        [sys.executable, "-m", "hocket", "play", corridor, "--agent", "A1"], input=b"d\xff\n", capture_output=True
    )
    assert ran.returncode == 2 and b"does nothing" in ran.stderr and b"Traceback" not in ran.stderr


# On a terminal


class Session:
    """A command on a terminal of its own."""

    def __init__(self, *args: str, columns: int = 100, rows: int = 30, keeps: tuple[str, ...] = ()) -> None:
        self.master, self.terminal = pty.openpty()
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(self.terminal)
        left_out = {"NO_COLOR", "COLUMNS", "LINES"} - {*keeps}
        plain = {key: value for key, value in os.environ.items() if key not in left_out}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hocket", *args],
            stdin=self.terminal, stdout=self.terminal, stderr=self.terminal,
            env=plain | {"TERM": "xterm-256color"}, start_new_session=True,
        )  # fmt: skip
        self.printed = ""

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.terminal)

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def see(self, pattern: str) -> None:
        """Wait for a text that has not been seen before."""
        deadline = time.monotonic() + PATIENCE
        while (found := re.search(pattern, ESCAPE.sub("", self.printed))) is None:
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.printed!r}"
            self._read(0.1)
        self.printed = ESCAPE.sub("", self.printed)[found.end() :]

    def wait(self) -> int:
        """Wait for the end; give back the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.printed
            self._read(0.05)
        while self._read(0):
            pass
        return self.process.returncode

    def _read(self, timeout: float) -> bool:
        if not select.select([self.master], [], [], timeout)[0]:
            return False
        self.printed += os.read(self.master, 65536).decode(errors="replace")
        return True

    @property
    def is_as_before(self) -> bool:
        return termios.tcgetattr(self.terminal) == self.before

    @property
    def has_left_the_screen(self) -> bool:
        left, shown = self.printed.rfind("\x1b[?1049l"), self.printed.rfind("\x1b[?25h")
        return left > self.printed.rfind("\x1b[?1049h") and shown > self.printed.rfind("\x1b[?25l")


def test_arrows_drive_an_agent_on_a_terminal_and_q_leaves_it_as_it_was(corridor):
    with Session("play", corridor, "--agent", "A1") as session:
        session.see(r"A1  u0  at \(0, 0\)")
        assert not session.is_as_before
        session.type(RIGHT)
        session.see(r"A1  u0  at \(0, 1\)")
        session.type(b"D")  # with caps lock
        session.see(r"A1  u0  at \(0, 2\)")
        session.type(LEFT + UP)
        session.see(r"step 4 of .*\s*(?s:.*)A1  u0  at \(0, 1\)")
        session.type(b"x\x1b[5~r")  # two keys without a meaning
        session.see(r"step 0 of 1,000, seed 1")
        session.type(b"q")
        assert session.wait() == 0
        assert session.is_as_before and session.has_left_the_screen
        assert session.printed.rstrip().endswith("\x1b[0m") and "Stopped after 0 steps." in session.printed


def test_completing_a_task_on_a_terminal_says_so_and_leaves_the_last_picture(corridor):
    with Session("play", corridor, "--agent", "A1") as session:
        session.see("q: quit")
        session.type(RIGHT * 4)
        assert session.wait() == 0
        shown = ESCAPE.sub("", session.printed[session.printed.rfind("\x1b[?1049l") :])
        assert "·₁· · · @1" in shown and "Completed in 4 steps." in shown and session.is_as_before


def test_an_interrupt_leaves_the_terminal_as_it_was(corridor):
    with Session("play", corridor, "--agent", "A1") as session:
        session.see("q: quit")
        session.process.send_signal(signal.SIGINT)
        assert session.wait() == 130
        assert session.is_as_before and session.has_left_the_screen and "Traceback" not in session.printed


def test_a_team_is_watched_on_a_terminal_until_q():
    with Session("play", "buttons", "--delay", "0.01", columns=80, rows=24) as session:
        session.see(r"step 3 of")
        session.type(b"q")
        assert session.wait() == 0
        assert "Stopped after" in session.printed and session.is_as_before


def test_a_map_on_a_terminal_has_colours_and_closed_gates():
    with Session("show", "buttons") as session:
        assert session.wait() == 0
        assert "\x1b[" in session.printed
        assert "· · · ##y×y×y×##n×n×" in ESCAPE.sub("", session.printed)


def test_a_key_that_arrives_in_pieces_is_one_key():
    source, sink = os.pipe()
    try:
        keyboard = Keyboard(source)
        assert keyboard.read(0) is None
        os.write(sink, b"\x1b[Aq\x1bOCW\x1b[1;5D")
        assert [keyboard.read(0) for _ in range(5)] == ["\x1b[A", "q", "\x1bOC", "w", "\x1b[1;5D"]
        os.write(sink, b"\x1b")
        assert keyboard.read(0) == "\x1b"
        keyboard.typed = "\x1b["
        os.write(sink, b"B")
        assert keyboard.read(0) == "\x1b[B"
        os.close(sink)
        assert keyboard.read(0) == "q"
    finally:
        os.close(source)


@pytest.mark.parametrize("words", [("check", "buttons", "--knows", "A1=Y,Goal"), ("--help",), ("train", "--help")])
@pytest.mark.parametrize("colors", [True, False])
def test_sixty_columns_are_enough_and_colours_can_be_turned_off(words, colors, monkeypatch):
    monkeypatch.setenv("NO_COLOR" if not colors else "UNUSED", "1")
    with Session(*words, columns=60, keeps=("NO_COLOR",)) as session:
        while session.process.poll() is None:
            session._read(0.1)
        session._read(0.1)
    lines = [line.rstrip("\r") for line in ESCAPE.sub("", session.printed).split("\n")]
    assert len(lines) > 10 and all(len(line) <= 60 for line in lines)
    assert bool(re.search(r"\x1b\[(?:\d+;)*(?:3[1-7]|9[1-7])(?:;\d+)*m", session.printed)) == colors
