"""A team that runs as processes, watched in the studio: what the page is told, by the logs, and what is refused."""

import json
import os
import shutil
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import hocket as hk
from hocket.errors import FormatError
from hocket.runtime.launch import run_team
from hocket.runtime.log import AgentLog, read_log
from hocket.runtime.recording import read_recording
from hocket.runtime.settings import RunSettings, read_settings
from hocket.studio import runs
from hocket.studio.server import Studio
from hocket.studio.worker import answer
from walks import shortest_actions

PORT = 8398
TASK = """
name = "tiny"
slip = 0.0
map = \"\"\"
1.m.2
\"\"\"
[legend]
m = "mat"
2 = "porch"
[agents]
A1 = { start = "1", knows = ["here", "meet"] }
A2 = { start = "2", knows = ["meet", "home"] }
[events]
here = "A1 at mat"
meet = "A1 and A2 at mat"
home = "A2 at porch"
[machine]
initial = "0"
final = ["3"]
[machine.transitions]
0 = { here = "1" }
1 = { meet = "2" }
2 = { home = "3" }
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """Run a team once, to its end, in a folder of runs."""
    root = tmp_path_factory.mktemp("work")
    (root / "tiny.toml").write_text(TASK, encoding="utf-8")
    task = hk.load_task(root / "tiny.toml")
    assert run_team(task, shortest_actions(task), root / "runs" / "live", pace=200, durable=False).complete
    return root


@pytest.fixture
def root(finished, tmp_path) -> Path:
    shutil.copytree(finished, tmp_path / "work")
    return tmp_path / "work"


def look(root: Path, **more: object) -> dict:
    told = answer({"do": "runs", "root": str(root), **more})
    json.dumps(told, allow_nan=False)
    return told


def write_logs(root: Path, logs: dict[str, list[tuple]]) -> RunSettings:
    """Put other logs in place of those of the run, with the checksums that belong there."""
    folder = root / "runs" / "live"
    settings, _ = read_settings(folder)
    for path in folder.glob("*.log"):
        path.unlink()
    for name, entries in logs.items():
        log = AgentLog(folder / f"{name}.log", settings.header(name), durable=False)
        log.append(entries)
        log.close()
    return settings


def test_a_run_that_has_ended_is_told_as_its_logs_have_it(finished):
    told = look(finished)
    assert told["runs"] == ["runs/live"] and told["name"] == "runs/live"
    run, frames = told["run"], read_recording(finished / "runs" / "live").frames
    assert run["complete"] and not run["alive"]
    assert [(event, who) for _, event, who in run["events"]] == [
        (frame.event, frame.name) for frame in frames if frame.kind == "decide"
    ]
    assert [event for _, event, _ in run["events"]] == ["here", "meet", "home"] and run["happened"] == 3
    assert run["cells"] == [2, 4]  # the mat and the porch
    task = hk.load_task(finished / "tiny.toml")
    for agent in run["agents"]:
        assert agent["state"] in task.machines[agent["name"]].final and agent["now"] == "finished"
        assert agent["steps"] == sum(frame.kind == "move" and frame.name == agent["name"] for frame in frames)
    assert [agent["events"] for agent in run["agents"]] == [2, 2]
    assert run["world"]["map"]["svg"].startswith("<svg") and [own["name"] for own in run["world"]["agents"]] == [
        "A1",
        "A2",
    ]


def test_a_page_that_knows_the_world_is_not_told_it_again(finished):
    run = look(finished)["run"]
    assert run["world"] is not None
    assert look(finished, known=run["key"])["run"]["world"] is None
    assert look(finished, known="another")["run"]["world"] is not None


def test_a_run_in_progress_is_told_as_far_as_it_is(root):
    promise = ("promise", 0, 1, 1, (1, 1), (), 3)
    logs = {
        "A1": [("start", 1), ("decide", 0, 0, 0, ((0, 1),), 2), promise],
        "A2": [("start", 1), ("start", 2)],
        "world": [("start",), ("move", "A1", 1, 1, 0, 1), ("move", "A1", 2, 1, 0, 2), ("move", "A2", 1, 3, 0, 3)],
    }
    settings = write_logs(root, logs)
    run = look(root)["run"]
    first, second = run["agents"]
    assert run["alive"] and not run["complete"] and run["cells"] == [2, 3]
    assert (first["now"], first["steps"], first["kills"], first["events"]) == ("waiting", 2, 0, 1)
    assert (second["now"], second["steps"], second["kills"], second["events"]) == ("running", 1, 1, 0)
    assert second["state"] == settings.task.machines["A2"].initial != first["state"]
    write_logs(root, {"A1": [("start", 1), ("stop",)]})
    run = look(root)["run"]
    assert [agent["now"] for agent in run["agents"]] == ["stopped", "not started"] and not run["alive"]
    assert run["cells"] == [0, 4]


def test_a_last_line_that_is_just_being_written_is_left_out(root):
    path = root / "runs" / "live" / "world.log"
    path.write_bytes(path.read_bytes()[:-4])
    assert look(root)["run"]["complete"]


def test_the_latest_run_is_told_unless_another_is_asked_for(root):
    shutil.copytree(root / "runs" / "live", root / "earlier")
    os.utime(root / "earlier" / "run.json", (1, 1))
    told = look(root)
    assert told["runs"] == ["runs/live", "earlier"] and told["name"] == "runs/live"
    assert look(root, run="earlier")["name"] == "earlier"


def test_a_folder_without_runs_has_none(tmp_path):
    assert look(tmp_path) == {"runs": []}


def test_runs_are_looked_for_no_deeper_and_no_longer_than_needed(root, monkeypatch):
    shutil.copytree(root / "runs" / "live", root / "a" / "b" / "c" / "d")
    shutil.copytree(root / "runs" / "live", root / ".hidden")
    assert runs.list_runs(root) == ["runs/live"]
    monkeypatch.setattr(runs, "MOST_LOOKED_AT", 1)
    assert runs.list_runs(root) == []


@pytest.mark.parametrize("name", ["..", "../work/runs/live", "/etc", "runs", "nul\0", ["runs/live"], 7, "runs/live/."])
def test_what_is_no_run_of_the_folder_is_refused(root, name):
    told = look(root, run=name)
    assert "one of those in the folder of the studio" in told["refused"] and told["runs"] == ["runs/live"]


def test_links_lead_to_no_run(root, tmp_path):
    (root / "runs" / "live").rename(tmp_path / "elsewhere")
    (root / "way").symlink_to(tmp_path / "elsewhere")
    (root / "copy").mkdir()
    (root / "copy" / "run.json").symlink_to(tmp_path / "elsewhere" / "run.json")
    assert look(root) == {"runs": []}


@pytest.mark.parametrize("name", ["A1", "world"])
def test_a_log_that_is_a_link_is_refused(root, tmp_path, name):
    path = root / "runs" / "live" / f"{name}.log"
    path.rename(tmp_path / "elsewhere.log")
    path.symlink_to(tmp_path / "elsewhere.log")
    assert look(root)["refused"].startswith(f"runs/live/{name}.log: cannot be read")
    with pytest.raises(FormatError, match="cannot be read"):
        read_log(path)
    before = (tmp_path / "elsewhere.log").read_bytes()
    with pytest.raises(FormatError):
        AgentLog(path, read_log(tmp_path / "elsewhere.log").header)
    path.unlink()
    path.symlink_to(tmp_path / "new.log")
    with pytest.raises(FormatError, match="cannot be written"):
        AgentLog(path, {"agent": name})
    assert (tmp_path / "elsewhere.log").read_bytes() == before and not (tmp_path / "new.log").exists()


def test_a_log_of_another_run_is_refused(root):
    path = root / "runs" / "live" / "A1.log"
    path.unlink()
    AgentLog(path, {"run": "another"}, durable=False).close()
    assert "belongs to another run" in look(root)["refused"]


def test_a_log_that_is_too_large_to_be_followed_is_refused(root, monkeypatch):
    monkeypatch.setattr(runs, "LARGEST", 100)
    assert "is larger than" in look(root)["refused"]


@pytest.mark.parametrize(
    "logs",
    [
        {"A1": [("decide", 0, 0, 99, (), 0)]},
        {"A1": [("decide",)]},
        {"A1": [("hear", 5, 0, 0, 0, ())]},
        {"A1": [("promise", "x", [], {}, 3)]},
        {"A1": [()]},
        {"A1": [(["start"], 1)]},
        {"world": [("move", "A1", 1, 1, 0, 99)]},
        {"world": [("move", "A1", 1, 1, 0, "here")]},
        {"world": [("move", "A9", 1, 1, 0, 1)]},
        {"world": [("move",)]},
    ],
)
def test_entries_that_make_no_sense_are_an_answer(root, logs):
    write_logs(root, logs)
    told = look(root)
    assert "\n" not in told.get("refused", "") and ("refused" in told or len(told["run"]["cells"]) == 2)


def test_a_time_that_is_no_number_is_refused(root, monkeypatch):
    monkeypatch.setattr("hocket.runtime.log.time.time", lambda: float("nan"))
    write_logs(root, {"A1": [("start", 1)]})
    monkeypatch.undo()
    assert "make no sense" in look(root)["refused"]


@pytest.mark.parametrize("text", ["", "{}", "[" * 9_000, '{"document": 3}', "null"])
def test_a_run_file_that_is_none_is_refused(root, text):
    (root / "runs" / "live" / "run.json").write_text(text)
    assert "run.json" in look(root)["refused"]


def test_the_server_tells_its_pages_and_nobody_else(root, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    studio = Studio.for_file(root / "tiny.toml", PORT)
    with TestClient(studio.app(), base_url=f"http://127.0.0.1:{PORT}") as client:
        assert client.post("/api/runs", json={}).status_code == 403
        client.headers["x-hocket-key"] = studio.session.key
        assert client.post("/api/runs", json={"root": "/"}).json()["run"]["complete"]  # the root is the studio's own
        assert "refused" in client.post("/api/runs", json={"run": "../elsewhere"}).json()
