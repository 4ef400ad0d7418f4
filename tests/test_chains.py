"""Absorbing chains: certified errors against rational arithmetic, hand-solved chains, and the refusals."""

import contextlib
import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import hocket as hk
from chain_strategies import GOAL, Rows, make_chain, rows_of_chances, solve_rationally, time_until_over
from hocket.evaluation import chains, elimination
from hocket.evaluation.chains import Bounded, Solution, solve
from hocket.evaluation.elimination import Chain
from searches import examples

pytestmark = pytest.mark.xdist_group("kernels")


@pytest.fixture(params=[False, True], ids=["blocks at once", "dissected"])
def leaf(request, monkeypatch):
    """Solve small blocks as they are, or take them apart like large ones."""
    if request.param:
        monkeypatch.setattr(elimination, "LEAF", 2)


def contains(bounded: Bounded, truth: Fraction) -> bool:
    """Say whether a number is where its error says."""
    return abs(Fraction(bounded.value) - truth) <= Fraction(bounded.error)


def assert_right(rows: Rows, found: Solution) -> None:
    """Hold a solution against rational arithmetic."""
    truth = solve_rationally(rows)
    assert contains(found.success, truth.success) and contains(found.failure, 1 - truth.success)
    assert (found.success == Bounded(1)) == (truth.success == 1)
    assert (found.success == Bounded(0)) == (truth.success == 0)
    assert 0 <= found.success.value <= 1 + found.success.error
    assert math.isinf(found.steps.value) == (truth.success != 1)
    if truth.steps_if_reached is None:
        assert math.isnan(found.steps_if_reached.value)
        return
    assert contains(found.steps_if_reached, truth.steps_if_reached)
    assert found.steps_if_reached.error <= 1e-9 * found.steps_if_reached.value
    assert truth.success != 1 or found.steps == found.steps_if_reached


# Rational arithmetic.


OUT_OF_RANGE = Fraction(10) ** 280


def range_needed(rows: Rows, success: Fraction) -> Fraction:
    """Say how large a range of numbers is needed: products of chances that are left for good must not be lost."""
    over = time_until_over(rows)
    return over if success == 1 else over**2 / min(success, 1 - success)


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows_of_chances())
def test_the_truth_lies_within_the_certified_errors(leaf, rows):
    truth = solve_rationally(rows)
    if truth.steps_if_reached is None or range_needed(rows, truth.success) < OUT_OF_RANGE:
        assert_right(rows, solve(make_chain(rows)))
    else:
        with contextlib.suppress(hk.HocketError):
            assert contains(solve(make_chain(rows)).success, truth.success)


@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows_of_chances(smallest=1e-12))
def test_errors_are_small_even_where_a_chain_hardly_mixes(leaf, rows):
    found = solve(make_chain(rows))
    assert_right(rows, found)
    assert found.success.error <= 1e-10


@examples(12)
@given(rows_of_chances(states=6, smallest=1e-6), st.floats(0, 1e-8), st.randoms(use_true_random=False))
def test_blurred_chances_stay_within_the_errors(rows, blur, rng):
    near = [{end: chance * rng.uniform(1 - blur, 1 + blur) for end, chance in row.items()} for row in rows]
    found, truth = solve(make_chain(near), input_error=2 * blur), solve_rationally(rows)
    assert contains(found.success, truth.success)
    if truth.steps_if_reached is not None:
        assert contains(found.steps_if_reached, truth.steps_if_reached)


def walk(cells: int, right: float, left: float, seed: int | None = None) -> list[dict[int, float]]:
    """Make a walk from one end of a row of cells to the goal at the other, numbered in any order."""
    number = list(range(cells))
    if seed is not None:
        number[1:] = Random(seed).sample(number[1:], cells - 1)
    rows: list[dict[int, float]] = [{} for _ in number]
    for cell in range(cells):
        rows[number[cell]] = {number[cell + 1] if cell + 1 < cells else GOAL: right}
        if cell:
            rows[number[cell]][number[cell - 1]] = left
    return rows


def time_of_walk(cells: int, right: float, left: float) -> Fraction:
    """Add up the expected steps from each cell to the next: 1 / right, and left / right of what the last one took."""
    total = stage = Fraction(0)
    for cell in range(cells):
        stage = (1 + (Fraction(left) * stage if cell else 0)) / Fraction(right)
        total += stage
    return total


def test_what_a_block_leads_to_counts_where_blocks_are_dissected(monkeypatch):
    monkeypatch.setattr(elimination, "LEAF", 2)
    first, second = walk(8, 0.25, 0.5), walk(5, 0.5, 0.25)  # one after the other
    rows = [{len(first) if end == GOAL else end: chance for end, chance in row.items()} for row in first]
    rows += [{end if end == GOAL else len(first) + end: chance for end, chance in row.items()} for row in second]
    found = solve(make_chain(rows))
    assert contains(found.steps, time_of_walk(8, 0.25, 0.5) + time_of_walk(5, 0.5, 0.25))


@pytest.mark.parametrize(
    ("right", "left"),
    [(0.5, 0.25), (0.25, 0.25), (0.25, 0.375), (0.25, 0.5), (1e-6, 1e-9), (0.3, 0.5)],
    ids=["quickly", "evenly", "uphill", "steeply uphill", "hardly at all", "uphill in tenths"],
)
@pytest.mark.parametrize("seed", [None, 1])
def test_a_long_walk_takes_the_time_that_a_hand_finds(right, left, seed):
    cells = 300
    found = solve(make_chain(walk(cells, right, left, seed)))
    truth = time_of_walk(cells, right, left)
    assert found.success == Bounded(1)
    assert contains(found.steps, truth)
    assert found.steps.error <= 1e-8 * found.steps.value


@pytest.mark.parametrize("power", [12, 100, 290])
def test_two_rooms_with_a_door_that_hardly_opens(leaf, power):
    # All states of a room are equally likely next; the door is in the first, and the goal behind another such door.
    room, door = 9, 10.0**-power
    rows = [dict.fromkeys(range(room), 1 / 16) for _ in range(room)]
    rows += [{room + other: 1 / 16 for other in range(room)} for _ in range(room)]
    rows[0][room], rows[room][0] = door, door
    rows[room + 1][GOAL] = door
    assert_right(rows, solve(make_chain(rows)))


def test_a_chance_of_failure_far_below_one_keeps_its_digits():
    rows = [{0: 0.5, 1: 1e-40, GOAL: 0.25}, {1: 1.0}]
    found = solve(make_chain(rows))
    assert found.success.value == 1 and found.success != Bounded(1)
    assert found.failure.value == pytest.approx(4e-40, rel=1e-12)
    assert found.failure.error < 1e-52
    assert math.isinf(found.steps.value)


def test_a_chain_solved_by_hand():
    # In each step: done 1/2, lost 1/4, wait 1/4. So it ends after 4/3 steps, however it ends.
    found = solve(make_chain([{GOAL: 0.5, 0: 0.25, 1: 0.25}, {1: 1.0}]))
    assert found.success.value == pytest.approx(2 / 3, abs=1e-15)
    assert found.steps_if_reached.value == pytest.approx(4 / 3, abs=1e-14)


def test_a_chain_that_is_done_takes_no_steps():
    empty = Chain(np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0))
    assert solve(empty) == Solution(Bounded(1), Bounded(0), Bounded(0), Bounded(0))


# The ways to a solution.


def field(side: int, slowly: float, seed: int) -> tuple[list[dict[int, float]], np.ndarray]:
    """Make a random walk on a square with its goal in a corner, and the coordinates of its states."""
    rng, rows = Random(seed), []
    for state in range(side * side):
        row, column = divmod(state, side)
        near = [(row + down, column + right) for down, right in ((1, 0), (0, 1), (-1, 0), (0, -1))]
        ends = [r * side + c for r, c in near if 0 <= r < side and 0 <= c < side]
        rows.append({end: slowly * rng.uniform(0.1, 0.25) for end in ends})
    rows[-1] = {GOAL: slowly * 0.5, side * side - 2: slowly * 0.5}
    return rows, np.stack(np.divmod(np.arange(side * side), side), axis=1)


def overlap(one: Bounded, other: Bounded) -> bool:
    return abs(one.value - other.value) <= one.error + other.error


@pytest.mark.parametrize("slowly", [1.0, 1e-9])
def test_iteration_and_elimination_agree_with_and_without_places(monkeypatch, slowly):
    rows, places = field(25, slowly, 1)
    by_default = solve(make_chain(rows), places)
    monkeypatch.setattr(chains, "FEW_ROUNDS", 0)
    eliminated = [solve(make_chain(rows), where) for where in (places, None, np.zeros_like(places))]
    monkeypatch.setattr(chains, "MOST_WORK", 0)
    iterated = solve(make_chain(rows), places)
    for other in (*eliminated, iterated):
        assert overlap(by_default.steps, other.steps)
        assert other.steps.error <= 1e-9 * other.steps.value


def test_taking_states_out_side_by_side_changes_no_bit(monkeypatch):
    rows, places = field(30, 1.0, 2)
    monkeypatch.setattr(chains, "FEW_ROUNDS", 0)
    monkeypatch.setattr(elimination, "WIDE", 10)
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(elimination, "THREADS", threads)
        found.append(solve(make_chain(rows), places))
    assert found[0] == found[1] == found[2]


def test_every_state_is_taken_out_once_and_few_part_a_square():
    rows, places = field(30, 1.0, 3)
    chain = make_chain(rows)
    network = chains._prune(chain, places)
    links = network.matrix[:, : network.states].tocoo()
    groups = list(elimination.dissect(np.arange(network.states), links.row, links.col, places))
    assert sorted(np.concatenate(groups).tolist()) == list(range(900))
    assert len(groups[-1]) <= 30


def test_blocks_lead_to_earlier_ones_only():
    rng = Random(4)
    rows = [
        {min(399, state + 1): 0.25, rng.randrange(max(0, state - 3), min(400, state + 9)): 0.25, GOAL: 0.25}
        for state in range(400)
    ]
    matrix = chains._prune(make_chain(rows), np.zeros((400, 1), np.int64)).matrix
    blocks = elimination.find_blocks(matrix)
    entries = matrix.tocoo()
    inner = entries.col < matrix.shape[0]
    assert (blocks.block[entries.row[inner]] >= blocks.block[entries.col[inner]]).all()
    assert len(blocks.begin) > 10


def test_many_small_blocks_are_solved_one_after_the_other():
    # A ladder of 5,000 pairs of states, of which the second falls back to the first.
    rows: list[dict[int, float]] = []
    for pair in range(5_000):
        here = 2 * pair
        rows += [{here + 1: 0.5}, {here: 0.25, here + 2 if pair < 4_999 else GOAL: 0.25}]
    found = solve(make_chain(rows))
    assert contains(found.steps, Fraction(5_000 * (2 + 2 + 2 + 2)))  # two rounds of two steps each, twice as slow


# Refusals.


def test_a_chain_that_cannot_be_certified_is_refused_with_its_size(monkeypatch):
    rows, _ = field(20, 1.0, 5)
    monkeypatch.setattr(chains, "MOST_WORK", 0)
    monkeypatch.setattr(chains, "MOST_READS", 20_000)
    with pytest.raises(hk.HocketError, match=r"400 states does not converge in \d+ rounds"):
        solve(make_chain(rows))


def test_more_steps_than_floats_can_count_are_refused():
    rows = [{1: 1e-200, 0: 0.5}, {0: 1.0, GOAL: 1e-200}]
    with pytest.raises(hk.HocketError, match="out of range for floats"):
        solve(make_chain(rows))


def test_chances_that_lose_digits_are_refused():
    with pytest.raises(hk.HocketError, match="probabilities must be at least"):
        solve(make_chain([{GOAL: 1e-310}]))


def test_progress_is_told():
    told: list[str] = []
    solve(make_chain(walk(400, 0.25, 0.25)), report=told.append)
    assert any("rounds" in line for line in told)
    assert told[-1] == "100% of the states eliminated"
