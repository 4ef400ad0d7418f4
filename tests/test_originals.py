"""Tasks from the field, held against their authors' rules, written down apart (bench/originals.py uses their code)."""

from dataclasses import replace
from random import Random

import pytest

import hocket as hk
from hocket.draw.pixels import Frames
from hocket.draw.task_scene import scene_of
from hocket.draw.text import TextMap
from hocket.task.bodies import hold_apart
from hocket.task.files import task_from
from hocket.task.grid import ACTIONS, read_map
from hocket.task.tables import compile_task
from hocket.task.teamwork.joint import fewest_steps, joint_space
from hocket.task.tokens import DOORS, MAPS, token_task

STEPS = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1), "stay": (0, 0)}
SEEN = ["none", *map(str, range(10))]

Spot = tuple[int, int]


class TokenWorld:
    """TokenEnv by its rules: a torus, doors held open by who stands on them or on their buttons, equal bodies."""

    def __init__(self, name: str) -> None:
        rows = MAPS[name].strip().split("\n")
        self.size = len(rows), len(rows[0])
        self.letters = {(r, c): letter for r, row in enumerate(rows) for c, letter in enumerate(row)}
        self.agents = {letter: spot for spot, letter in self.letters.items() if letter in "ABCD"}
        self.agents = dict(sorted(self.agents.items()))
        self.last = dict.fromkeys(self.agents, "none")

    def is_free(self, spot: Spot, held: set[str]) -> bool:
        letter = self.letters[spot]
        return letter != "#" and (letter not in DOORS.values() or letter in held)

    def step(self, actions: dict[str, str]) -> None:
        held = {DOORS.get(self.letters[spot], self.letters[spot]) for spot in self.agents.values()}
        before, after = self.agents, {}
        for name, (row, column) in before.items():
            down, right = STEPS[actions[name]]
            spot = ((row + down) % self.size[0], (column + right) % self.size[1])
            after[name] = spot if self.is_free(spot, held) else (row, column)
        while crowded := {spot for spot in after.values() if [*after.values()].count(spot) > 1}:
            after = {name: before[name] if spot in crowded else spot for name, spot in after.items()}
        swaps = {
            name
            for name in after
            for other in after
            if name != other and after[name] == before[other] and after[other] == before[name]
        }
        self.agents = {name: before[name] if name in swaps else spot for name, spot in after.items()}
        for name, spot in self.agents.items():
            if self.letters[spot].isdigit():
                self.last[name] = self.letters[spot]


def watching_tokens(name: str) -> hk.Task:
    """Let machines tell on which token their agents stood last; they never end."""
    moves = {(before, token): token for before in SEEN for token in SEEN[1:] if token != before}
    machine = hk.RewardMachine(initial="none", transitions=moves, final=())
    return token_task(name, {agent: machine for agent in "ABCD" if agent in MAPS[name]})


@pytest.mark.parametrize("name", MAPS)
def test_agents_among_tokens_move_as_the_rules_say(name):
    task, rng, world = watching_tokens(name), Random(7), TokenWorld(name)
    episode = hk.TeamEpisode(task, strict=False)
    through = 0
    for _ in range(600):
        actions = {agent: rng.choice(ACTIONS) for agent in world.agents}
        world.step(actions)
        episode.step(actions)
        assert {agent: task.grid.row_column(cell) for agent, cell in episode.cells.items()} == world.agents
        assert {agent: state.split()[0] for agent, state in episode.states.items()} == world.last
        through += any(world.letters[spot] in DOORS.values() for spot in world.agents.values())
    assert through > 0


@pytest.mark.parametrize("name", ["token-rooms-2", "token-buttons-2"])
def test_a_machine_takes_one_transition_in_each_step_in_which_its_agent_is_on_a_token(name):
    """As the original's automata do, also where the token leads on from state to state or back again."""
    turns = hk.RewardMachine(
        initial="0", transitions={(str(n), token): str((n + 1) % 3) for n in range(3) for token in SEEN[1:]}, final=()
    )
    task, rng, world = token_task(name, dict.fromkeys(TokenWorld(name).agents, turns)), Random(5), TokenWorld(name)
    episode, expected = hk.TeamEpisode(task, strict=False), dict.fromkeys(world.agents, 0)
    for _ in range(200):
        actions = {agent: rng.choice(ACTIONS) for agent in world.agents}
        world.step(actions)
        episode.step(actions)
        for agent, spot in world.agents.items():
            expected[agent] += world.letters[spot].isdigit()
        assert {agent: state.split()[0] for agent, state in episode.states.items()} == {
            agent: str(count % 3) for agent, count in expected.items()
        }
    assert sum(expected.values()) > 50


def test_an_agent_without_a_machine_stands_still_and_holds_its_door():
    visit = hk.sequence("9")
    closed, held = (token_task("token-rooms-2", {"A": visit}, starts={"B": cell}) for cell in (4 * 9 + 5, 4 * 9 + 7))
    assert [*closed.gates["A"]] == ["door a", "B itself"] and [*held.gates["A"]] == ["B itself"]
    assert fewest_steps(joint_space(compile_task(held))) == 3  # through the door that B holds open, from a button
    assert fewest_steps(joint_space(compile_task(closed))) is None


@pytest.mark.parametrize("name", MAPS)
def test_the_tasks_among_tokens_can_be_done_by_a_planned_team(name):
    task = hk.load_task(name)
    assert task.decomposition.ok
    if len(task.agents) == 2:
        assert hk.check_task(task).ok


def test_machines_among_tokens_are_for_the_agents_of_the_map():
    machine = hk.sequence("1")
    with pytest.raises(hk.HocketError, match="agent on this map 'C' does not exist"):
        token_task("token-rooms-2", {"A": machine, "C": machine})
    with pytest.raises(hk.HocketError, match="a machine for at least one agent, got none"):
        token_task("token-rooms-2", {})
    with pytest.raises(hk.HocketError, match="did you mean 'token-rooms-4'"):
        hk.load_task("token-rooms-3")


def test_an_agent_that_is_done_notices_doors_as_before_and_a_gate_need_not_be_told_to_it():
    task = hk.load_task("token-rooms-2")
    machine = task.machines["A"]
    assert len(machine.final) == 3  # the door is closed, open, or held open by A itself
    loose = hk.RewardMachine(
        initial="shut",
        transitions={("shut", "open"): "wide", ("wide", "go"): "end", ("shut", "go"): "end"},
        final={"end"},
    )
    grid = hk.Grid(1, 3, places={"door": {2}, "here": {0}, "mid": {1}})
    events = {"open": {"A": hk.Condition("here")}, "go": {"A": hk.Condition("mid")}}
    single = hk.Task("loose", grid, {"A": hk.Agent(1, ("open", "go"), {"door": "open"})}, events, loose)
    assert compile_task(single).next_cell.shape[1] == 2


# OfficeWorld, with its coordinates: x to the right, y upwards.

OBJECTS = {(1, 1): "A", (1, 7): "B", (10, 7): "C", (10, 1): "D", (7, 4): "mail", (8, 2): "coffee", (3, 6): "coffee"}
OBJECTS |= {(4, 4): "deliver"} | dict.fromkeys([(4, 1), (7, 1), (4, 7), (7, 7), (1, 4), (10, 4)], "plant")
ORDERS = {1: ["coffee", "deliver"], 2: ["mail", "deliver"], 4: ["A", "B", "C", "D"]}


def may_pass(x: int, y: int, action: str) -> bool:
    """Say whether there is no wall: rooms are 3 x 3 cells, with doors in the middle of some sides."""
    right, up = {"up": (0, 1), "down": (0, -1), "right": (1, 0), "left": (-1, 0)}[action]
    if (x + right) // 3 == x // 3 and (y + up) // 3 == y // 3 and x + right >= 0 and y + up >= 0:
        return True
    if right:
        return y in (1, 7) and {x, x + right} in ({2, 3}, {5, 6}, {8, 9})
    levels = {y, y + up}
    return (levels == {5, 6} and x in (1, 4, 7, 10)) or (levels == {2, 3} and x in (1, 10))


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_the_office_is_as_its_authors_describe_it(number):
    task, rng = hk.load_task(f"office-{number}"), Random(number)
    ends = {"done": 0, "broken": 0}
    for episode_number in range(25):
        episode, spot, seen = hk.TeamEpisode(task, 0, episode_number, strict=False), (2, 1), []
        for _ in range(60):
            action = rng.choice(("up", "right", "down", "left"))
            if may_pass(*spot, action):
                down, right = STEPS[action]
                spot = (spot[0] + right, spot[1] - down)
            seen.append(OBJECTS.get(spot, ""))
            step = episode.step({"A1": action})
            assert task.grid.row_column(step.cells["A1"]) == (8 - spot[1], spot[0])
            if "plant" in seen:
                assert step.states["A1"] == "broken"
                ends["broken"] += 1
                break
            if number != 3:
                wanted = iter(seen)
                reached = sum(1 for event in ORDERS[number] if event in wanted)
                assert step.done == (reached == len(ORDERS[number]))
            elif "deliver" in seen and {"coffee", "mail"} <= {*seen[: seen.index("deliver")]}:
                assert step.done
            if step.done:
                ends["done"] += 1
                break
    assert ends["broken"] > 5


# Repairs, with rows and columns as in the code of LOTaD.

RIDGE = {(1, 6), (2, 6), (3, 6), (4, 6), *((5, column) for column in range(1, 7)), *((3, c) for c in range(7, 11))}
STATIONS = {(6, 8): "yellow", (0, 8): "red"}


class Repairs:
    """Repairs by its rules: twice in a step everyone in turn looks whether the hazard is free, and tells who is in."""

    def __init__(self) -> None:
        self.spots = {"A1": (4, 6), "A2": (6, 5), "A3": (0, 3)}
        self.holder, self.inside, self.reported, self.visited = None, set(), False, set()

    def end(self, name: str, action: str) -> Spot:
        (row, column), (down, right) = self.spots[name], STEPS[action]
        spot = (row + down, column + right)
        if not (0 <= spot[0] < 7 and 0 <= spot[1] < 12) or (action != "stay" and spot in RIDGE):
            spot = (row, column)
        if spot[1] < 7:
            self.holder = None if self.holder == name else self.holder
        elif self.holder in (None, name):
            self.holder = name
        else:
            return row, column
        return spot

    def step(self, actions: dict[str, str]) -> None:
        for name, action in actions.items():
            if self.end(name, action) == (2, 3):
                self.inside.add(name)
            elif not self.reported:
                self.inside.discard(name)
            self.reported = self.reported or len(self.inside) > 1
        self.spots = {name: self.end(name, action) for name, action in actions.items()}
        if self.reported:
            self.visited |= {STATIONS[spot] for spot in self.spots.values() if spot in STATIONS}

    @property
    def state(self) -> str:
        if len(self.visited) == 2:
            return "done"
        if self.reported:
            return next(iter(self.visited), "reported")
        return next((f"{name} in" for name in self.inside), "nobody")


def test_repairs_is_as_the_code_of_its_authors_describes_it():
    task, rng, seen = replace(hk.load_task("repairs"), slip=0.0), Random(15), set()
    for number in range(40):
        world, episode, actions = Repairs(), hk.TeamEpisode(task, 0, number, strict=False), {}
        for _ in range(150):
            actions = {a: actions[a] if actions and rng.random() < 0.5 else rng.choice(ACTIONS) for a in task.agents}
            world.step(actions)
            step = episode.step(actions)
            assert {agent: task.grid.row_column(cell) for agent, cell in step.cells.items()} == world.spots
            assert {*step.states.values()} == {world.state}
            seen.add(world.state)
            if step.done:
                break
    assert seen == {*task.machine.states}


def test_who_comes_after_the_agent_that_leaves_the_hazard_is_the_first_to_enter_it():
    task = hk.load_task("repairs")
    top, bottom = task.grid.cell(0, 6), task.grid.cell(6, 6)
    before, wanted = {"A1": top, "A2": top + 1, "A3": bottom}, {"A1": top + 1, "A2": top, "A3": bottom + 1}
    assert hold_apart(task.bodies, task.units, before, wanted) == {"A1": top, "A2": top, "A3": bottom + 1}
    early = {"A1": top, "A2": bottom, "A3": top + 1}
    after = hold_apart(task.bodies, task.units, early, {"A1": top + 1, "A2": bottom + 1, "A3": top})
    assert after == {"A1": top + 1, "A2": bottom, "A3": top}


def test_a_map_with_thin_walls_is_read_as_it_is_written_and_moves_are_the_same_in_tables():
    rng = Random(9)
    for _ in range(60):
        rows, columns, torus = rng.randint(1, 4), rng.randint(2, 4), rng.random() < 0.5
        open_grid = hk.Grid(rows, columns, torus=torus)
        pairs = {(cell, open_grid.beside(cell, action)) for cell in range(rows * columns) for action in range(4)}
        thin = frozenset(pair for pair in pairs if pair[0] < pair[1] and rng.random() < 0.4)
        walls = frozenset(cell for cell in range(1, rows * columns) if rng.random() < 0.2)
        grid = hk.Grid(rows, columns, walls, {"here": {0}}, thin=thin, torus=torus)
        machine = hk.RewardMachine(initial="0", transitions={("0", "e"): "1"}, final={"1"})
        task = hk.Task("thin", grid, {"A": hk.Agent(0, ("e",))}, {"e": {"A": hk.Condition("here")}}, machine)
        assert task_from(task.document()).digest == task.digest
        assert task_from(task.document()).grid == grid
        moves = grid.outcomes()[:, :, 0]
        for cell in range(grid.cells):
            row, column = divmod(cell, columns)
            for action, (down, right) in enumerate(STEPS.values()):
                end = ((row + down) % rows, (column + right) % columns)
                inside = torus or end == (row + down, column + right)
                target = end[0] * columns + end[1]
                blocked = not inside or target in walls or {cell, target} in [{*pair} for pair in thin]
                assert moves[cell, action] == grid.neighbor(cell, action) == (cell if blocked else target)


@pytest.mark.parametrize("drawn", ["+-+ + +", "+ + + +"])
def test_a_thin_wall_on_the_edge_of_a_torus_may_be_drawn_on_either_side(drawn):
    cells, inner, other = " . . . ", "+ + + +", "+ + + +" if "-" in drawn else "+-+ + +"
    grid, _ = read_map("\n".join([drawn, cells, inner, cells, inner, cells, other]), {}, torus=True)
    assert grid.thin == {(0, 6)}


def test_thin_walls_are_drawn_as_text_and_pixels():
    task = hk.load_task("office")
    text = [line.plain for line in TextMap(scene_of(task)).draw(scene_of(task).opening)]
    assert len(text) == 9 + 2  # rows, and lines between them where there are walls
    assert text[0] == "· · ·│· · ·│· · ·│· · · " and text[3] == "──  ────  ────  ────  ──"
    image = Frames(task, "rgb_array").draw({"A1": 0}, {"A1": "nothing"}, 0)
    size = image.shape[0] // 9
    assert (image[size // 2, 3 * size] < 100).all()  # in the middle of a wall
    assert (image[3 * size // 2, 3 * size] > 200).all()  # in a door


def test_a_torus_that_joins_two_cells_twice_has_walls_on_both_sides_or_on_none():
    with pytest.raises(hk.HocketError, match="walls stand on both sides of a cell or on none"):
        read_map("+-+ + +\n . . . \n+ + + +\n . . . \n+ + + +", {}, torus=True)


def test_a_thin_wall_stands_between_cells_that_are_side_by_side():
    with pytest.raises(hk.HocketError, match="between two cells side by side"):
        hk.Grid(2, 2, thin=frozenset({(0, 3)}))
