"""Grid worlds: moves against a hand-written oracle, slips, and maps as text."""

import re
from collections import Counter
from string import ascii_letters

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hocket as hk
from hocket.task.grid import ACTIONS, MOST_CELLS, STAY, outcome_probabilities, read_map, slip_outcome, slipped_actions
from task_strategies import grids, many, some

# What becomes of each action: as intended, a quarter turn to the right of it, a quarter turn to the left of it.
TURNS = {
    "up": ("up", "right", "left"),
    "right": ("right", "down", "up"),
    "down": ("down", "left", "right"),
    "left": ("left", "up", "down"),
    "stay": ("stay", "stay", "stay"),
}


def draw_map(grid: hk.Grid, closed: frozenset[int] = frozenset()) -> list[str]:
    """Draw a map as text, closed cells as walls."""
    letters = ["#" if cell in grid.walls | closed else "." for cell in range(grid.rows * grid.columns)]
    return ["".join(letters[row * grid.columns :][: grid.columns]) for row in range(grid.rows)]


def oracle_move(picture: list[str], row: int, column: int, action: str) -> tuple[int, int]:
    """Move on a picture of the world, written without cell numbers."""
    target = {
        "up": (row - 1, column),
        "down": (row + 1, column),
        "left": (row, column - 1),
        "right": (row, column + 1),
        "stay": (row, column),
    }[action]
    on_the_map = target[0] in range(len(picture)) and target[1] in range(len(picture[0]))
    return target if on_the_map and picture[target[0]][target[1]] == "." else (row, column)


@st.composite
def grids_with_gates(draw: st.DrawFn) -> tuple[hk.Grid, frozenset[int]]:
    """Draw a map and cells that are closed for now."""
    grid = draw(grids())
    return grid, frozenset(draw(st.sets(st.integers(0, grid.cells - 1), max_size=4)))


@many
@given(grids_with_gates())
def test_moves_are_those_of_a_picture_of_the_world(drawn):
    grid, closed = drawn
    picture = draw_map(grid, closed)
    table = grid.outcomes(closed)
    assert table.shape == (grid.rows * grid.columns, 5, 3)
    for row in range(grid.rows):
        for column in range(grid.columns):
            cell = row * grid.columns + column
            for number, action in enumerate(ACTIONS):
                there = oracle_move(picture, row, column, action)
                assert grid.row_column(grid.neighbor(cell, number, closed)) == there
                expected = [oracle_move(picture, row, column, taken) for taken in TURNS[action]]
                assert [grid.row_column(int(end)) for end in table[cell, number]] == expected


@many
@given(grids())
def test_cells_are_numbered_row_by_row(grid):
    spots = [(row, column) for row in range(grid.rows) for column in range(grid.columns)]
    assert [grid.row_column(cell) for cell in range(grid.cells)] == spots
    assert [grid.cell(*spot) for spot in spots] == list(range(grid.cells))
    assert np.flatnonzero(~grid.floor).tolist() == sorted(grid.walls)


@pytest.mark.parametrize(("rows", "columns"), [(2, 5), (5, 2), (1, 7), (7, 1)])
def test_a_map_that_is_not_square_is_left_at_its_own_edges(rows, columns):
    grid = hk.Grid(rows, columns)
    ends = {}
    for action, name in enumerate(ACTIONS[:4]):
        cell = grid.cell(rows // 2, columns // 2)
        for _ in range(rows + columns):
            cell = grid.neighbor(cell, action)
        ends[name] = grid.row_column(cell)
    assert ends == {
        "up": (0, columns // 2),
        "right": (rows // 2, columns - 1),
        "down": (rows - 1, columns // 2),
        "left": (rows // 2, 0),
    }


def test_an_agent_may_stay_and_leave_where_a_gate_closes_over_it():
    grid = hk.Grid(1, 3)
    moves = grid.outcomes([1])[1, :, 0].tolist()
    assert dict(zip(ACTIONS, moves, strict=True)) == {"up": 1, "right": 2, "down": 1, "left": 0, "stay": 1}


# Slips.


def test_slips_are_perpendicular_and_staying_never_slips():
    steps = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1)}
    right, left = slipped_actions(1), slipped_actions(2)
    assert slipped_actions(0) == list(range(5))
    assert right[STAY] == left[STAY] == STAY
    for number, action in enumerate(ACTIONS[:4]):
        for turned in (right, left):
            (down, across), (other_down, other_across) = steps[action], steps[ACTIONS[turned[number]]]
            assert down * other_down + across * other_across == 0
        assert right[number] != left[number]
        assert left[right[number]] == number  # a quarter turn and back


@pytest.mark.parametrize("limit", [0, 1, 2, 7, 100])
def test_what_is_drawn_below_the_limit_slips_and_half_of_it_to_either_side(limit):
    seen = Counter(slip_outcome(drawn, limit) for drawn in range(100))
    assert seen[0] == 100 - limit
    assert seen[1] + seen[2] == limit and abs(seen[1] - seen[2]) <= 1
    assert outcome_probabilities(limit / 100) == pytest.approx([seen[0] / 100, limit / 200, limit / 200])


@pytest.mark.parametrize("limit", [0, 1, 2, 7, 100])
def test_many_draws_at_once_have_the_outcomes_of_each(limit):
    drawn = np.arange(100, dtype=np.uint64)
    assert slip_outcome(drawn, limit).tolist() == [slip_outcome(own, limit) for own in range(100)]


# Maps as text.


@some
@given(grids())
def test_a_map_reads_as_it_was_drawn(grid):
    """Give each combination of places a letter of its own, which is what a legend with several names is for."""
    combinations = {
        cell: tuple(sorted(name for name, own in grid.places.items() if cell in own)) for cell in range(grid.cells)
    }
    letters = dict(zip(sorted({names for names in combinations.values() if names}), ascii_letters, strict=False))
    marks = {cell: letters[names] for cell, names in combinations.items() if names}
    lines = [
        "".join(marks.get(row * grid.columns + column, letter) for column, letter in enumerate(line))
        for row, line in enumerate(draw_map(grid))
    ]
    legend = {letter: names for names, letter in letters.items()}
    read, where = read_map("\n".join(lines) + "\n", legend)
    assert (read.rows, read.columns, read.walls) == (grid.rows, grid.columns, grid.walls)
    assert dict(read.places) == dict(grid.places)
    assert where == {
        letter: [cell for cell, names in combinations.items() if names == own] for letter, own in legend.items()
    }


def test_a_letter_at_which_an_agent_starts_needs_no_name():
    grid, where = read_map("1.\n.#", {}, ["1"])
    assert where == {"1": [0]}
    assert (dict(grid.places), grid.walls) == ({}, {3})


@pytest.mark.parametrize(
    ("text", "legend", "key", "said"),
    [
        ("...\n..\n...", {}, "map", "all lines must have the same length: line 2 has 2 letters, the first has 3"),
        ("..\n\n..", {}, "map", "line 2 has 0 letters"),
        ("..\n.x", {}, "map", "letter 'x' (row 1, column 1) has no meaning"),
        (
            ". .",
            {},
            "map",
            "letter ' ' (row 0, column 1) has no meaning: write '.' for floor, and nothing between letters",
        ),
        ("..", {"x": ["exit"]}, "legend.x", "letter 'x' is not on the map"),
        ("..", {"#": ["wall"]}, "legend.#", "a legend explains single letters other than '#' and '.'"),
        ("ab", {"ab": ["exit"], "a": ["a"], "b": ["b"]}, "legend.ab", "a legend explains single letters"),
        ("", {}, "map", "a map must have between 1 and 1,000,000 cells, got 1 x 0"),
        ("\n".join(["." * 1_000] * 1_001), {}, "map", "between 1 and 1,000,000 cells, got 1001 x 1000"),
    ],
    ids=["ragged", "empty line", "unknown", "blank", "missing", "wall", "two letters", "empty", "too large"],
)
def test_a_bad_map_is_refused_by_name(text, legend, key, said):
    with pytest.raises(hk.errors.TaskError, match=re.escape(said)) as caught:
        read_map(text, legend)
    assert caught.value.key == key


def test_the_largest_map_is_read():
    grid, _ = read_map("\n".join(["." * 1_000] * 1_000), {})
    assert grid.cells == MOST_CELLS
    assert grid.outcomes()[-1].max() == MOST_CELLS - 1


def test_nobody_can_start_where_all_is_wall():
    grid, _ = read_map("##\n##", {})
    machine = hk.RewardMachine(initial="u0", transitions={}, final={"u0"})
    with pytest.raises(hk.errors.TaskError, match=re.escape("agents.A1.start: must not be a wall, got (1, 0)")):
        hk.Task("walls", grid, {"A1": hk.Agent(2, ())}, {}, machine)


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ({"pit": set()}, "places.pit: a place must have at least one cell"),
        ({"pit": {1}}, "places.pit: must not be a wall, got (0, 1)"),
        ({"pit": {6}}, "places.pit: must lie on the map of 2 rows and 3 columns"),
        ({"pit": {-1}}, "places.pit: must lie on the map of 2 rows and 3 columns"),
        ({" ": {0}}, "the name of a place must not be empty"),
    ],
    ids=["empty", "wall", "past the end", "before the start", "no name"],
)
def test_a_bad_place_is_refused_by_name(places, said):
    with pytest.raises(hk.HocketError, match=re.escape(said)):
        hk.Grid(2, 3, frozenset({1}), places)


@pytest.mark.parametrize("wall", [4, -1])
def test_a_wall_that_is_not_on_the_map_is_refused(wall):
    with pytest.raises(hk.errors.TaskError, match="must lie on the map"):
        hk.Grid(2, 2, frozenset({wall}))


def test_a_place_that_does_not_exist_is_answered_with_the_nearest_one():
    grid = hk.Grid(1, 2, frozenset(), {"green room": frozenset({0})})
    with pytest.raises(hk.errors.TaskError, match=re.escape("did you mean 'green room'?")):
        grid.place("gren room", "events.a")
