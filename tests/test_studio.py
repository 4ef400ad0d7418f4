"""The studio's server: what a text means, which files it touches, whom it answers, and what it cuts off."""

import asyncio
import hmac
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tomllib
import urllib.request
from importlib import resources
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

import hocket as hk
from hocket.cli.tasks import _listen
from hocket.draw.graphviz import place_machine
from hocket.draw.task_scene import scene_of
from hocket.errors import FormatError, HocketError
from hocket.files import UNFINISHED
from hocket.machine.formats import toml
from hocket.studio import guard
from hocket.studio.pictures import MOST_INTERESTING, excerpt_of, picture_of
from hocket.studio.processes import CutOffError, TrainingProcess, Worker
from hocket.studio.sections import keys_of, line_of
from hocket.studio.server import Folder, Studio, _body, _until_disconnect
from hocket.studio.understanding import COLOR_NUMBERS, cheapest_repairs, describe_text, describe_verdict, parse_subject
from hocket.studio.worker import answer, start_text
from hocket.task.catalogue import source_of
from hocket.task.episode import TeamEpisode

PORT = 8399
BUTTONS = (resources.files("hocket.task.builtin") / "buttons.toml").read_text(encoding="utf-8")
BROKEN = BUTTONS.replace('knows = ["Y", "R", "Goal"]', 'knows = ["Y", "Goal"]')
RENDEZVOUS = toml.unparse(hk.rendezvous(10).document())


# What a text means.


def test_a_world_has_the_map_the_agents_the_events_and_the_machines():
    world = describe_text(BUTTONS)
    assert world["error"] is None and world["decomposable"] and world["counterexample"] is None
    assert (world["map"]["rows"], world["map"]["columns"]) == (10, 10)
    assert [agent["name"] for agent in world["agents"]] == ["A1", "A2", "A3"]
    assert {event["name"]: event["needs"] for event in world["events"]}["R"] == ["A2", "A3", "A1"]
    team, own = world["machines"]["team"], world["machines"]["agents"]["A1"]
    assert team["states"] == [f"u{number}" for number in range(8)] and len(team["layout"]["nodes"]) == 8
    assert own["members"] == {"{u1,…,u5}": ["u1", "u2", "u3", "u4", "u5"]}
    json.dumps(world, allow_nan=False)


def test_the_verdict_says_after_everything_else_whether_events_may_be_heard_late():
    source = source_of("drawbridge") or ""
    verdict = describe_verdict(parse_subject(source))
    assert verdict["ok"] and "A2: up and A1: lift" in verdict["answers"][-1]["message"]
    assert [(answer["ok"], answer["required"]) for answer in verdict["answers"]] == [(True, True), (False, False)]


@pytest.mark.parametrize("name", ["buttons", "warehouse", "rooms", "crew"])
def test_events_have_the_colours_of_drawings_and_reports(name):
    content = (resources.files("hocket.task.builtin") / f"{name}.toml").read_text(encoding="utf-8")
    styles = scene_of(hk.load_task(name)).styles
    told = {own["name"]: (own["color"], own["line"]) for own in describe_text(content)["events"]}
    assert told == {event: (COLOR_NUMBERS[color], line) for event, (color, line) in styles.items()}


def test_a_counterexample_is_a_story_of_every_machine():
    story = describe_text(BROKEN)["counterexample"]
    assert (story["trace"], story["event"], story["state"]) == (["Y"], "Goal", "u1")
    assert story["team"] == ["u0", "u1"]
    assert story["agents"] == {"A1": ["u0", "{u1,…,u6}"], "A2": ["u0", "u1"], "A3": ["{u0,u1}", "{u0,u1}"]}
    assert [(own["agent"], own["merged_with"]) for own in story["confusions"]] == [("A1", "u6")]


@pytest.mark.parametrize(
    ("before", "after", "line", "said"),
    [
        ("A1 at goal", "A1 at gaol", 52, "place 'gaol' does not exist"),
        ("slip = 0.02", "slip == 0.02", 6, "is not TOML"),
        ("1.Y#.2.#3.", "1.Y#.2.#3", 11, "all lines must have the same length"),
        ("...#..N...", "...#..N..?", 15, "letter '?'"),
        ('"A2on", "A2off", "R"]', '"A2on", "A2of", "R"]', 36, "event 'A2of' does not exist"),
        ("[gates]", "[gate]", 39, "unknown key"),
    ],
)
def test_a_mistake_is_told_with_its_line(before, after, line, said):
    error = describe_text(BUTTONS.replace(before, after, 1))["error"]
    assert error["line"] == line and said in error["message"]


def test_keys_are_found_in_tables_quotes_and_after_long_texts():
    text = '"a b".c = 1\n[x."y.z"] # no\nk = """\nnot = 1\n"""\n\'q\' = 2\n[[list]]\nm = 3'
    assert keys_of(text) == {"a b.c": 1, "x.y.z": 2, "x.y.z.k": 3, "x.y.z.q": 6, "list": 7, "list.m": 8}
    assert line_of(HocketError("x.y.z.k.deeper: is wrong"), text) == 3
    assert line_of(HocketError("nothing that is there"), text) is None
    assert describe_text('name = "x"\nstates = [')["error"]["line"] == 2  # which ends too early


def test_a_machine_alone_and_a_formula_work_the_same():
    alone = describe_text(start_text("a machine alone"))
    assert alone["map"] is None and not alone["decomposable"] and alone["counterexample"]["event"] == "b"
    sentence = describe_text(start_text("from a formula"))
    assert sentence["written"] == {
        "machine": "formula",
        "sentence": "(!door U key) & (!home U door) & F home",
        "team": False,
    }
    rooms = (resources.files("hocket.task.builtin") / "rooms.toml").read_text()
    assert describe_text(rooms)["written"]["machine"] == "parts"


def test_a_large_team_machine_is_a_summary_and_the_agents_machines_are_whole():
    text = RENDEZVOUS.replace('knows = ["r", "r1", "l1", "g1"]', 'knows = ["r", "r1", "g1"]')
    world = describe_text(text)
    summary = world["machines"]["team"]["summary"]
    assert summary["states"] == 2048 == sum(summary["layers"]) and summary["final"] == 1
    assert all("layout" in own for own in world["machines"]["agents"].values())
    assert not world["decomposable"]
    assert describe_text(RENDEZVOUS)["machines"]["team"] == {"later": True}
    assert describe_text(RENDEZVOUS, wait_for_pictures=True)["machines"]["team"]["summary"]["transitions"] == 15_361


def test_all_cheapest_repairs_are_found_and_each_repairs_it():
    found = cheapest_repairs(parse_subject(start_text("a machine alone")))["repairs"]
    assert {json.dumps(own["add"]) for own in found} == {'{"A2": ["a"]}', '{"A1": ["b"]}'}
    for own in found:
        repaired = answer(
            {"do": "edit", "text": start_text("a machine alone"), "gesture": {"kind": "repair", "add": own["add"]}}
        )
        assert repaired["world"]["decomposable"], own
    assert len({own["cost"] for own in found}) == 1


def test_a_placed_machine_has_every_state_and_edge_inside():
    machine = hk.load_task("buttons").machine
    placed = place_machine(machine)
    width, height = placed["size"]
    assert len(placed["nodes"]) == 8 and len(placed["routes"]) == 12
    for x, y, wide, high in placed["nodes"]:
        assert x - wide / 2 >= 0 and x + wide / 2 <= width + 0.1 and y - high / 2 >= 0 and y + high / 2 <= height + 0.1
    for edge, route in zip(picture_of(machine)["edges"], placed["routes"], strict=True):
        for place, point in ((edge["from"], route["curve"][0]), (edge["to"], route["tip"])):
            x, y, wide, high = placed["nodes"][place]
            assert abs(((point[0] - x) / wide) ** 2 + ((point[1] - y) / high) ** 2 - 0.25) < 0.06  # on its rim


def test_boxes_are_told_open_and_closed():
    text = 'sequence = ["wake", "fetch"]\nknows = { A1 = ["wake", "get", "put"] }\n'
    picture = describe_text(f'{text}[calls]\nfetch = {{ sequence = ["get", "put"] }}\n')["machines"]["team"]
    assert picture["states"] == ["wake", "fetch", "fetch › put", "done"]
    assert picture["labels"] == ["wake", "fetch", "put", "done"]
    assert picture["boxes"] == [{"name": "fetch", "label": "fetch", "states": [1, 2]}]
    closed = picture["closed"]
    assert closed["states"] == ["wake", "fetch", "done"] and closed["closed_boxes"] == [1]
    assert closed["stands_for"] == [0, 1, 1, 2] and len(closed["layout"]["nodes"]) == 3
    assert "boxes" not in describe_text(BUTTONS)["machines"]["team"]


# A worker.


def test_a_gesture_that_would_break_the_text_is_refused_with_the_reason():
    told = answer(
        {"do": "edit", "text": BUTTONS, "gesture": {"kind": "final", "part": "", "state": "u6", "final": True}}
    )
    assert "final state 'u6' must have no outgoing transition" in told["refused"]


def test_what_is_nested_too_deeply_is_an_answer():
    assert "nested" in answer({"do": "understand", "text": "x = " + "[" * 5_000})["error"]["message"]
    assert answer({"do": "repairs", "text": "map = 3"}).keys() == {"refused"}


# Files.


@pytest.fixture
def folder(tmp_path) -> Folder:
    (tmp_path / "work").mkdir()
    (tmp_path / "secret.toml").write_text("secret = 1")
    (tmp_path / "work" / "task.toml").write_text(BUTTONS)
    return Folder((tmp_path / "work").resolve())


@pytest.mark.parametrize(
    "name",
    [
        "../secret.toml",
        "/etc/passwd",
        "",
        ".",
        "task.yaml",
        "a/../../secret.toml",
        "nul\0.toml",
        "task.toml/../../secret.toml",
    ],
)
def test_files_outside_the_folder_are_refused(folder, name):
    with pytest.raises(FormatError, match="in the studio's folder or below"):
        folder.read(name)


def test_a_link_that_leads_out_of_the_folder_is_refused(folder, tmp_path):
    (folder.root / "link.toml").symlink_to(tmp_path / "secret.toml")
    (folder.root / "way").symlink_to(tmp_path)
    for name in ("link.toml", "way/secret.toml"):
        with pytest.raises(FormatError):
            folder.read(name)
        with pytest.raises(FormatError):
            folder.save(name, "", None)
    assert (tmp_path / "secret.toml").read_text() == "secret = 1"


def test_a_file_that_somebody_else_has_changed_is_never_overwritten(folder):
    text, fingerprint = folder.read("task.toml")
    assert text == BUTTONS
    (folder.root / "task.toml").write_text("theirs = 1")
    assert folder.save("task.toml", "mine = 1", fingerprint) is None
    assert folder.save("task.toml", "mine = 1", None) is None  # nor taken for a new one
    assert (folder.root / "task.toml").read_text() == "theirs = 1"
    assert folder.save("task.toml", "mine = 1", folder.fingerprint("task.toml")) == folder.fingerprint("task.toml")


def test_other_formats_are_read_and_never_written(folder):
    (folder.root / "task.json").write_text("{}")
    assert folder.read("task.json")[0] == "{}" and folder.has_file("task.json")
    for act in (lambda: folder.save("task.json", "{}", None), lambda: folder.fingerprint("task.json")):
        with pytest.raises(FormatError, match=r"must end in \.toml"):
            act()
    assert (folder.root / "task.json").read_text() == "{}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a = 1\r\nb = 2\r\n", b"a = 1\r\nb = 2\r\nc = 3\r\n"),
        (b"\xef\xbb\xbfa = 1\nb = 2\n", b"\xef\xbb\xbfa = 1\nb = 2\nc = 3\n"),
        (b"a = 1\nb = 2\r\n\n", b"a = 1\nb = 2\r\n\nc = 3\n"),
    ],
    ids=["of Windows", "with a byte order mark", "mixed"],
)
def test_what_nobody_touches_in_a_file_stays_byte_for_byte(folder, before, after):
    path = folder.root / "task.toml"
    path.write_bytes(before)
    text, fingerprint = folder.read("task.toml")
    assert text.replace("\n\n", "\n") == "a = 1\nb = 2\n"
    fingerprint = folder.save("task.toml", text, fingerprint)
    assert path.read_bytes() == before
    assert folder.save("task.toml", text + "c = 3\n", fingerprint) == folder.fingerprint("task.toml")
    assert path.read_bytes() == after


# The server.


@pytest.fixture
def studio(folder, tmp_path, monkeypatch) -> Studio:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Studio.for_file(folder.root / "task.toml", PORT)


@pytest.fixture
def client(studio, monkeypatch):
    """Open the studio; its processes start when they are needed, and not before, as most tests need none."""

    async def ask(worker, job, ask=Worker.ask):
        return {} if job == {"do": "warm"} else await ask(worker, job)

    monkeypatch.setattr(Worker, "ask", ask)
    with TestClient(studio.app(), base_url=f"http://127.0.0.1:{PORT}") as own:
        own.headers["x-hocket-key"] = studio.session.key
        yield own


def test_a_page_gets_its_key_from_the_address_with_the_token_only(client, studio):
    right = client.get("/", params={"token": studio.token}).text
    assert f'content="{studio.session.secret}"' in right and studio.session.key not in right
    for wrong in ({}, {"token": ""}, {"token": studio.token[:-1]}, {"token": "é"}):
        assert studio.session.secret not in client.get("/", params=wrong).text


def test_a_request_without_the_key_is_refused(client):
    for name in ("hello", "open", "save", "understand", "edit", "play", "train"):
        for key in (b"", b"wrong", "ü".encode()):
            assert client.post(f"/api/{name}", json={}, headers={"x-hocket-key": key}).status_code == 403


@pytest.mark.parametrize("host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", f"127.0.0.1:{PORT + 1}", ""])
def test_a_foreign_host_is_refused_against_dns_rebinding(client, host):
    assert client.post("/api/hello", json={}, headers={"host": host}).status_code == 403
    assert client.get("/", headers={"host": host}).status_code == 403


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", f"http://127.0.0.1:{PORT + 1}", f"https://127.0.0.1:{PORT}"]
)
def test_a_foreign_origin_is_refused(client, origin):
    assert client.post("/api/hello", json={}, headers={"origin": origin}).status_code == 403


def test_its_own_pages_are_answered(client):
    for name in ("127.0.0.1", "localhost"):
        own = {"host": f"{name}:{PORT}", "origin": f"http://{name}:{PORT}"}
        assert client.post("/api/hello", json={}, headers=own).json()["name"] == "task.toml"


def test_every_answer_says_what_a_page_may_do(client, studio):
    for answered in (
        client.get("/"),
        client.get("/main.js"),
        client.get("/nothing.js"),
        client.post("/api/hello", json={}),
    ):
        policy = answered.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert answered.headers["x-content-type-options"] == "nosniff"
        assert answered.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in answered.headers


@pytest.mark.parametrize("path", ["/../server.py", "/__init__.py", "/new.toml", "/index.html", "/..%2f..%2fserver.py"])
def test_only_scripts_and_styles_of_the_page_are_served(client, path):
    assert client.get(path).status_code in (404, 400)


def test_a_file_is_read_changed_and_written(client, folder):
    opened = client.post("/api/open", json={"name": "task.toml"}).json()
    assert opened["text"] == BUTTONS
    gesture = {"kind": "know", "agent": "A1", "event": "R", "known": False}
    told = client.post("/api/edit", json={"text": BUTTONS, "gesture": gesture}).json()
    assert told["text"] == BROKEN and not told["world"]["decomposable"]
    edited = {"name": "task.toml", "text": BROKEN, "expected": opened["fingerprint"]}
    saved = client.post("/api/save", json=edited).json()
    assert (folder.root / "task.toml").read_text() == BROKEN
    assert client.post("/api/fingerprint", json={"name": "task.toml"}).json() == saved
    late = client.post("/api/save", json={"name": "task.toml", "text": "x", "expected": opened["fingerprint"]}).json()
    assert late["conflict"]["text"] == BROKEN and late["conflict"]["fingerprint"] == saved["fingerprint"]
    assert client.post("/api/repairs", json={"text": BROKEN}).json()["repairs"][0]["add"] == {"A1": ["R"]}


def test_files_elsewhere_are_refused_by_the_server_too(client):
    for name in ("open", "fingerprint", "save", "understand"):
        told = client.post(f"/api/{name}", json={"name": "../secret.toml", "text": "", "expected": None}).json()
        assert "in the studio's folder" in told["refused"]


@pytest.mark.parametrize("sent", [b"", b"[]", b"{", b"nonsense", b'{"text": 3}', b'{"name": ["x"]}', b"[" * 100_000])
def test_requests_that_make_no_sense_are_refused_in_a_sentence(client, sent):
    for name in ("open", "understand", "save", "edit"):
        answered = client.post(f"/api/{name}", content=sent)
        assert answered.status_code == 200 and {"refused", "error"} & answered.json().keys()


def test_a_text_that_is_too_long_is_refused(client):
    assert "at most" in client.post("/api/understand", json={"text": "x" * 1_000_001}).json()["refused"]
    assert "at most" in client.post("/api/understand", content=b" " * 4_000_000).json()["refused"]


def test_a_check_that_hangs_is_cut_off_and_the_next_one_is_done(client, studio):
    checks = studio.workers["checks"]
    client.post("/api/understand", json={"text": BUTTONS})
    checks.limit = 0.0
    told = client.post("/api/understand", json={"text": BUTTONS}).json()
    assert told["cut_off"] and "stopped after 0 seconds" in told["refused"]
    checks.limit = 60.0
    assert client.post("/api/understand", json={"text": BUTTONS}).json()["decomposable"]


def test_the_time_that_a_process_takes_to_start_is_no_part_of_a_check():
    async def ask() -> None:
        worker = Worker(0.0)
        with pytest.raises(CutOffError, match="stopped after 0 seconds"):
            await worker.ask({"do": "warm"})
        assert worker.is_ready and worker.starting is None  # it had started, and was ended

    asyncio.run(ask())


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="processor time is not limited here")
def test_a_job_is_stopped_by_the_time_that_it_computes():
    code = "from hocket.studio.worker import at_most\nwith at_most(60.0): pass\nwith at_most(0.05):\n  while True: pass"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGPROF

    async def ask() -> None:
        worker = Worker(0.001)
        with pytest.raises(CutOffError, match=r"stopped after 0\.001 seconds"):
            await worker.ask({"do": "warm"})
        await worker.close()

    asyncio.run(ask())


def test_a_check_that_crashes_is_told_and_the_next_one_is_done(client, studio):
    client.post("/api/understand", json={"text": BUTTONS})
    studio.workers["checks"].starting.result().kill()
    told = client.post("/api/understand", json={"text": BUTTONS}).json()
    assert told["cut_off"] and "crashed" in told["refused"]
    assert client.post("/api/understand", json={"text": BUTTONS}).json()["decomposable"]


def test_a_request_that_stops_in_the_middle_is_no_failure_of_the_server():
    messages = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]

    async def receive() -> dict[str, object]:
        return messages.pop(0)

    with pytest.raises(FormatError, match="the request is incomplete"):
        asyncio.run(_body(Request({"type": "http"}, receive)))


class Gone:
    """A request of somebody who has hung up, after he has sent something more."""

    def __init__(self) -> None:
        self.messages = [{"type": "http.request"}, {"type": "http.disconnect"}]

    async def receive(self) -> dict[str, str]:
        return self.messages.pop(0)


def test_work_that_nobody_waits_for_is_given_up_and_its_process_ended():
    async def ask() -> None:
        worker = Worker(60.0)
        await worker.ask({"do": "warm"})
        process = worker.starting.result()
        with pytest.raises(CutOffError, match="was cancelled"):
            await _until_disconnect(worker.ask({"do": "understand", "text": BUTTONS}), Gone())
        assert process.returncode is not None
        assert (await worker.ask({"do": "understand", "text": BUTTONS}))["decomposable"]
        await worker.close()

    asyncio.run(ask())


@pytest.mark.parametrize("suffix", [".json", ".txt", ".dot", ".gv", ".hoa", ".JSON"])
def test_a_machine_of_another_format_is_a_start(client, folder, suffix):
    machine = hk.load_task("buttons").machine
    hk.save_machine(machine, folder.root / f"own{suffix}")
    found = client.post("/api/open", json={"name": f"own{suffix}"}).json()
    assert found["name"] is None and found["fingerprint"] is None
    again = parse_subject(found["text"]).machine
    assert hk.distinguish(again, machine) is None
    if suffix != ".hoa":  # which declares what follows from its transitions
        assert again == machine


def test_a_task_in_json_is_a_start_and_says_the_same(client, folder):
    task = hk.load_task("drawbridge")
    hk.save_task(task, folder.root / "own.json")
    found = client.post("/api/open", json={"name": "own.json"}).json()
    assert parse_subject(found["text"]).document() == {**task.document(), "name": "drawbridge"}


@pytest.mark.parametrize(
    "content", ["[]", "{", "null", '{"map": null}', '{"a": [{"b": 1}]}', "[" * 100_000, '{"a": 1e400}']
)
def test_json_that_is_no_start_is_refused_in_a_sentence(client, folder, content):
    (folder.root / "own.json").write_text(content)
    found = client.post("/api/open", json={"name": "own.json"}).json()
    assert "refused" in found and "cut_off" not in found and "\n" not in found["refused"]


def test_a_file_to_be_made_is_toml(folder):
    with pytest.raises(FormatError, match=r"must end in \.toml"):
        Studio.for_file(folder.root / "new.json", PORT)
    (folder.root / "new.json").write_text("{}")
    assert Studio.for_file(folder.root / "new.json", PORT).file_name == "new.json"


@pytest.mark.parametrize("name", ["x" * 300 + ".toml", "y/" * 3_000 + "x.toml"])
def test_a_name_that_no_file_can_have_is_refused_in_a_sentence(client, name):
    for what in ("open", "fingerprint", "save"):
        told = client.post(f"/api/{what}", json={"name": name, "text": "", "expected": None}).json()
        assert "too long" in told["refused"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="nobody keeps this user out of a folder")
def test_a_folder_that_nobody_may_look_into_is_refused_in_a_sentence(client, folder):
    (folder.root / "shut").mkdir(mode=0o000)
    assert "denied" in client.post("/api/open", json={"name": "shut/task.toml"}).json()["refused"]


@pytest.mark.parametrize("name", ["understand", "edit", "repairs", "save", "open", "play", "train", "gallery"])
def test_half_a_character_is_refused_in_a_sentence(client, name):
    body = rb'{"name": "task.toml", "text": "# \ud800", "gesture": {"kind": "\udc00"}}'
    assert "valid Unicode" in client.post(f"/api/{name}", content=body).json()["refused"]


@pytest.mark.parametrize("name", ["understand", "edit", "pictures", "repairs", "play"])
def test_a_request_that_lacks_something_crashes_no_process(client, name):
    for body in ({}, {"text": BUTTONS}, {"text": BUTTONS, "moves": [{"A1": ["up"]}], "mates": {"A1": []}}):
        told = client.post(f"/api/{name}", json=body).json()
        assert "cut_off" not in told, (body, told)


def test_the_gallery_has_every_start_with_its_map(client):
    starts = client.post("/api/gallery", json={}).json()["starts"]
    assert {"new task", "buttons", "rooms", "rendezvous-2"} <= {own["name"] for own in starts}
    for own in starts:
        assert tomllib.loads(client.post("/api/start", json={"name": own["name"]}).json()["text"])
    assert "refused" in client.post("/api/start", json={"name": "../server"}).json()


# Keys.


def test_a_studio_proves_itself_before_a_page_shows_anything(client, studio):
    del client.headers["x-hocket-key"]
    told = client.post("/api/prove", json={"nonce": "number"}).json()
    signed = {
        text: hmac.new(studio.session.secret.encode(), text.encode(), "sha256").hexdigest()
        for text in (f"studio {told['run']} number", f"session {told['run']}")
    }
    assert told["proof"] == signed[f"studio {told['run']} number"]
    assert studio.session.key == signed[f"session {told['run']}"], "which the page can make itself"
    assert not {studio.session.key, studio.session.secret} & {*told.values()}
    answered = client.post("/api/hello", json={}, headers={"x-hocket-nonce": "another"})
    assert answered.headers["x-hocket-proof"] == studio.session.sign("answer another"), (
        "so that nobody else is believed"
    )
    for sent in ({}, {"nonce": 3}):
        assert "refused" in client.post("/api/prove", json=sent).json()
    client.headers["x-hocket-key"] = studio.session.secret
    assert client.post("/api/hello", json={}).status_code == 403, "the secret itself is never sent"


def test_keys_expire_with_the_studio_and_the_secret_of_pages_is_kept(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    one, other = (Studio.for_file(folder.root / "task.toml", PORT) for _ in range(2))
    assert one.session.secret == other.session.secret
    assert one.session.key != other.session.key and one.token != other.token and len(one.token) >= 32
    assert Studio.for_file(folder.root / "task.toml", PORT + 1).session.secret != one.session.secret
    assert Studio.for_file(tmp_path / "other.toml", PORT).session.secret != one.session.secret
    if os.name == "posix":
        assert (tmp_path / "state" / "hocket" / "studio.key").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("fault", ["empty", "short", "readable by others", "a link"])
def test_an_invalid_secret_is_replaced(tmp_path, monkeypatch, fault):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    first = guard.page_secret(PORT, tmp_path)
    path = tmp_path / "hocket" / "studio.key"
    if fault in ("empty", "short"):
        path.write_bytes(b"" if fault == "empty" else b"x" * 31)
    elif os.name != "posix":
        pytest.skip("others cannot be told from this user")
    elif fault == "a link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.chmod(0o644)
    second = guard.page_secret(PORT, tmp_path)
    assert second != first, "others may know the first"
    assert guard.page_secret(PORT, tmp_path) == second, "and the next start has the same"


def test_without_a_place_for_a_secret_each_start_has_its_own(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert guard.page_secret(PORT, tmp_path) != guard.page_secret(PORT, tmp_path)


def test_what_a_killed_save_has_left_is_cleared_away_at_the_next_start(studio, folder):
    left, fresh = (folder.root / f".task.toml.{name}{UNFINISHED}" for name in ("0123", "4567"))
    for path in (left, fresh):
        path.write_text("half of")
    os.utime(left, (0, 0))
    with TestClient(studio.app(), base_url=f"http://127.0.0.1:{PORT}"):
        assert not left.exists() and fresh.exists(), "another studio may be at the second"


@pytest.mark.skipif(os.name != "posix", reason="there is no limit on the length of files")
def test_saving_on_a_full_disk_says_so_and_leaves_the_file_as_it_was(folder):
    before = (folder.root / "task.toml").read_text(encoding="utf-8")
    code = (
        "import resource, signal, sys\nfrom pathlib import Path\nfrom hocket.studio.server import Folder\n"
        "folder = Folder(Path(sys.argv[1]))\ntext, fingerprint = folder.read('task.toml')\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "folder.save('task.toml', text + '# ' + 'x' * 500, fingerprint)"
    )
    failed = subprocess.run([sys.executable, "-c", code, folder.root], capture_output=True, text=True, check=False)
    assert "task.toml: cannot be written: File too large" in failed.stderr
    assert (folder.root / "task.toml").read_text(encoding="utf-8") == before
    assert not list(folder.root.glob(f".*{UNFINISHED}"))


# The command.


def test_the_command_prints_its_address_on_the_first_line_and_listens_on_this_machine_only(tmp_path):
    command = [sys.executable, "-m", "hocket", "studio", str(tmp_path / "new.toml"), "--no-browser", "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes, env={**os.environ, "XDG_STATE_HOME": str(tmp_path)}) as started:
        try:
            address = started.stdout.readline()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}\n", address)
            with urllib.request.urlopen(address.strip(), timeout=60) as page:  # at once
                assert b"hocket studio" in page.read()
            assert started.stderr.readline() == "Press Ctrl-C to stop the studio and any training in it.\n"
        finally:
            started.terminate()


def test_answers_are_sent_at_once_and_do_not_wait_for_the_acknowledgement_of_their_first_part():
    with _listen(0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_file_that_the_studio_cannot_edit_is_bad_input(hocket, tmp_path):
    code, _, said = hocket("studio", tmp_path / "task.json", "--no-browser")
    assert code == 2 and ".toml" in said
    code, _, said = hocket("studio", "--port", "70000", "--no-browser")
    assert code == 2 and "--port must be" in said


# The page.

PAGE = Path(str(resources.files("hocket.studio.page")))


def test_the_page_has_at_most_150_kb_of_scripts_and_asks_nobody_else():
    scripts = {path.name: path.read_text(encoding="utf-8") for path in PAGE.glob("*.js")}
    assert sum(len(text.encode()) for text in scripts.values()) <= 150_000
    for name, text in {**scripts, "studio.css": (PAGE / "studio.css").read_text(encoding="utf-8")}.items():
        assert set(re.findall(r"https?://[\w.]+", text)) <= {"http://www.w3.org"}, name


def test_no_script_makes_markup_of_text():
    for path in PAGE.glob("*.js"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function",
            path.read_text(encoding="utf-8"),
        )


def test_errors_of_processes_are_no_errors_of_input():
    assert not issubclass(CutOffError, HocketError)


# Games.


def game(**more) -> dict:
    return answer({"do": "play", "text": BUTTONS, "seed": 0, "moves": [], "mates": {}, **more})


def test_a_game_is_what_was_pressed():
    mates = {"A1": "me", "A2": "optimal", "A3": "random"}
    moves = [{"A1": "right"}] * 2 + [{"A1": "down"}] * 10
    whole = game(mates=mates, moves=moves)
    assert whole["time"] == 12 and whole["events"][0] == (2, "Y") and whole["states"]["A1"] == "{u1,…,u5}"
    for count in (3, 12, 5):  # on, and back
        again = game(mates=mates, moves=moves[:count])
    assert again["time"] == 5 and [own for own in whole["events"] if own[0] <= 5] == again["events"]
    assert game(mates=mates, moves=moves) == whole


def test_a_game_agrees_with_an_episode_of_the_same_actions():
    task = hk.load_task("buttons")
    episode = TeamEpisode(task, 3)
    told = game(mates=dict.fromkeys(task.agents, "random"), moves=[{}] * 30, seed=3)
    for _ in range(30):
        episode.step(episode.random_actions())
    assert told["cells"] == list(episode.cells.values()) and told["states"] == dict(episode.states)


def test_optimal_teammates_complete_the_task_beside_each_other():
    told = game(mates=dict.fromkeys(("A1", "A2", "A3"), "optimal"), moves=[{}] * 200)
    assert told["outcome"] == "completed" and told["team"] == "u7" and told["closed"] == []


def test_a_task_that_is_not_sound_can_be_played_and_says_so():
    text = BROKEN.replace('"red region" = { A1 = "R" }\n', "")
    assert not answer({"do": "play", "text": text, "moves": [{}], "mates": {}})["sound"]
    assert "R, which opens the gate" in answer({"do": "play", "text": BROKEN})["refused"]


@pytest.mark.parametrize(
    "more",
    [
        {"mates": {"A1": "asleep"}},
        {"moves": [{"A1": "jump"}]},
        {"moves": [{"A9": "up"}]},
        {"moves": "up"},
        {"moves": [{}] * 2_000},
        {"seed": -1},
        {"seed": "x"},
        {"mates": {"A1": "trained"}},
        {"text": "x = 1"},
    ],
)
def test_a_game_that_makes_no_sense_is_refused(more):
    assert game(**more).keys() == {"refused"}


# Training.


def follow(client, name: str) -> list[dict]:
    told = client.post("/api/follow", json={"training": name}).text
    return [json.loads(line) for line in told.splitlines()]


def test_training_tells_its_tests_and_leaves_a_report_and_teammates(client):
    text = start_text("rendezvous-2")
    job = {"text": text, "learner": "dqprm", "steps": 8_000, "seeds": 2, "settings": {"test_every": 2_000}}
    name = client.post("/api/train", json=job).json()["training"]
    told = follow(client, name)
    assert [own["now"] for own in told if "now" in own] == ["compiling", "training", "reviewing", "done"]
    tests = [own for own in told if "tests" in own]
    assert [own["step"] for own in tests] == [2_000, 4_000, 6_000, 8_000]
    runs = hk.train(hk.rendezvous(2), "dqprm", seeds=2, steps=8_000, settings={"test_every": 2_000})
    trials = [trial for run in runs for trial in run.all_tests if trial.step == 8_000]
    assert tests[-1]["tests"] == [[trial.policy, trial.test_steps, trial.success] for trial in trials]
    report = client.get(f"/report/{name}/1")
    assert "Episode replay" in report.text and "sandbox allow-scripts" in report.headers["content-security-policy"]
    assert "frame-ancestors 'self'" in report.headers["content-security-policy"]
    mates = {"mates": {"A1": "trained", "A2": "trained"}, "moves": [{}] * 60}
    assert client.post("/api/play", json={"text": text, "training": name, **mates}).json()["outcome"] == "completed"
    other = client.post("/api/play", json={"text": BUTTONS, "training": name, "mates": {"A1": "trained"}}).json()
    assert "refused" in other


def test_training_ends_as_on_the_command_line_with_a_last_review_of_the_team(client, studio):
    job = {"text": start_text("rendezvous-2"), "learner": "sweep", "steps": 8_000, "seeds": 1, "settings": {}}
    name = client.post("/api/train", json=job).json()["training"]
    assert follow(client, name)[-1]["now"] == "done"
    (policy,) = hk.load_policies(studio.trainings.all[name].policies)
    (run,) = hk.train(hk.rendezvous(2), "sweep", seeds=1, steps=8_000)
    assert policy.arrays.keys() == run.policy.arrays.keys()
    assert all((policy.arrays[key] == run.policy.arrays[key]).all() for key in policy.arrays)


def test_nothing_that_a_training_tells_while_it_is_followed_is_lost(tmp_path):
    async def story() -> list[bytes]:
        training, heard = TrainingProcess(None, tmp_path), []
        training.messages += [b"1\n", b"2\n"]
        async for chunk in training.follow():
            heard.append(chunk)
            if len(heard) == 1:
                training.messages += [b"3\n"]  # while the page reads
                training.is_over = True
        return heard

    assert b"".join(asyncio.run(story())) == b"1\n2\n3\n"


def test_training_stops_and_goes_on_as_if_it_had_not(client):
    job = {"text": start_text("rendezvous-2"), "learner": "dqprm", "steps": 400_000, "seeds": 1}
    name = client.post("/api/train", json=job).json()["training"]
    assert client.post("/api/steer", json={"training": name, "command": "stop"}).json() == {}
    assert client.post("/api/steer", json={"training": name, "command": "continue"}).json() == {}
    told = follow(client, name)
    assert [own["now"] for own in told if "now" in own][-1] == "done"
    assert "stopped" in [own.get("now") for own in told]
    steps = [own["step"] for own in told if "tests" in own]
    assert steps == [1_000 * number for number in range(1, 401)]
    (run,) = hk.train(hk.rendezvous(2), "dqprm", seeds=1, steps=400_000)
    last = [[trial.policy, trial.test_steps, trial.success] for trial in run.all_tests if trial.step == 400_000]
    assert [own for own in told if "tests" in own][-1]["tests"] == last


@pytest.mark.parametrize(
    "more",
    [
        {"learner": "sleep"},
        {"seeds": 0},
        {"seeds": 17},
        {"steps": "many"},
        {"settings": {"discount": 7}},
        {"settings": {"nonsense": 1}},
        {"text": BROKEN},
        {"text": "x = 1"},
        {"text": start_text("a machine alone")},
    ],
)
def test_a_training_that_makes_no_sense_is_refused_with_the_reason(client, more):
    job = {"text": BUTTONS, "learner": "dqprm", "steps": 1_000, "seeds": 1, **more}
    told = follow(client, client.post("/api/train", json=job).json()["training"])
    assert "refused" in told[-1] and "Traceback" not in told[-1]["refused"]


def test_reports_and_trainings_that_are_not_there_are_not_found(client):
    for path in ("/report/x/1", "/report/x/..", "/report/../1", "/report/x/%2e%2e"):
        assert client.get(path).status_code == 404
    for name in ("follow", "steer"):
        assert "refused" in client.post(f"/api/{name}", json={"training": "x", "command": "stop"}).json()


def test_a_training_is_ended_by_the_next_one(client):
    job = {"text": start_text("rendezvous-2"), "learner": "dqprm", "steps": 10_000_000, "seeds": 4}
    first = client.post("/api/train", json=job).json()["training"]
    second = client.post("/api/train", json={**job, "steps": 1_000, "seeds": 1}).json()["training"]
    assert follow(client, first)[-1] == {"now": "ended"}
    assert follow(client, second)[-1]["now"] == "done"


def test_files_are_listed_by_name_but_not_hidden_ones_nor_those_far_below(tmp_path):
    for name in ("b.toml", "a.json", "notes.md", ".git/c.toml", "one/two/three/d.toml", "one/two/three/four/e.toml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert Folder(tmp_path).files() == ["a.json", "b.toml", "one/two/three/d.toml"]


def test_a_walk_to_where_a_team_stalls_is_told_step_by_step():
    text = (Path(__file__).parent / "teams" / "silent.toml").read_text()
    told = describe_verdict(parse_subject(text))
    task, stall = parse_subject(text), told["stall"]
    assert not told["ok"] and stall["waits"] == ["A1 waits at (0, 2) for on", "A2 is done"]
    grid, last = task.grid, stall["steps"][-1]
    for before, after in zip(stall["steps"], stall["steps"][1:], strict=False):
        for one, other in zip(before["cells"], after["cells"], strict=True):
            (row, column), (next_row, next_column) = grid.row_column(one), grid.row_column(other)
            assert abs(row - next_row) + abs(column - next_column) <= 1
    assert last["closed"] == [0] and last["cells"][0] == 2 and {*last["states"]} == {"A1", "A2"}


def test_a_large_machine_has_an_excerpt_around_its_counterexample():
    chain = {(f"s{number}", f"e{number}"): f"s{number + 1}" for number in range(500)}
    machine = hk.RewardMachine(initial="s0", transitions=chain, final={"s500"})
    part = excerpt_of(machine, ["s0", "s7"])
    assert {*part.states} == {"s0", "s1", "s6", "s7", "s8"} and part.transitions["s7", "e7"] == "s8"
    assert len(excerpt_of(machine, [f"s{number}" for number in range(99)]).states) <= MOST_INTERESTING + 1
