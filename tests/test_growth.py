"""What was made for large tasks against its plain definition, on small ones; and that work grows as it should."""

import importlib
import pickle
import random
import re
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import hocket as hk
from hocket import capacity
from hocket.learn.batches import FIRST_PIECE, Pace
from hocket.learn.catalogue import find_learner
from hocket.learn.optimal import block as optimal
from hocket.learn.optimal.block import SMALL, solve, solve_at_once, solve_in_order
from hocket.learn.sweep import SweepSettings
from hocket.learn.sweep.block import SweepBlock
from hocket.learn.warmup import _stand_in, compile_kernels
from hocket.learn.world import cells_before, number_moves
from hocket.machine.formats.schema import machine_from, machine_to
from hocket.study.engines import ThreadEngine
from hocket.study.testing import play_tests
from hocket.task.catalogue import load
from hocket.task.conditions import Lexicon
from hocket.task.endless import StepKinds, _may_repeat, _on_cycles
from hocket.task.grid import ACTIONS, outcome_probabilities
from hocket.task.individual import IndividualTable, Simulation, individual_table
from hocket.task.reachability import Exploration, explore, shared_events
from hocket.task.tables import Tables, compile_task
from task_strategies import is_met, some, tasks

WORDS = ("a", "b", "ab", "a b", "b a", "a, b", "ä", "all", "x" * 9)


def longest_known(names: list[str], rest: str) -> str | None:
    """The longest name that a text begins with and that is not part of a longer word."""
    for name in sorted(names, key=len, reverse=True):
        if rest.startswith(name) and re.match(r"\s|,|$", rest[len(name) :]):
            return name
    return None


@given(st.lists(st.sampled_from(WORDS), min_size=1), st.lists(st.sampled_from((*WORDS, " ", ",", "\t"))))
def test_a_lexicon_finds_the_longest_whole_name(names, text):
    joined = "".join(text)
    for place in range(len(joined) + 1):
        assert Lexicon(names).at(joined, place) == longest_known(names, joined[place:])


@some
@given(task=tasks())
def test_steps_are_of_a_kind_if_the_same_conditions_hold_after_them(task):
    floor = [cell for cell in range(task.grid.cells) if task.grid.floor[cell]]
    for agent in task.agents:
        kinds = StepKinds.of(task, agent)
        assert kinds.events == tuple(event for event, own in task.events.items() if agent in own)
        steps = {
            int(kinds.offset[cell]) + end: (cell, end)
            for cell in floor
            for end in {task.grid.neighbor(cell, action) for action in range(5)}
        }
        arrivals = sorted(steps)
        seen = [
            tuple(is_met(task.grid, task.events[event][agent], *steps[arrival][::-1]) for event in kinds.events)
            for arrival in arrivals
        ]
        order = list(dict.fromkeys(seen))  # the first step of a kind decides its place
        assert [order.index(own) for own in seen] == kinds.kind[arrivals].tolist()
        assert [tuple(row) for row in kinds.holds.tolist()] == order
        assert task.edges or arrivals == floor


def test_cells_are_told_apart_by_more_conditions_than_a_number_has_bits():
    rng = random.Random(0)
    places = {f"p{i}": frozenset(rng.sample(range(40), rng.randint(1, 30))) for i in range(150)}
    events = {f"e{i}": {"A1": hk.Condition(f"p{i}", inside=rng.random() < 0.5)} for i in range(150)}
    moves = {(f"u{i}", f"e{i}"): f"u{i + 1}" for i in range(150)}
    machine = hk.RewardMachine(initial="u0", transitions=moves, final={"u150"})
    task = hk.Task("wide", hk.Grid(4, 10, places=places), {"A1": hk.Agent(0, events)}, events, machine)
    seen = [tuple(bool(task.where("A1", event)[cell]) for event in events) for cell in range(40)]
    order = list(dict.fromkeys(seen))
    assert StepKinds.of(task, "A1").kind.tolist() == [order.index(own) for own in seen]


def explore_by_definition(tables: Tables, agent: int) -> Exploration:
    """Try all moves of all machine states and cells at once, step by step."""
    states = int(tables.states[agent])
    can_wait = np.append((tables.knowers > 1) | tables.is_edge, True)  # the last one is for no event
    arrived = np.zeros((states, tables.arrivals), np.bool_)
    rests = np.zeros((states, tables.cells), np.bool_)
    rests[tables.initial[agent], tables.start[agent]] = True
    moving = rests.copy()
    is_final = tables.is_final[agent, :states]
    step = fewest = 0
    while moving.any():
        step += 1
        reached, resting = np.zeros_like(arrived), np.zeros_like(rests)
        for state in np.flatnonzero(moving.any(axis=1)).tolist():
            moves = tables.next_cell[tables.world[agent], tables.dynamics[agent, state]]
            moves = moves + tables.offset[agent][:, None, None]
            reached[state, moves[moving[state]].ravel()] = True
        while (reached := reached & ~arrived).any():
            arrived |= reached
            own, cell = np.nonzero(reached)
            kind = tables.kind[agent, cell]
            event = tables.event[agent, own, kind]
            stays = can_wait[event].all(axis=1)
            resting[own[stays], cell[stays] % tables.cells] = True
            here, slot = np.nonzero(event >= 0)
            reached[tables.next_state[agent, own[here], kind[here], slot], cell[here]] = True
        moving = resting & ~rests
        if moving[is_final].any() and not rests[is_final].any():
            fewest = step
        rests |= moving
    return Exploration(rests.any(axis=1), arrived, fewest)


@some
@given(task=tasks())
def test_an_agent_gets_to_where_trying_everything_at_once_says_that_it_does(task):
    tables = compile_task(task)
    for agent in range(len(task.agents)):
        found, expected = explore(tables, agent, shared_events(tables)), explore_by_definition(tables, agent)
        assert found.ends.tolist() == expected.ends.tolist()
        assert found.arrived.tolist() == expected.arrived.tolist()
        assert found.fewest_steps == expected.fewest_steps


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5))))
def test_an_edge_lies_on_a_cycle_if_a_way_leads_back(edges):
    source, target = (np.array([edge[side] for edge in edges], np.int64) for side in (0, 1))
    back = {(end, end) for _, end in edges}
    for _ in range(6):
        back |= {(start, after) for start, end in back for before, after in edges if before == end}
    assert _on_cycles(source, target, 6).tolist() == [(end, start) in back for start, end in edges]


@some
@given(task=tasks())
def test_what_may_repeat_is_the_largest_set_of_events_on_cycles_for_everyone_who_knows_them(task):
    kinds = {agent: StepKinds.of(task, agent) for agent in task.agents}
    alive = set(task.events) - task.edges
    for _ in task.events:
        for agent, machine in task.machines.items():
            names, graph = tuple(machine.events), machine.graph
            on_cycles = set()
            for kind in range(len(kinds[agent])):
                label = [(names[own] in alive) and kinds[agent].where(names[own])[kind] for own in graph.label]
                usable = np.array(label, np.bool_)
                kept = _on_cycles(graph.source[usable], graph.target[usable], len(machine.states))
                on_cycles |= {names[own] for own in graph.label[usable][kept].tolist()}
            alive -= set(task.knows[agent]) - on_cycles
    assert _may_repeat(task, kinds) == alive


def count_steps(agents: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often a name is looked for at a place while a task is read and its digest is taken."""
    looked = 0
    at = Lexicon.at

    def counted(self: Lexicon, text: str, begin: int) -> str | None:
        nonlocal looked
        looked += len(self._lengths)
        return at(self, text, begin)

    monkeypatch.setattr(Lexicon, "at", counted)
    assert len(hk.load_task(f"rendezvous-{agents}").digest) == 64
    return looked


def test_sentences_of_twice_as_many_agents_take_twice_as_many_looks(monkeypatch):
    small, large = (count_steps(agents, monkeypatch) for agents in (300, 600))
    assert 0 < large < 2.2 * small


def solve_by_definition(table: IndividualTable, discount: float, tolerance: float) -> np.ndarray:
    """Value iteration as it is written down: every outcome of every action looked up in every sweep."""
    next_cell = table.next_cell[table.dynamics] + table.offset[:, None, None]  # [U, S, A, K]
    weights = np.array(outcome_probabilities(table.slip))
    chance, reward, target = (part[:, table.kind] for part in (table.chance, table.reward, table.next_state))
    value = np.zeros((len(chance), table.cells))  # [U, S]
    cells, rows = (np.arange(len(table.kind)) % table.cells)[:, None], np.arange(len(value))[:, None, None, None]
    while True:
        arrival = (chance * (reward + discount * value[target, cells])).sum(axis=2)
        q = (arrival[rows, next_cell] * weights).sum(axis=3)
        q[table.is_final] = 0
        best = q.max(axis=2)
        change, value = np.abs(best - value).max(), best
        if change <= tolerance * (1 - discount):
            return q.transpose(1, 2, 0)


@some
@given(task=tasks())
def test_optimal_values_are_those_of_value_iteration_as_it_is_written_down_bit_by_bit(task):
    tables = compile_task(task)
    (run,) = hk.train(task, "optimal", seeds=1, steps=1, settings={"discount": 0.8})
    for agent in range(len(task.agents)):
        table = individual_table(tables, agent, 0.3)
        expected = solve_by_definition(table, 0.8, 1e-10)
        assert np.array_equal(solve(table, 0.8, 1e-10), expected)
        assert np.array_equal(run.policy.arrays["q"][agent, :, :, : len(table.is_final)], expected.astype(np.float32))


@some
@given(task=tasks(), discount=st.sampled_from([0.5, 0.9, 1.0]))
def test_values_in_the_order_of_their_distance_from_rewards_are_those_of_sweeps_over_everything(task, discount):
    tables = compile_task(task)
    for agent in range(len(task.agents)):
        table = individual_table(tables, agent, 0.3)
        found, expected = (method(table, discount, 1e-10) for method in (solve_in_order, solve_at_once))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def long_corridor(cells: int) -> hk.Task:
    """An agent at one end, and a goal at the other."""
    grid = hk.Grid(1, cells, places={"end": frozenset({cells - 1})})
    machine = hk.RewardMachine(initial="0", transitions={("0", "there"): "1"}, final={"1"})
    events = {"there": {"A1": hk.Condition("end")}}
    return hk.Task("long", grid, {"A1": hk.Agent(0, events)}, events, machine, slip=0.0)


def test_a_reward_is_carried_through_a_long_corridor_in_one_pass(monkeypatch):
    """Sweeps over everything would take one for every cell."""
    passes, improve = [], optimal.kernel.improve
    monkeypatch.setattr(optimal.kernel, "improve", lambda *own: passes.append(improve(*own)) or passes[-1])
    cells = SMALL
    q = solve(individual_table(compile_task(long_corridor(cells)), 0, 0.3), 0.995, 1e-10)
    right, state = ACTIONS.index("right"), 0
    distance = np.arange(cells - 1, 0, -1)  # of the cell that an action leads to, from that before the goal
    np.testing.assert_allclose(q[:-1, right, state], 0.995 ** (distance - 1), rtol=1e-6)
    assert passes[-1] == 0 and sum(passes) < 5 * cells
    assert (q[:-1, :, state].argmax(axis=1) == right).all()  # far from the goal, too


def test_what_cannot_earn_a_reward_is_never_looked_at(monkeypatch):
    grid = hk.Grid(1, SMALL, walls={5}, places={"end": frozenset({0})})
    machine = hk.RewardMachine(initial="0", transitions={("0", "there"): "1"}, final={"1"})
    events = {"there": {"A1": hk.Condition("end")}}
    task = hk.Task("cut", grid, {"A1": hk.Agent(3, events)}, events, machine)
    looks, improve = [], optimal.kernel.improve
    monkeypatch.setattr(optimal.kernel, "improve", lambda *own: looks.append(improve(*own)) or looks[-1])
    q = solve(individual_table(compile_task(task), 0, 0.3), 0.9, 1e-10)
    assert q[:5, :, 0].any(axis=1).all() and not q[6:].any()
    assert 0 < sum(looks) < 1_000


@some
@given(task=tasks())
def test_moves_lead_where_the_map_says_and_come_from_where_they_lead_from(task):
    tables = compile_task(task)
    for next_cell in tables.next_cell:
        move, end = number_moves(next_cell)
        np.testing.assert_array_equal(end[move], next_cell)
        assert (
            len(end) == len(np.unique(move)) == len({*map(tuple, np.column_stack((move.ravel(), end[move.ravel()])))})
        )
        first, before = cells_before(next_cell[..., 0].astype(np.int32))
        for cell in range(tables.cells):
            own = np.flatnonzero((next_cell == cell).any(axis=(0, 2, 3))).tolist()
            assert before[first[cell] : first[cell + 1]].tolist() == own


def test_agents_that_are_alike_are_solved_and_explored_once(monkeypatch):
    solved, explored = [], []
    monkeypatch.setattr("hocket.learn.optimal.block.solve", lambda *own: solved.append(own) or solve(*own))
    monkeypatch.setattr("hocket.task.reachability.explore", lambda *own: explored.append(own) or explore(*own))
    task = hk.rendezvous(60, rows=2, columns=2)  # with three goals, and three starts
    hk.train(task, "optimal", seeds=1, steps=1)
    assert len(solved) == 3
    assert hk.check_task(task).ok and len(explored) <= 6


def test_agents_that_are_alike_share_a_world_and_are_planned_for_once_a_test():
    task = hk.rendezvous(60, rows=2, columns=2)
    tables = compile_task(task)
    block = SweepBlock(tables, SweepSettings(), [3])
    (team,) = block.teams
    assert len({id(agent.view) for agent in team}) == 3 and len({id(agent.view.world.move) for agent in team}) == 1
    assert [agent.lane.starts.tolist() for agent in team] == tables.start[:, None].tolist()
    block.train(0, 100)
    planned = block.arrays(0)
    assert block.arrays(0) is planned
    block.train(100, 400)
    alone = SweepBlock(tables, SweepSettings(), [3])
    alone.train(0, 500)
    assert np.array_equal(block.arrays(0)["q"], alone.arrays(0)["q"])
    assert not np.array_equal(block.arrays(0)["q"], planned["q"])


def test_a_task_is_compiled_once_and_travels_without_its_tables():
    task = hk.load_task("buttons")
    assert compile_task(task) is compile_task(task)
    sent = pickle.loads(pickle.dumps(task))
    assert sent == task and "tables" not in sent.__dict__
    assert all(np.array_equal(own, other) for own, other in zip(compile_task(sent), compile_task(task), strict=True))


def test_a_small_task_with_numbers_of_the_same_types_stands_in_for_a_large_one(monkeypatch):
    task = hk.rendezvous(2, rows=200, columns=200)
    assert _stand_in(task) == (task, compile_task(task))
    monkeypatch.setattr("hocket.learn.warmup.LARGE", 10_000)
    small, tables = _stand_in(task)
    assert small.grid.cells == 4
    for own, like in zip(tables, compile_task(task), strict=True):
        assert np.asarray(own).dtype == np.asarray(like).dtype
    monkeypatch.setattr("hocket.learn.warmup._compiled", set())
    monkeypatch.setattr("hocket.learn.sweep.block.SweepBlock.train", lambda block, *_: trained.append(block.shape))
    trained = []
    compile_kernels("sweep", task=task)
    assert trained == [(2, 4, 5, 4)]


def test_reviews_of_large_teams_have_fewer_episodes(monkeypatch):
    task = hk.load_task("rendezvous-2")
    (run,) = hk.train(task, "optimal", seeds=1, steps=1)
    tables = compile_task(task)
    assert play_tests(task, tables, run.policy).episodes == 100
    monkeypatch.setattr("hocket.study.testing.MOST_TEST_WORK", 7_000)  # agent-steps, of two agents with 1,000 steps
    assert play_tests(task, tables, run.policy).episodes == 3
    monkeypatch.setattr("hocket.study.testing.MOST_TEST_WORK", 1)
    assert play_tests(task, tables, run.policy).episodes == 1


@pytest.fixture
def available(tmp_path, monkeypatch):
    """Let so many bytes of memory be available."""
    monkeypatch.setattr(capacity, "MEMORY", tmp_path / "meminfo")
    monkeypatch.setattr(capacity, "GROUP", tmp_path)

    def let(machine: int | None, group: int | None = None) -> None:
        lines = [] if machine is None else [f"MemAvailable: {machine // 1_024} kB"]
        (tmp_path / "meminfo").write_text("\n".join(["MemTotal: 99 kB", *lines]))
        (tmp_path / "memory.max").write_text("max" if group is None else str(group + 5_000))
        (tmp_path / "memory.current").write_text("9000")  # of which copies of files make room
        (tmp_path / "memory.stat").write_text("anon 5000\nfile 4000\ninactive_file 3000\nactive_file 1000\n")

    return let


def test_the_memory_that_is_available_is_that_of_the_machine_or_of_the_container(available):
    available(None)
    assert capacity.available_memory() is None
    available(1_024_000)
    assert capacity.available_memory() == 1_024_000
    available(1_024_000, 7_000)
    assert capacity.available_memory() == 7_000
    available(None, 7_000)
    assert capacity.available_memory() == 7_000


@pytest.mark.parametrize("learner", ["dqprm", "iql", "hil", "optimal", "sweep"])
def test_what_memory_cannot_hold_is_refused_before_it_is_tried(learner, available, monkeypatch, tmp_path):
    task = hk.rendezvous(3, rows=40, columns=50)
    made = find_learner(learner).memory_bytes(compile_task(task))
    available(made + 100_000)
    assert len(hk.train(task, learner, seeds=1, steps=1)) == 1
    available(made - 100_000)
    monkeypatch.setattr("hocket.learn.training.train_batch", lambda *_: pytest.fail("it was tried"))
    said = f"to train {learner} on rendezvous-3, 1 run at once, takes about .* of memory, and .* are available"
    with pytest.raises(hk.HocketError, match=said):
        hk.train(task, learner, seeds=1, steps=1)
    with pytest.raises(hk.HocketError, match=said):
        hk.run_study(hk.Study([task], [learner], 1, 1), tmp_path / "runs", engine=ThreadEngine(2))


def test_runs_that_fit_one_by_one_may_not_fit_at_once(available):
    task = hk.rendezvous(2, rows=40, columns=50)
    available(int(1.5 * find_learner("sweep").memory_bytes(compile_task(task))))
    hk.train(task, "sweep", seeds=2, steps=1, threads=1)
    with pytest.raises(hk.HocketError, match="2 runs at once"):
        hk.train(task, "sweep", seeds=2, steps=1, threads=2)


def test_a_task_whose_tables_memory_cannot_hold_is_refused(available):
    task = hk.rendezvous(3, rows=100, columns=100)
    available(100_000)
    with pytest.raises(hk.HocketError, match="a task of 3 agents on 10,000 cells takes about 240,000 bytes of memory"):
        compile_task(task)


def test_estimates_cover_what_blocks_hold():
    task = hk.rendezvous(3, rows=40, columns=50)
    tables, learner = compile_task(task), find_learner("sweep")
    block = SweepBlock(tables, SweepSettings(), [0])
    held = sum(part.nbytes for agent in block.teams[0] for part in (*agent.lane.model, *agent.lane.queue))
    held += 2 * block.arrays(0)["q"].nbytes  # and a copy to keep
    assert held < learner.memory_bytes(tables) < 2 * held


def test_the_first_piece_of_training_is_short_where_there_are_many_agents():
    assert Pace().steps == Pace(lanes=100).steps == FIRST_PIECE
    assert Pace(lanes=1_000).steps == 10 and Pace(lanes=100_000).steps == 1


def test_pieces_of_training_are_long_where_agents_have_to_be_fetched_from_memory():
    few, many = Pace(lanes=100), Pace(lanes=100_000)
    few.take(100, 1.0)
    many.take(1, 1.0)
    assert few.steps == 50 and many.steps == 2


def test_agents_are_alike_if_they_would_be_solved_alike():
    task = hk.rendezvous(60, rows=2, columns=2)
    agents = {**task.agents, "A7": replace(task.agents["A7"], sync={"r": 0.9})}
    simulation = Simulation(compile_task(replace(task, agents=agents)), 0.3, False)
    groups = simulation.alike()
    assert len(groups) == 4 and [6] in [own.tolist() for own in groups]
    for group in groups:
        first, *others = (simulation.table(agent) for agent in group.tolist())
        for own in others:
            for name in ("kind", "dynamics", "chance", "next_state", "reward", "is_final"):
                np.testing.assert_array_equal(getattr(own, name), getattr(first, name))


@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_a_file_is_parsed_once_whatever_is_in_it(suffix, tmp_path, monkeypatch):
    task, machine = hk.load_task("buttons"), hk.rendezvous(2).machine.machine()
    hk.save_task(task, tmp_path / f"task.{suffix}")
    hk.save_machine(machine, tmp_path / f"machine.{suffix}")
    notation = importlib.import_module(f"hocket.machine.formats.{suffix}")
    parsed, parse = [], notation.parse
    monkeypatch.setattr(notation, "parse", lambda content: parsed.append(content) or parse(content))
    assert load(tmp_path / f"task.{suffix}") == task and len(parsed) == 1
    assert load(tmp_path / f"machine.{suffix}").machine == machine and len(parsed) == 2


def test_a_machine_that_is_too_large_for_its_format_is_refused_without_being_parsed(tmp_path, monkeypatch):
    notation = importlib.import_module("hocket.machine.formats.toml")
    monkeypatch.setattr(notation, "parse", lambda content: pytest.fail("it was parsed"))
    path = tmp_path / "large.toml"
    path.write_text('final = ["u"]\n[transitions]\n' + "# long\n" * 1_200_000)
    with pytest.raises(hk.HocketError, match="must be at most 8 MB in this format"):
        load(path)


def test_repairing_a_team_without_gates_makes_no_other_task_for_each_agent(monkeypatch):
    made = []
    changed = hk.Task.with_knows
    monkeypatch.setattr(hk.Task, "with_knows", lambda task, knows: made.append(knows) or changed(task, knows))
    assert hk.repair_task(hk.rendezvous(30)).added == {}
    assert made == []


@given(st.data())
def test_rows_of_a_file_make_the_machine_that_pairs_make(data):
    names = st.sampled_from(["a", "b", "c", "d"])
    rows = data.draw(st.dictionaries(names, st.dictionaries(st.sampled_from(["x", "y", "z"]), names), min_size=1))
    document = {"transitions": rows, "final": data.draw(st.lists(names, unique=True, max_size=2))}
    pairs = {(state, event): end for state, row in rows.items() for event, end in row.items()}
    if not all(rows.values()):
        document["states"] = list(dict.fromkeys([*rows, *pairs.values()]))
    try:
        expected = hk.RewardMachine(
            initial=next(iter(rows)), transitions=pairs, final=document["final"], states=document.get("states")
        )
    except hk.HocketError as error:
        with pytest.raises(hk.HocketError, match=re.escape(str(error))):
            machine_from(document)
        return
    found = machine_from(document)
    assert found == expected and list(found.states) == list(expected.states)
    assert list(found.events) == list(expected.events)
    assert machine_from(machine_to(found)) == found
