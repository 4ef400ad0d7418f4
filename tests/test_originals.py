"""Tasks from the field, held against their authors' rules, written down apart (bench/originals.py uses their code)."""

from random import Random

import pytest

import hocket as hk
from hocket.task.grid import ACTIONS
from hocket.task.tables import compile_task
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


@pytest.mark.parametrize("name", MAPS)
def test_the_tasks_among_tokens_can_be_done_by_a_planned_team(name):
    task = hk.load_task(name)
    assert task.decomposition.ok
    if len(task.agents) == 2:
        assert hk.check_task(task).ok


def test_machines_among_tokens_are_for_the_agents_of_the_map():
    with pytest.raises(hk.HocketError, match="a machine for each of A, B, got A"):
        token_task("token-rooms-2", {"A": hk.RewardMachine(initial="0", transitions={("0", "1"): "1"}, final={"1"})})
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
