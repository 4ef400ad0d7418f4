"""Exploring: a machine that is hidden is learnt by walking about, and the commands that learn machines."""

import json
from dataclasses import replace
from functools import partial
from importlib import resources

import pytest

import hocket as hk
from hidden_teams import composition, demonstration, difference, random_log
from hocket.errors import HocketError, SettingsError
from hocket.exploration.explore import HiddenTask, with_learnt_machine
from hocket.inference.logs import Attempt
from hocket.runtime.recording import Verification
from hocket.studio.worker import answer
from hocket.task.grid import ACTIONS

MAP = """
name = "two plates"
slip = 0.0
map = \"\"\"
1.P.
2.Q.
\"\"\"
[legend]
P = "plate"
Q = "exit"
[agents]
A1 = { start = "1", knows = ["press", "leave", "out"] }
A2 = { start = "2", knows = ["press", "leave", "out"] }
[gates]
exit = { A2 = { open = "press", close = "leave" } }
[events]
press = "A1 at plate"
leave = "A1 not at plate"
out = "A2 at exit"
[machine]
final = ["done"]
[machine.transitions]
u0 = { press = "held" }
held = { leave = "u0", out = "done" }
"""


HANDED = """
final = ["u2"]
[knows]
A1 = ["a"]
A2 = ["b"]
[transitions]
u0 = { a = "u1" }
u1 = { b = "u2" }
"""


@pytest.fixture(scope="module")
def plates(tmp_path_factory):
    path = tmp_path_factory.mktemp("tasks") / "plates.toml"
    path.write_text(MAP, encoding="utf-8")
    return path


def test_a_step_shows_what_is_attempted_and_what_of_it_is_refused(plates):
    hidden = HiddenTask(hk.load_task(plates), seed=0)
    right, stay = ACTIONS.index("right"), ACTIONS.index("stay")
    assert hidden.step({"A1": right, "A2": stay}) == [Attempt("leave", False)]
    assert hidden.walk("A2", partial(hidden.is_met, "A2", "out")) is None  # the gate is closed
    assert hidden.step({"A1": right, "A2": right}) == [Attempt("press", True), Attempt("press", False)]
    assert hidden.walk("A2", partial(hidden.is_met, "A2", "out")) == (right, 1)
    assert hidden.step({"A1": stay, "A2": right}) == [Attempt("press", False), Attempt("out", True, True)]
    assert hidden.steps == 3


def test_what_happens_while_walking_is_all_that_is_seen_of_the_machine(plates):
    task = hk.load_task(plates)
    hidden = HiddenTask(task, seed=0)
    seen = [row for _ in range(3) for row in hidden.step({"A1": ACTIONS.index("left"), "A2": ACTIONS.index("stay")})]
    assert seen == [Attempt("leave", False)] * 3


@pytest.mark.parametrize("name", ["pass-the-room", "rendezvous-2", "buttons"])
def test_exploring_a_built_in_task_finds_its_machine(name):
    explored = hk.explore(name, seed=1)
    truth = hk.load_task(name)
    assert difference(composition(truth), explored.answer.team) is None
    assert explored.is_complete and explored.steps <= 1_500
    assert explored.answer.trials >= 100
    assert hk.check_task(explored.task).ok


def test_attempts_that_nobody_can_make_are_told(plates):
    explored = hk.explore(plates, trials=20)
    assert explored.answer.world.assumed >= 1
    said = f"Attempts that are impossible on the map, and count as refused: {explored.answer.world.assumed}."
    assert said in explored.answer.claim
    assert hk.distinguish(hk.load_task(plates).machine, explored.answer.team.machine()) is None


def test_steps_are_counted_and_limited():
    explored = hk.explore("buttons", steps=40)
    assert explored.steps == 40 and not explored.is_complete
    steps = [step for step, _ in explored.history]
    assert steps == sorted(steps) and steps[0] == 0


def test_exploring_is_repeated_by_its_seed():
    first, second = (hk.explore("pass-the-room", seed=3, trials=20) for _ in range(2))
    assert (first.steps, first.answer.log) == (second.steps, second.answer.log)


def test_the_learnt_task_tells_whether_gates_are_open(plates):
    task = hk.load_task(plates)
    exact = hk.infer(random_log(composition(task), 40, seed=0), {a: tuple(k) for a, k in task.knows.items()})
    learnt = with_learnt_machine(task, exact)
    assert hk.check_task(learnt).ok
    merged = hk.infer(
        hk.make_log([[("press", True), ("leave", True), ("out", True, True)], [("press", True), ("press", True)]]),
        {a: tuple(k) for a, k in task.knows.items()},
    )
    split = with_learnt_machine(task, merged)  # in which one state would be reached with the gate open and closed
    assert hk.distinguish(merged.team.machine(), split.machine) is None
    assert (
        split.decomposition.ok
        and split.closed_regions("A2")
        and len(split.machine.states) > len(merged.team.machine().states)
    )


def test_bad_settings_of_exploring_are_refused():
    with pytest.raises(SettingsError, match="steps must be an integer of at least 1"):
        hk.explore("buttons", steps=0)
    log = replace(demonstration(composition(hk.load_task("buttons")), 0), observed="reward")
    with pytest.raises(HocketError, match="demonstrations must show which events were accepted"):
        hk.explore("buttons", demonstrations=log)


# The commands.


@pytest.fixture
def log_file(tmp_path):
    task = hk.load_task("pass-the-room")
    path = tmp_path / "log.csv"
    path.write_text(random_log(composition(task), 30, seed=0).as_csv(), encoding="utf-8")
    return path


def test_a_log_is_read_back_as_it_was_written(log_file):
    assert hk.read_log(log_file) == random_log(composition(hk.load_task("pass-the-room")), 30, seed=0)


def test_infer_prints_machines_and_claim_and_writes_a_machine_that_check_accepts(hocket, log_file, tmp_path):
    out = tmp_path / "machines.toml"
    code, said, _ = hocket("infer", str(log_file), "--task", "pass-the-room", "-o", str(out))
    assert code == 0 and "These machines agree with all 30 episodes of the log." in said
    assert hk.distinguish(hk.load_task(out).machine, hk.load_task("pass-the-room").machine) is None
    bare = tmp_path / "bare.toml"
    knows = [f"{a}={','.join(k)}" for a, k in hk.load_task("pass-the-room").knows.items()]
    code, _, _ = hocket("infer", str(log_file), "--knows", *knows, "-o", str(bare))
    assert code == 0 and hocket("check", str(bare))[0] == 0


def test_infer_says_as_json_what_the_answer_says(hocket, log_file):
    code, said, _ = hocket("infer", str(log_file), "--task", "pass-the-room", "--json")
    document = json.loads(said)
    assert code == 0 and document["explained"] and document["states"] == document["bound"]
    assert {"machines", "evidence", "never_tried", "questions", "claim", "knows"} <= {*document}


def test_infer_draws_evidence(hocket, log_file, tmp_path):
    out = tmp_path / "machines.svg"
    assert hocket("infer", str(log_file), "--task", "pass-the-room", "-o", str(out))[0] == 0
    assert "×" in out.read_text(encoding="utf-8")


def test_infer_answers_no_with_the_traces_that_look_alike(hocket, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("episode,event,accepted,done\n1,a,1,0\n1,b,1,1\n2,b,0,0\n", encoding="utf-8")
    code, said, _ = hocket("infer", str(path), "--knows", "A1=a", "A2=b")
    assert code == 1 and "A2 cannot tell this from episode 1" in said
    code, said, _ = hocket("infer", str(path), "--knows", "A1=a", "A2=b", "--json")
    document = json.loads(said)
    assert code == 1 and not document["explained"] and document["counterexample"]["event"] == "b"
    code, said, _ = hocket("infer", str(path), "--control", "a=A1", "b=A2")
    assert code == 0 and "A2 knows" in said


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("missing.csv", "--knows", "A1=a"), "missing.csv"),
        (("LOG",), "give the local event sets"),
        (("LOG", "--knows", "A1=nothing"), "every event must be in some local event set"),
        (("LOG", "--task", "nowhere"), "nowhere"),
    ],
)
def test_infer_refuses_bad_input_in_a_sentence(hocket, log_file, args, message):
    code, _, said = hocket("infer", *(str(log_file) if word == "LOG" else word for word in args))
    assert code == 2 and message in said and "Traceback" not in said


def test_explore_prints_what_it_took_and_saves_a_task(hocket, plates, tmp_path):
    out = tmp_path / "learnt.toml"
    code, said, _ = hocket("explore", str(plates), "--only", "--trials", "20", "--save", str(out))
    assert code == 0 and said.startswith("Explored two plates:") and "steps of the team" in said
    assert hk.check_task(out).ok
    code, said, _ = hocket("explore", str(plates), "--only", "--trials", "20", "--json")
    assert code == 0 and json.loads(said)["complete"]
    assert hocket("explore", str(plates), "--json")[0] == 2


def test_explore_trains_with_what_it_has_learnt_beside_the_true_machine(hocket, plates, tmp_path):
    folder = tmp_path / "runs"
    options = ("--trials", "20", "--seeds", "2", "--steps", "2000", "-o", str(folder))
    code, said, _ = hocket("explore", str(plates), *options)
    assert code == 0 and "two plates (explored)" in said
    tasks = {record.task for record in hk.load_results(folder).records}
    assert tasks == {"two plates", "two plates (explored)"}
    assert hk.read_log(folder / "exploration" / "log.csv").episodes
    replays = hk.read_log(folder)  # of the trained teams
    assert replays.observed == "effective" and {"press", "out"} <= {*replays.events}
    guess = hk.infer(replays, {agent: tuple(known) for agent, known in hk.load_task(plates).knows.items()})
    assert guess.questions and "cannot identify a machine" in guess.claim
    with pytest.raises(HocketError, match="runs keep accepted events only"):
        hk.read_log(folder, observed="all")
    page = hk.write_report(folder, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Explored two plates:" in page and "data:image/svg+xml" in page


def test_ask_is_a_dialogue(hocket, monkeypatch):
    monkeypatch.setattr("hocket.cli.infer.ask_user", lambda console, trial: _taught(trial))
    code, out, _ = hocket("ask", "--knows", "A1=key,door", "--trials", "10")
    assert code == 0 and "door" in out and "random attempts in a row agreed" in out
    code, out, _ = hocket("ask", "--knows", "A1=key,door", "--trials", "10", "--json")
    assert code == 0 and json.loads(out)["states"] == 3


def _taught(trial):
    if trial.event != ("key", "door")[len(trial.trace)]:
        return "refused"
    return "done" if trial.event == "door" else "accepted"


def test_whoever_stops_answering_gets_what_follows_from_the_answers(hocket, monkeypatch):
    words = iter(["maybe", "a", "q"])
    monkeypatch.setattr("builtins.input", lambda: next(words))
    code, out, _ = hocket("ask", "--knows", "A1=key,door")
    assert code == 0 and "Answer accepted, refused, done or impossible" in out and "Try next" in out
    monkeypatch.setattr("builtins.input", lambda: "q")
    assert hocket("ask", "--knows", "A1=key,door")[:2][0] == 1


def test_the_run_of_a_team_as_processes_is_a_log(tmp_path, monkeypatch):
    task = hk.load_task("pass-the-room")
    (tmp_path / "run.json").write_text("{}", encoding="utf-8")
    told = Verification(task, None, ("open", "across", "through"), complete=True)
    monkeypatch.setattr("hocket.runtime.recording.verify", lambda folder: told)
    (episode,) = hk.read_log(tmp_path).episodes
    assert episode.accepted == told.trace and episode.attempts[-1].done
    monkeypatch.setattr("hocket.runtime.recording.verify", lambda folder: Verification(task, "A1 says otherwise"))
    with pytest.raises(HocketError, match="Not verified: A1 says otherwise"):
        hk.read_log(tmp_path)


def test_a_folder_without_episodes_is_refused(tmp_path):
    with pytest.raises(HocketError, match="has no episodes with events"):
        hk.read_log(tmp_path)


# The studio.


def test_the_studio_explains_a_log_with_the_local_event_sets_of_the_text(log_file):
    text = (resources.files("hocket.task.builtin") / "pass-the-room.toml").read_text(encoding="utf-8")
    dropped = {"do": "log", "log": log_file.read_text(encoding="utf-8"), "log_name": "walks.csv"}
    told = answer({**dropped, "text": text})
    assert told["explained"] and told["picture"].startswith("data:image/svg+xml;base64,")
    assert "These machines agree with all 30 episodes" in told["message"]
    deaf = answer({**dropped, "text": HANDED, "log": "episode,event,accepted\n1,a,1\n1,b,1\n2,b,0\n"})
    assert not deaf["explained"] and "A2 cannot tell this from episode 1" in deaf["message"]
    told = answer(
        {
            **dropped,
            "text": HANDED.replace('A2 = ["b"]', 'A2 = ["a", "b"]'),
            "log": "episode,event,accepted\n1,a,1\n1,b,1\n2,b,0\n",
        }
    )
    assert told["explained"] and told["questions"]


def test_the_studio_says_what_is_wrong_with_a_log_by_its_name():
    told = answer({"do": "log", "text": MAP, "log": "episode,event,accepted\n1,press,7\n", "log_name": "walks.csv"})
    assert told["refused"].startswith("walks.csv, line 2, column accepted") or "walks.csv" in told["refused"]
    assert "tmp" not in told["refused"]
    told = answer({"do": "log", "text": MAP, "log": "x" * 3_000_000, "log_name": "walks.csv"})
    assert "must be at most 2 MB" in told["refused"]
    told = answer({"do": "log", "text": MAP, "log": "episode,event,accepted\n1,fly,1\n", "log_name": "walks.csv"})
    assert "every event must be in some local event set, got 'fly'" in told["refused"]
    told = answer({"do": "log", "text": MAP, "log": "event\npress\n", "log_name": "walks.csv", "observed": "some"})
    assert "observed must be one of all, reward, effective, got 'some'" in told["refused"]
