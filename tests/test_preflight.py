"""What cannot work is said by the commands: check, play and train, with their exit codes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given

import hocket as hk
from hocket.cli.play import TerminalGame, draw_frame
from hocket.machine import completion
from hocket.machine.completion import find_idle
from hocket.machine.names import Names
from hocket.study.running import run_study
from hocket.study.study import Study, warnings
from hocket.task.catalogue import built_in_tasks
from hocket.task.verdict import check_task
from strategies import quick
from task_strategies import few, tasks
from test_cli import save
from test_completion import LEFT_FIRST, MEET_FIRST
from worlds import at, corridor, courtyard, fewest_steps, gatehouse, line, meeting

BLOCKED = (
    "After the empty trace, the parts block each other: "
    "Ann waits for left (Ben does not propose it), Ben waits for meet (Ann does not propose it)."
)


def crossed() -> hk.Task:
    """Let Ann want to leave before they meet, and Ben the other way round."""
    both = {"left": at(Ann="door"), "meet": at(Ann="mat", Ben="mat")}
    agents = {"Ann": hk.Agent(0, ("left", "meet")), "Ben": hk.Agent(3, ("left", "meet"))}
    parts = hk.Composition({"Ann": LEFT_FIRST, "Ben": MEET_FIRST})
    return hk.Task("crossed", line(4, door=0, mat=2), agents, both, parts)


def carrying() -> hk.Task:
    """Let Ben take and put things as often as he likes, until Ann says that it is enough, which he does not notice."""
    moves = {("free", "take"): "laden", ("laden", "put"): "free", ("free", "enough"): "over"}
    return hk.Task(
        "carrying",
        line(3, store=0, table=2, bell=1),
        {"Ann": hk.Agent(2, ("take", "put", "enough")), "Ben": hk.Agent(2, ("take", "put"))},
        {"take": at(Ben="store"), "put": at(Ben="table"), "enough": at(Ann="bell")},
        hk.RewardMachine(initial="free", transitions=moves, final={"over"}),
        slip=0.0,
    )


def write(task: hk.Task, folder: Path) -> Path:
    """Write a task to a file."""
    path = folder / f"{task.name}.json"
    path.write_text(json.dumps(task.document()), encoding="utf-8")
    return path


# check


def test_check_says_no_to_parts_that_block_each_other_and_who_waits_for_what(hocket, tmp_path):
    path = write(crossed(), tmp_path)
    code, out, err = hocket("check", path)
    assert (code, err) == (1, "")
    assert BLOCKED in out.splitlines()
    assert "reachability: OK" not in out
    code, out, _ = hocket("check", path, "--json")
    found = json.loads(out)
    assert code == 1
    assert found["decomposable"] is True
    assert BLOCKED in found["problems"]
    assert found["warnings"] == []


@pytest.mark.parametrize("knows", [(), ("--knows", "A1=a,b")], ids=["alone", "with local event sets"])
def test_check_says_no_to_a_machine_that_nothing_completes(hocket, tmp_path, knows):
    moves = {("u0", "a"): "u1", ("lost", "b"): "u2"}
    path = save(tmp_path, hk.RewardMachine(initial="u0", transitions=moves, final={"u2"}))
    code, out, err = hocket("check", path, *knows)
    assert (code, err) == (1, "")
    assert "No trace completes the task: no final state of the team machine is reachable." in out
    code, out, _ = hocket("check", path, "--json", *knows)
    assert code == 1
    assert any(said.startswith("No trace completes") for said in json.loads(out)["problems"])


@pytest.mark.parametrize("knows", [(), ("--knows", "A1=a,b,c")], ids=["alone", "with local event sets"])
def test_check_warns_of_a_state_that_never_completes(hocket, tmp_path, knows):
    moves = {("u0", "a"): "u1", ("u1", "b"): "u2", ("u1", "c"): "violated"}
    path = save(tmp_path, hk.RewardMachine(initial="u0", transitions=moves, final={"u2"}))
    said = "After the trace a, c, the task can no longer be completed: the team machine is in violated."
    code, out, err = hocket("check", path, *knows)
    assert (code, err) == (0, "")
    assert f"Warning: {said}" in out.splitlines()
    code, out, _ = hocket("check", path, "--json", *knows)
    assert code == 0
    assert json.loads(out)["warnings"] == [said]


def test_check_warns_of_an_agent_that_can_leave_a_final_state_again(hocket, tmp_path):
    code, out, err = hocket("check", write(carrying(), tmp_path))
    assert (code, err) == (0, "")
    final = "its local reward machine is final after the empty trace, but no longer after take"
    assert f"Warning: Ben can leave a final state again: {final}." in out.splitlines()


# play


def test_an_agent_that_can_leave_its_final_state_is_final_for_now_until_the_team_is_done():
    game = TerminalGame(carrying(), (), seed=0, steps=100)

    def row(agent: str) -> str:
        return next(line.plain for line in draw_frame(game, 120) if f" {agent} " in line.plain)

    def step(ann: str, ben: str) -> None:
        game.episode.step({"Ann": ann, "Ben": ben})

    assert row("Ben").endswith("final for now")
    step("stay", "left")
    step("stay", "left")
    assert "final" not in row("Ben") and "done" not in row("Ben")
    step("stay", "right")
    step("left", "right")
    assert game.outcome == "completed"
    assert row("Ann").endswith("done") and row("Ben").endswith("done")


# train


def test_train_says_before_it_starts_what_makes_the_run_pointless(hocket, tmp_path):
    code, out, err = hocket("train", write(crossed(), tmp_path), "--seeds", "1", "--steps", "1000", "--json")
    assert code == 0
    assert f"Warning: crossed: {BLOCKED}" in err.splitlines()
    assert json.loads(out)


def humming() -> hk.Task:
    """Let Ben hum and be still as long as he likes, and let Ann ring while he hums; his machine is always final."""
    machine = hk.RewardMachine(
        initial="still",
        transitions={
            ("still", "hum"): "humming",
            ("humming", "rest"): "still",
            ("humming", "ring"): "heard",
            ("heard", "rest"): "quiet",
            ("quiet", "hum"): "heard",
            ("heard", "go"): "gone",
            ("quiet", "go"): "gone",
        },
        final={"gone"},
    )
    events = {"hum": at(Ben="mat"), "rest": at(Ben="post"), "ring": at(Ann="bell"), "go": at(Ann="post")}
    agents = {"Ann": hk.Agent(0, tuple(events)), "Ben": hk.Agent(2, ("hum", "rest"))}
    return hk.Task("humming", line(4, bell=3, mat=1, post=2), agents, events, machine)


def test_an_agent_that_is_rewarded_without_what_the_team_needs_is_named_with_an_event_to_tell_it(hocket, tmp_path):
    task = humming()
    verdict = check_task(task)
    (said,) = verdict.unrewarded_warnings
    assert not verdict.ok and said in verdict.warnings and f"humming: {said}" in warnings(Study([task]))
    why = "its local reward machine can be completed without it, but the team's task cannot"
    assert said == f"Ben is not rewarded for hum: {why}; add ring to its local event set."
    assert check_task(task.with_knows({"Ben": ("hum", "rest", "ring")})).unrewarded_warnings == ()
    hk.save_task(task, tmp_path / "humming.toml")
    code, out, _ = hocket("check", tmp_path / "humming.toml")
    assert code == 1 and f"Warning: {said}" in out  # and its team stalls


def test_an_agent_that_is_named_does_not_learn_and_with_that_event_it_does():
    steps = []
    for task in (humming(), humming().with_knows({"Ben": ("hum", "rest", "ring")})):
        (found,) = hk.evaluate(task, hk.train(task, seeds=1, steps=4_000), 50, greedy=True)
        steps.append(found.mean_steps)
    assert steps[0] > 2 * steps[1]  # by chance it gets there, too


@pytest.mark.parametrize("name", [*built_in_tasks(), "rendezvous-3"])
def test_agents_of_built_in_tasks_are_rewarded_for_what_the_team_needs(name):
    assert check_task(hk.load_task(name)).unrewarded_warnings == ()


@quick
@given(tasks())
def test_who_is_named_can_finish_without_its_event_and_the_team_cannot(task):
    controls = task.controlled
    for agent, events in find_idle(task.machine, task.machines, controls).items():
        assert {*events} <= {*controls[agent]}
        for event in events:
            assert is_completed_without(task.machines[agent], event)
            team = task.machine.machine() if isinstance(task.machine, hk.Composition) else task.machine
            assert not is_completed_without(team, event)


def test_events_of_many_agents_are_each_looked_for_once(monkeypatch):
    task, looked, searched = hk.load_task("rendezvous-60"), [], []
    inside, search = Names.__contains__, completion.completes_without
    monkeypatch.setattr(Names, "__contains__", lambda self, name: (looked.append(name), inside(self, name))[1])
    monkeypatch.setattr(completion, "completes_without", lambda *own: (searched.append(own), search(*own))[1])
    spare = dict.fromkeys(task.agents, ("r",))  # as if everyone controlled what all share
    assert find_idle(task.machine, task.machines, task.controlled) == {}
    assert find_idle(task.machine, task.machines, spare) == {}
    assert 60 <= len(searched) <= len(looked) < 60 * 60  # and not once for every two agents


def is_completed_without(machine: hk.RewardMachine, event: str) -> bool:
    """Say by closing a set under transitions whether a machine is completed without an event."""
    reached = {machine.initial}
    for _ in machine.states:
        reached |= {end for (begin, own), end in machine.transitions.items() if begin in reached and own != event}
    return not reached.isdisjoint(machine.final)


def test_steps_too_few_for_an_episode_or_a_test_are_foreseen():
    assert warnings(Study([corridor(9)], ["dqprm"], 1, 7, {"max_episode_steps": 5})) == (
        "corridor dqprm max_episode_steps=5: 7 steps of training complete no episode, as each takes 8 or more.",
        "corridor dqprm max_episode_steps=5: an episode ends after 5 steps, and to complete the task takes 8 or more.",
        "corridor dqprm max_episode_steps=5: 7 steps of training end before the first test, which comes after 1,000.",
    )
    assert warnings(Study([corridor(9)], ["dqprm"], 1, 8, {"test_every": 8})) == ()


def test_learners_are_checked_before_the_first_begins(tmp_path):
    begun = []

    class Idle:
        def cut(self, batch):
            return [batch]

        def run(self, batches, reporter, stop):
            begun.extend(batches)
            return iter(())

    with pytest.raises(hk.HocketError, match="cqrm would need"):
        run_study(Study([hk.rendezvous(5)], ["dqprm", "cqrm"], 1, 1000), tmp_path, engine=Idle())
    anywhere = replace(gatehouse(), events={**gatehouse().events, "press": {"A2": hk.Condition()}})
    with pytest.raises(hk.HocketError, match="hil needs a task in which every agent has options"):
        run_study(Study([anywhere], ["dqprm", "hil"], 1, 1000), tmp_path, engine=Idle())
    assert begun == []


@pytest.mark.parametrize("task", [corridor(5), meeting(), gatehouse(), courtyard()], ids=lambda task: task.name)
def test_no_team_is_faster_than_the_fewest_steps(task):
    assert 0 < check_task(task).steps_lower_bound <= fewest_steps(task)


@few
@given(tasks())
def test_no_random_team_is_faster_than_the_fewest_steps(task):
    assume(int(task.grid.floor.sum()) ** len(task.agents) <= 1_000)  # all of which are searched
    verdict = check_task(task)
    if verdict.ok and verdict.completion.completes:
        try:
            needed = fewest_steps(task)
        except AssertionError:
            return  # a team can be in its own way where no agent is
        assert verdict.steps_lower_bound <= needed


def test_a_team_that_is_too_large_to_count_how_ready_teammates_are_is_told(monkeypatch):
    monkeypatch.setattr("hocket.learn.reviews.MOST_AGENTS", 2)
    monkeypatch.setattr("hocket.study.study.MOST_AGENTS", 2)
    (said,) = warnings(Study([hk.rendezvous(agents=3, rows=4, columns=4)], ["sweep"]))
    assert said.startswith("rendezvous-3 sweep: how ready teammates are is not counted (team_review) but a constant")
    assert said.endswith("counting takes up to 2 agents and 4,000,000 moves, got 3 agents and 240 moves.")
    assert not warnings(Study([hk.rendezvous(agents=2, rows=4, columns=4)], ["sweep"]))
    assert not warnings(Study([hk.rendezvous(agents=3, rows=4, columns=4)], ["dqprm"]))
