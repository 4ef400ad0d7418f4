"""What is learnt of a map is kept, adds up, and plans other tasks on it without a step; maps are surveyed."""

import json
import zipfile
from dataclasses import asdict, replace
from itertools import pairwise

import numpy as np
import pytest

import hocket as hk
from hocket.learn.archives import pack_arrays
from hocket.learn.sweep import SweepSettings
from hocket.learn.sweep.block import SweepBlock
from hocket.learn.testing import recording
from hocket.learn.world import list_moves, number_kept
from hocket.study.records import run_keys
from hocket.task.grid import OUTCOMES, slip_outcome
from hocket.task.tables import compile_task
from hocket.task.teamwork.joint import fewest_steps, joint_space

BRIEF = {"max_episode_steps": 100}


@pytest.fixture(scope="module")
def buttons():
    return hk.load_task("buttons")


@pytest.fixture(scope="module")
def surveyed(buttons):
    return hk.survey(buttons)


def another_task(buttons):
    """The same map with another team: two agents, other starts, another machine, a gate that another event opens."""
    return hk.Task(
        name="other",
        grid=buttons.grid,
        agents={
            "B1": hk.Agent(buttons.grid.cell(9, 0), ["press", "end"]),
            "B2": hk.Agent(buttons.grid.cell(0, 4), ["press", "end"], {"yellow region": "press"}),
        },
        events={"press": {"B1": hk.Condition("yellow button")}, "end": {"B2": hk.Condition("green button")}},
        machine=hk.RewardMachine(initial="0", transitions={("0", "press"): "1", ("1", "end"): "2"}, final=["2"]),
    )


# What is kept.


def test_counts_are_those_of_the_steps_of_all_agents():
    runs = hk.train("rendezvous-2", seeds=2, steps=700, settings=BRIEF, threads=1)
    assert [run.world.steps for run in runs] == [2 * 700, 2 * 700]
    together = runs[0].world + runs[1].world
    assert together.steps == 4 * 700
    assert (together.known() == runs[0].world.known() + runs[1].world.known()).all()
    assert together.digest == (runs[1].world + runs[0].world).digest


def test_a_move_is_counted_where_it_led(buttons):
    """An oracle: the outcomes of a walk that chooses actions at random, told by the grid alone."""
    rng, end = np.random.default_rng(0), buttons.grid.outcomes()
    cell, counts = buttons.agents["A1"].start, {}
    numbers = number_kept(list_moves(end[None])).reshape(end.shape[:2])
    for _ in range(300):
        action, outcome = rng.integers(5), slip_outcome(int(rng.integers(10)), 4)
        counts.setdefault((cell, action), [0] * OUTCOMES)[outcome] += 1
        cell = int(end[cell, action, outcome])
    moves = {int(numbers[pair]): tries for pair, tries in counts.items()}
    order = sorted(moves)
    world = hk.WorldModel.of(buttons, np.array(order), np.array([moves[move] for move in order]))
    assert world.steps == 300
    assert {(cell, action): int(n) for (cell, action), n in np.ndenumerate(world.known()) if n} == {
        pair: sum(tries) for pair, tries in counts.items()
    }
    assert world.visited()[[start for start, _ in counts]].all() and world.visited()[cell]


def test_what_training_learns_does_not_depend_on_what_is_kept_of_it(buttons):
    settings = SweepSettings(**BRIEF)
    block = SweepBlock(compile_task(buttons), settings, [3])
    block.train(0, 1_500)
    before = block.arrays(0)["q"].copy()
    block.learnt(0)
    assert (block.arrays(0)["q"] == before).all()


def test_settings_that_came_later_leave_the_keys_of_runs_alone(buttons):
    settings = asdict(SweepSettings())
    former = {name: value for name, value in settings.items() if name not in ("share_world", "world")}
    assert run_keys(buttons.digest, "sweep", [0], 100, settings) == run_keys(buttons.digest, "sweep", [0], 100, former)
    changed = {**settings, "share_world": True}
    assert run_keys(buttons.digest, "sweep", [0], 100, changed) != run_keys(buttons.digest, "sweep", [0], 100, former)


def test_a_folder_of_runs_has_the_worlds_of_all_of_them(tmp_path, buttons):
    runs = hk.train(buttons, seeds=2, steps=300, settings=BRIEF, threads=1)
    hk.save_runs(buttons, runs, tmp_path)
    assert hk.load_world(tmp_path).digest == (runs[0].world + runs[1].world).digest
    hk.run_study(hk.Study(buttons, seeds=3, steps=300, settings=BRIEF), tmp_path)  # the third is missing
    assert hk.load_world(tmp_path).steps == 3 * 3 * 300


def test_a_world_that_was_begun_with_is_not_counted_again(buttons, surveyed):
    run = hk.train(buttons, seeds=1, steps=200, settings=BRIEF, world=surveyed.world, threads=1)[0]
    assert run.world.steps == 3 * 200
    assert run.settings.world == surveyed.world.digest[:16]


def test_a_saved_world_is_the_same_when_it_is_loaded(tmp_path, surveyed):
    surveyed.world.save(tmp_path / "map.npz")
    loaded = hk.load_world(tmp_path / "map.npz")
    assert loaded.digest == surveyed.world.digest and repr(loaded) == repr(surveyed.world)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("format", "hocket world 2"),
        ("columns", 0),
        ("columns", 7),
        ("slip", 2.0),
        ("slip", "much"),
        ("move", np.array([3, 1, 2], np.int64)),
        ("move", np.array([1, 2, 10**9], np.int64)),
        ("tries", np.full((3, 3), -1)),
        ("tries", np.ones((2, 3), np.int64)),
        ("end", np.full((100, 5), 100, np.int32)),
        ("end", np.zeros((100, 4), np.int32)),
        ("end", np.zeros(0, np.int32)),
    ],
)
def test_a_file_that_is_no_world_is_refused_in_a_sentence(tmp_path, part, value):
    about = {"format": "hocket world 1", "columns": 10, "slip": 0.02}
    arrays = {
        "end": np.zeros((100, 5), np.int32),
        "move": np.arange(3),
        "tries": np.ones((3, 3), np.int64),
    }
    (about if part in about else arrays)[part] = value
    path = tmp_path / "bad.npz"
    path.write_bytes(pack_arrays(about, arrays))
    with pytest.raises(hk.HocketError, match=r"bad.npz: is (not a world|of another format)"):
        hk.load_world(path)


def test_odd_files_and_folders_are_refused_in_a_sentence(tmp_path, surveyed):
    (tmp_path / "worlds").mkdir()
    with pytest.raises(hk.HocketError, match="has no worlds in it"):
        hk.load_world(tmp_path)
    with zipfile.ZipFile(tmp_path / "worlds" / "odd.npz", "w") as archive:
        archive.writestr("about.npy", "nonsense")
    with pytest.raises(hk.HocketError, match=r"odd.npz: is not a world that hocket has written"):
        hk.load_world(tmp_path)
    with pytest.raises(hk.HocketError, match=r"ends in \.npz"):
        surveyed.world.save(tmp_path / "map.txt")
    with pytest.raises(hk.HocketError, match="its file or a folder of runs is needed, got int"):
        hk.train("buttons", world=3, steps=0)
    (tmp_path / "worlds" / "odd.npz").unlink()
    for name in ("buttons", "drawbridge"):
        hk.survey(name, tries=1).world.save(tmp_path / "worlds" / f"{name}.npz")
    with pytest.raises(hk.HocketError, match="has worlds of several maps: this world is of another map"):
        hk.load_world(tmp_path)


# Planning without a step.


@pytest.mark.parametrize("name", ["buttons", "rendezvous-2", "drawbridge"])
def test_what_is_planned_on_a_surveyed_map_completes_the_task_as_fast_as_can_be(name):
    task = hk.load_task(name)
    run = hk.train(task, world=hk.survey(task).world, steps=0, seeds=1, threads=1)[0]
    assert run.steps == 0 and run.world.steps == 0
    assert run.curve("greedy")[0].tolist() == [0]
    greedy = hk.evaluate(task, run.policy, episodes=50)[0]
    assert greedy.success.value == 1
    assert greedy.quartiles[1] <= 1.1 * fewest_steps(joint_space(compile_task(task))) + 1


def test_any_other_team_on_the_map_is_planned_from_what_a_run_has_learnt(buttons):
    other = another_task(buttons)
    learnt = hk.train(buttons, seeds=1, steps=6_000, threads=1)[0].world
    run = hk.train(other, world=learnt, steps=0, seeds=1, threads=1)[0]
    assert hk.evaluate(other, run.policy, episodes=50)[0].success.value == 1


def test_with_steps_training_goes_on_from_what_is_known(buttons, surveyed):
    fresh, going = (
        hk.train(buttons, seeds=1, steps=20, settings={"test_every": 20}, world=world, threads=1)[0]
        for world in (None, surveyed.world)
    )
    assert fresh.tests("greedy").test_steps[0] > going.tests("greedy").test_steps[0]
    assert going.tests("greedy").success.all()


def test_planning_depends_on_nothing_but_the_task_the_world_and_the_seed(buttons, surveyed):
    plans = [
        hk.train(buttons, world=surveyed.world, steps=0, seeds=seeds, threads=threads)[0].policy.arrays["q"]
        for seeds, threads in ((1, 1), (2, 2))
    ]
    assert (plans[0] == plans[1]).all()


def test_another_map_is_said_in_a_sentence(buttons, surveyed):
    with pytest.raises(hk.HocketError, match=r"another map than rendezvous-2: moves from \d+ cells differ, the first"):
        hk.train("rendezvous-2", world=surveyed.world, steps=0)
    with pytest.raises(hk.HocketError, match="another map than drawbridge: 10 x 10 cells, not"):
        hk.train("drawbridge", world=surveyed.world, steps=100)
    with pytest.raises(hk.HocketError, match=r"learnt where 0.02 of moves slip, not 0.1"):
        hk.train(replace(buttons, slip=0.1), world=surveyed.world, steps=0)


def test_gates_that_were_never_seen_open_are_said_in_a_sentence(buttons, surveyed):
    other = another_task(buttons)
    world = surveyed.world
    inside = np.isin(world.end.ravel()[world.move // 8], [*buttons.grid.places["yellow region"]])
    shut = ~inside | (world.move & 1 == 1)
    closed = replace(world, move=world.move[shut], tries=world.tries[shut])
    assert world.missing(other) == ()
    assert "yellow region was never open to B2" in closed.missing(other)
    with pytest.raises(hk.HocketError, match="cannot be planned without a step: yellow region was never open to B2"):
        hk.train(other, world=closed, steps=0)
    assert hk.train(other, world=closed, steps=50, seeds=1, threads=1)[0].steps == 50


def test_places_where_nobody_has_been_are_said_in_a_sentence(buttons):
    world = hk.train(buttons, seeds=1, steps=3, threads=1)[0].world
    assert any(said.startswith("no agent was at the place of Goal: A1 at goal") for said in world.missing(buttons))


def test_steps_settings_and_learners_that_need_a_world_say_so(buttons, surveyed):
    with pytest.raises(hk.HocketError, match=r"steps must be at least 1, got 0 \(0 plans with a world"):
        hk.train(buttons, steps=0)
    with pytest.raises(hk.HocketError, match=r"dqprm cannot begin with a world, as it does not plan \(.*sweep.* do\)"):
        hk.train(buttons, "dqprm", world=surveyed.world, steps=0)
    with pytest.raises(hk.HocketError, match="the setting world notes which world was given"):
        hk.train(buttons, settings={"world": "abc"}, steps=10)


@pytest.mark.parametrize("review", ["imagined", "world", "off"])
def test_teammates_may_be_reviewed_in_any_way(buttons, surveyed, review):
    run = hk.train(buttons, world=surveyed.world, steps=0, seeds=1, settings={"team_review": review}, threads=1)[0]
    assert run.tests("greedy").success.all()


def test_a_study_may_survey_the_map_of_each_task_or_begin_with_a_folder_of_runs(tmp_path):
    (tmp_path / "study.toml").write_text('tasks = ["buttons", "drawbridge"]\nsteps = 0\nseeds = 1\nworld = "survey"')
    for group in hk.load_study(tmp_path / "study.toml").groups():
        assert group.world.digest == hk.survey(group.task).world.digest
        assert group.settings.world == group.world.digest[:16]
    (tmp_path / "runs" / "worlds").mkdir(parents=True)
    hk.survey("buttons").world.save(tmp_path / "runs" / "worlds" / "map.npz")
    (tmp_path / "old.toml").write_text('tasks = "buttons"\nsteps = 0\nworld = "runs"')
    (group,) = hk.load_study(tmp_path / "old.toml").groups()
    assert group.world.digest == hk.survey("buttons").world.digest
    for world, said in (('"none"', "cannot be read"), ("3", "world: must be a name in quotes, got 3")):
        (tmp_path / "old.toml").write_text(f'tasks = "buttons"\nsteps = 0\nworld = {world}')
        with pytest.raises(hk.HocketError, match=said):
            hk.load_study(tmp_path / "old.toml")


def test_the_study_of_generality_plans_without_a_step():
    groups = hk.load_study("generality", seeds=1).groups()
    assert {group.steps for group in groups} == {0} and all(group.world is not None for group in groups)


# Joint planning.

SMALL = """
name = "small"
slip = {slip}
map = '''
1.a
.#.
2.b
'''
legend = {{ a = "top", b = "bottom" }}
agents.A = {{ start = "1", knows = ["t", "b"] }}
agents.B = {{ start = "2", knows = ["t", "b"] }}
events = {{ t = "A at top", b = "B at top" }}
machine = {{ any_order = ["t", "b"] }}
"""


def small_task(tmp_path, slip):
    (tmp_path / "small.toml").write_text(SMALL.format(slip=slip))
    return hk.load_task(tmp_path / "small.toml")


@pytest.mark.parametrize("slip", [0.0, 0.1])
def test_a_team_planned_jointly_on_a_surveyed_map_is_the_optimal_team(tmp_path, slip):
    task = small_task(tmp_path, slip)
    optimal, planned = (
        hk.train(task, "optimal-team", seeds=1, steps=steps, world=world, threads=1)[0]
        for steps, world in ((1, None), (0, hk.survey(task).world))
    )
    assert (planned.policy.arrays["action"] == optimal.policy.arrays["action"]).all()
    assert planned.world is None and planned.settings.world != "none"


def test_a_team_planned_jointly_takes_no_move_that_nobody_has_tried(tmp_path):
    """B could go along the bottom as well as along the left; once one of them is unknown, it takes the other."""
    task = small_task(tmp_path, 0.0)
    world, cell = hk.survey(task).world, task.grid.cell
    for begin, ends in ((cell(2, 0), {cell(1, 0), cell(2, 1)}), (cell(2, 1), {cell(2, 2)})):
        for closed in ends:
            is_kept = (world.move // 8 // 5 != begin) | (world.end.ravel()[world.move // 8] != closed)
            less = replace(world, move=world.move[is_kept], tries=world.tries[is_kept])
            (run,) = hk.train(task, "optimal-team", seeds=1, steps=0, world=less, threads=1)
            player, record = hk.LEARNERS["optimal-team"].player(compile_task(task), 1.0, 50), recording(50, 2)
            assert player.play(run.policy.arrays, 0, 0, True, record) == 4
            path = [task.agents["B"].start, *record.cell[:4, 1].tolist()]
            assert (begin, closed) not in pairwise(path)


# Sharing.


def test_agents_that_share_know_what_all_of_them_have_tried():
    task = hk.load_task("rendezvous-3")
    settings = SweepSettings(share_world=True, team_review="off")
    block = SweepBlock(compile_task(task), settings, [0, 1])
    block.train(0, 400)
    for agent in (*block.teams[0], *block.teams[1]):
        assert agent.tries.sum() == 3 * 400
    assert (block.learnt(0)[1] != block.learnt(1)[1]).any()


@pytest.mark.parametrize("pieces", [(1_000,), (130, 70, 1, 799), (200,) * 5])
def test_what_is_shared_does_not_depend_on_how_training_is_cut(pieces):
    settings = SweepSettings(share_world=True)
    whole, cut = (SweepBlock(compile_task(hk.load_task("buttons")), settings, [5], threads) for threads in (1, 2))
    whole.train(0, 1_000)
    begin = 0
    for piece in pieces:
        cut.train(begin, piece)
        cut.learnt(0)
        begin += piece
    assert (whole.arrays(0)["q"] == cut.arrays(0)["q"]).all()
    assert (whole.learnt(0)[1] == cut.learnt(0)[1]).all()


# Surveys.


@pytest.mark.parametrize("name", ["buttons", "four-buttons", "drawbridge", "rendezvous-3"])
def test_a_survey_tries_every_move_in_hardly_more_steps_than_the_optimal_tour(name):
    survey = hk.survey(name)
    assert survey.is_complete
    assert survey.world.steps == survey.steps
    assert survey.world.tries.sum(axis=1).min() >= 4
    assert survey.fewest_steps <= survey.steps < 1.3 * survey.fewest_steps


def test_without_slips_one_try_of_each_move_is_enough():
    task = replace(hk.load_task("buttons"), slip=0.0)
    survey = hk.survey(task, tries=1)
    assert survey.is_complete
    run = hk.train(task, world=survey.world, steps=0, seeds=1, threads=1)[0]
    assert hk.evaluate(task, run.policy, episodes=5)[0].success.value == 1


def test_a_survey_of_an_open_map_counts_five_moves_a_cell():
    survey = hk.survey(hk.rendezvous(2, rows=4, columns=6), tries=1)
    assert survey.fewest_steps == 4 * 6 * 5
    assert str(survey).endswith("times as many as the optimal tour of all moves (120)")


def test_surveys_of_other_seeds_differ_where_moves_slip():
    assert hk.survey("drawbridge", seed=1).world.digest != hk.survey("drawbridge", seed=2).world.digest
    with pytest.raises(hk.HocketError, match="tries must be an integer of at least 1"):
        hk.survey("drawbridge", tries=0)


def test_the_command_surveys_and_the_next_one_plans(tmp_path, hocket):
    out = tmp_path / "map"
    code, text, _ = hocket("survey", "drawbridge", "-o", str(out), "--draw", str(tmp_path / "map.svg"))
    assert code == 0 and "times as many as the optimal tour of all moves" in text
    assert (tmp_path / "map.svg").read_text().startswith("<?xml")
    code, text, _ = hocket("train", "drawbridge", "--world", str(out), "--steps", "0", "--seeds", "1", "--json")
    assert code == 0 and json.loads(text)
    code, text, _ = hocket("survey", "drawbridge", "--json", "--tries", "2")
    assert json.loads(text)["complete"] is True


# Pictures.


def test_a_picture_shows_what_is_known(tmp_path, surveyed):
    hk.draw_world(surveyed.world, tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in surveyed.world._repr_svg_()
