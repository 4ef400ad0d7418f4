"""Real processes, their logs, and what the logs say afterwards."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import hocket as hk
from causal_tasks import made
from hocket.errors import FormatError, HocketError
from hocket.learn.dqprm import DqprmSettings
from hocket.learn.policies import Policy
from hocket.runtime.codec import MessageError, decode, encode
from hocket.runtime.host import Host
from hocket.runtime.launch import load_actions, run_team
from hocket.runtime.log import AgentLog, LogContents, read_log
from hocket.runtime.plan import Plan
from hocket.runtime.protocol import ACK, ASK, EVENT, LOCK, OFFER, REFUSE
from hocket.runtime.recording import causal_order, read_recording, verify
from hocket.runtime.settings import read_settings
from hocket.runtime.transport import make_keys
from walks import shortest_actions

TINY = """
name = "tiny"
slip = 0.0
map = \"\"\"
1.m.2
\"\"\"
[legend]
m = "mat"
2 = "porch"
[agents]
A1 = { start = "1", knows = ["here1", "meet"] }
A2 = { start = "2", knows = ["meet", "home"] }
[events]
here1 = "A1 at mat"
meet = "A1 and A2 at mat"
home = "A2 at porch"
[machine]
initial = "0"
final = ["3"]
[machine.transitions]
0 = { here1 = "1" }
1 = { meet = "2" }
2 = { home = "3" }
"""
MESSAGES = [
    (OFFER, 1, 5),
    (LOCK, 0, 3, 2, (1, 2), ((1, 4), (2, 1))),
    (REFUSE, 0, 3),
    (EVENT, 0, 3, 2, ((1, 300),)),
    (ACK, 129),
    (ASK, 2, 1, 0),
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> hk.Task:
    path = tmp_path_factory.mktemp("tiny") / "tiny.toml"
    path.write_text(TINY, encoding="utf-8")
    return hk.load_task(path)


@pytest.fixture(scope="module")
def finished(tiny, tmp_path_factory) -> Path:
    """Run a team once, to its end."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    outcome = run_team(tiny, shortest_actions(tiny), folder, pace=200, durable=False)
    assert outcome.complete
    return folder


@pytest.fixture
def copied(finished, tmp_path) -> Path:
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


# Messages and logs.


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_read_as_it_was_written(message):
    assert decode(encode(message)) == message


def test_invalid_messages_are_refused():
    rng = random.Random(3)
    for _ in range(2000):
        data = bytearray(encode(rng.choice(MESSAGES)))
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            decode(bytes(data[: rng.randrange(len(data) + 1)]))
        except MessageError:
            continue


def test_a_number_is_no_longer_than_the_events_of_the_team_need():
    offer = (OFFER, 1, 1 << 99)
    assert decode(encode(offer), events=100) == offer
    for data in (encode(offer), bytes([OFFER, 1]) + b"\xff" * 160_000 + b"\x01"):
        with pytest.raises(MessageError, match="a number that is too long"):
            decode(data)


def test_a_truncated_log_is_valid_up_to_its_last_complete_line(tmp_path):
    path, header = tmp_path / "A.log", {"agent": "A"}
    log = AgentLog(path, header, durable=False)
    entries = [("start", 1), ("decide", 0, 0, 1, ((1, 1),), 0), ("stop",)]
    for entry in entries:
        log.append([entry])
    log.close()
    whole = path.read_bytes()
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        lines = whole[:size].count(b"\n")
        again = AgentLog(path, header, durable=False)
        assert list(again.entries) == entries[: max(0, lines - 1)]
        again.append([("start", 2)])
        again.close()
        assert read_log(path).entries[-1] == ("start", 2)


def test_a_log_of_another_run_is_not_gone_on_with(tmp_path):
    AgentLog(tmp_path / "A.log", {"run": "1"}).close()
    with pytest.raises(FormatError, match="belongs to another run"):
        AgentLog(tmp_path / "A.log", {"run": "2"})


# Runs.


def test_a_run_completes_and_is_verified(finished):
    found = verify(finished)
    assert found.ok and found.complete and found.trace == ("here1", "meet", "home")
    names = {path.name for path in finished.iterdir()}
    assert {"run.json", "A1.log", "A2.log", "world.log"} <= names and not any(name.endswith(".pid") for name in names)


def disturb(folder: Path, names: list[str], seed: int, done: threading.Event) -> None:
    """Kill and freeze processes, a few times."""
    rng = random.Random(seed)
    for _ in range(3):
        if done.wait(0.2 + rng.random() * 0.5):
            return
        try:
            process = int((folder / f"{rng.choice(names)}.pid").read_text())
            os.kill(process, signal.SIGKILL if rng.random() < 0.7 else signal.SIGSTOP)
            if not done.wait(0.1):
                os.kill(process, signal.SIGCONT)
        except (OSError, ValueError):
            continue


@pytest.mark.parametrize("seed", range(10))
def test_runs_with_kills_freezes_and_losses_complete_and_are_verified(tiny, tmp_path, seed):
    folder, done = tmp_path / "run", threading.Event()
    thread = threading.Thread(target=disturb, args=(folder, ["A1", "A2", "world"], seed, done))
    thread.start()
    outcome = run_team(tiny, shortest_actions(tiny), folder, pace=8, loss=0.2, seed=seed, steps=100_000)
    done.set()
    thread.join()
    found = verify(folder)
    assert outcome.complete and found.ok, found.explain()


def test_a_run_that_was_stopped_goes_on_where_it_was(tiny, tmp_path):
    said = []

    def stop() -> bool:
        return any(status.get("events") for _, status in said)

    outcome = run_team(
        tiny, shortest_actions(tiny), tmp_path / "run", pace=2, durable=False, stop=stop,
        watch=lambda name, status: said.append((name, status)),
    )  # fmt: skip
    before = verify(tmp_path / "run")
    assert before.ok and not outcome.complete
    assert run_team(tiny, {}, tmp_path / "run", pace=100, durable=False).complete
    after = verify(tmp_path / "run")
    assert after.ok and after.trace[: len(before.trace)] == before.trace and sum(after.kills.values()) == 0


def test_a_team_that_may_not_step_any_more_ends_without_completing(tiny, tmp_path):
    assert not run_team(tiny, shortest_actions(tiny), tmp_path / "run", pace=100, steps=1, durable=False).complete


# Verification.


def test_every_changed_byte_is_found(copied):
    rng = random.Random(1)
    for name in ("A1", "A2", "world"):
        path = copied / f"{name}.log"
        whole = path.read_bytes()
        for place in rng.sample(range(len(whole)), 25):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << rng.randrange(8)]) + whole[place + 1 :])
            assert not verify(copied).ok
        for place in rng.sample(range(len(whole)), 10):
            path.write_bytes(whole[:place])
            assert not verify(copied).ok
        path.write_bytes(whole)
    assert verify(copied).ok


def rewritten(folder: Path, name: str, change) -> None:
    """Change the entries of a log, with new checksums, and the note of how it ended."""
    path = folder / f"{name}.log"
    contents = read_log(path)
    path.unlink()
    log = AgentLog(path, contents.header, durable=False)
    log.append(change(list(contents.entries)))
    log.close()
    document = json.loads((folder / "run.json").read_text())
    document["ended"][name] = log.check
    (folder / "run.json").write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("A1", lambda entries: [e for e in entries if e[0] != "decide"], "undefined in its machine"),
        ("A2", lambda entries: [e for e in entries if e[0] != "decide"], "has not decided"),
        ("A1", lambda entries: [e for e in entries if e[0] != "promise"], "without a promise of A1"),
        ("A1", lambda entries: [e for e in entries for _ in range(1 + (e[0] == "hear"))], "or hears of it twice"),
        ("A1", lambda entries: [("start", 7), *entries[1:]], "another incarnation"),
        ("A1", lambda entries: [*entries, ("nonsense",)], "makes no sense"),
        ("A1", lambda entries: [*entries, ()], "makes no sense"),
        ("A1", lambda entries: [*entries, ("hear", 1, 1, 1, 0, (("x", 1),))], "makes no sense"),
        ("A2", lambda entries: [*entries, ("release", 0, 9)], "is released from what it has not promised"),
        ("world", lambda entries: [e for e in entries if e[0] != "move"], "condition does not hold"),
        ("world", lambda entries: [(*e[:5], 0) if e[0] == "move" else e for e in entries], "does not lead"),
    ],
)
def test_logs_that_contradict_each_other_are_refused_in_words(copied, name, change, message):
    rewritten(copied, name, change)
    found = verify(copied)
    assert not found.ok and message in found.explain()


@pytest.mark.parametrize(
    "entry", [("decide", 0, 0, 99, [], 0), ("hear", 1, 1, 1, 0, [["x", 1]]), ("start", "again"), ("release", 99, 0)]
)
def test_an_agent_does_not_go_on_from_a_log_that_makes_no_sense(copied, entry):
    rewritten(copied, "A1", lambda entries: [*entries, entry])
    with pytest.raises(FormatError, match=r"A1\.log: has an entry that makes no sense"):
        Host(read_settings(copied)[0], "A1", copied / "A1.log")


def test_a_run_file_that_was_changed_is_refused(copied):
    text = (copied / "run.json").read_text()
    (copied / "run.json").write_text(text.replace('"meet": "2"', '"meet": "1"'))
    with pytest.raises(HocketError, match=r"run\.json"):
        verify(copied)
    (copied / "run.json").write_text("{}")
    with pytest.raises(HocketError, match="is not a file that hocket run has written"):
        verify(copied)


# The page of a run.


def test_the_entries_of_all_logs_are_put_in_an_order_that_agrees_with_each(finished):
    frames = read_recording(finished).frames
    events = [(frame.name, frame.kind, frame.event) for frame in frames if frame.event]
    assert events.index(("A1", "decide", "here1")) < events.index(("A1", "promise", "meet"))
    assert events.index(("A1", "promise", "meet")) < events.index(("A2", "decide", "meet"))
    heard = next(frame for frame in frames if frame.kind == "hear")
    assert frames[heard.cause].kind == "decide" and frames[heard.cause].event == heard.event == "meet"
    walked = [frame.cell for frame in frames if frame.name == "A1" and frame.cell is not None]
    assert walked[:2] == [1, 2] and len(frames) == sum(
        len(read_log(finished / f"{name}.log").entries) for name in ("A1", "A2", "world")
    )


def test_an_agent_agrees_on_its_way_on_what_it_agrees_on_anywhere():
    plan = Plan.of(made("0 x done", "A: x; B: x", "x: A"), {"x": ["A", "B"]})
    entries = {
        "A": [("start", 1), ("promise", 0, 1, 0, (1, 1), (), 1)],  # where its first move led
        "B": [("start", 1), ("decide", 0, 1, 0, (), 0)],  # before it has heard that it has moved
        "world": [("start",), ("move", "B", 1, 0, 0, 3), ("move", "A", 1, 0, 0, 2)],
    }
    logs = {name: LogContents({}, tuple(rows), (0.0,) * len(rows), "", 0, False) for name, rows in entries.items()}
    order = causal_order(plan, logs)
    assert order.index(("world", 2)) < order.index(("A", 1)) < order.index(("B", 1))


def test_report_shows_a_lane_for_each_agent(hocket, finished, tmp_path):
    code, out, _ = hocket("report", finished, "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert code == 0 and out.strip() == str(tmp_path / "page.html")
    promises = sum(frame.kind == "promise" for frame in read_recording(finished).frames)  # some may be released
    assert page.count('class="mark decide"') == 3 and page.count('class="heard"') == 1
    assert page.count('class="hold"') == promises >= 1
    assert "Verified: the trace here1, meet, home" in page
    for name in ("http-equiv", "http://www.w3.org/2000/svg"):  # the latter names a kind of element, and is not fetched
        page = page.replace(name, "")
    assert "http" not in page


def test_a_run_can_be_looked_at_in_foxglove(hocket, finished, tmp_path):
    from mcap.reader import make_reader

    code, out, _ = hocket("report", finished, "-o", tmp_path / "page.html", "--mcap", tmp_path / "run.mcap")
    assert code == 0 and out.split()[-1] == str(tmp_path / "run.mcap")
    with (tmp_path / "run.mcap").open("rb") as file:
        rows = [(channel.topic, json.loads(own.data)) for _, channel, own in make_reader(file).iter_messages()]
    assert len(rows) == len(read_recording(finished).frames)
    assert [value["pose"]["position"]["x"] for topic, value in rows if topic == "/A1/pose"][:2] == [1.5, 2.5]
    assert "A1 decides: here1 has happened" in [value.get("message") for _, value in rows]


# Several machines.


def test_agents_on_several_machines_complete_their_task_over_tls(tiny, tmp_path):
    make_keys(tmp_path / "keys", ["A1", "A2", "world"])
    ports = free_ports(3)
    agents = "\n".join(f'{name} = "127.0.0.1:{port}"' for name, port in zip(("A1", "A2"), ports, strict=False))
    text = f'run = "today"\nkeys = "keys"\nworld = "127.0.0.1:{ports[2]}"\n[agents]\n{agents}\n'
    (tmp_path / "peers.toml").write_text(text)
    outcomes, actions = {}, shortest_actions(tiny)

    def run(name: str) -> None:
        outcomes[name] = run_team(
            tiny, actions, tmp_path / name, agent=name, peers=tmp_path / "peers.toml", pace=50, durable=False,
            stop=lambda: name == "world" and {"A1", "A2"} <= outcomes.keys(),
        )  # fmt: skip

    threads = [threading.Thread(target=run, args=(name,)) for name in ("world", "A1", "A2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes["A1"].complete and outcomes["A2"].complete
    for name in ("A2", "world"):
        shutil.copy(tmp_path / name / f"{name}.log", tmp_path / "A1")
    found = verify(tmp_path / "A1")
    assert found.ok and found.complete, found.explain()


def free_ports(count: int) -> list[int]:
    """Find ports that nobody listens at."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for own in sockets:
            own.bind(("127.0.0.1", 0))
        return [own.getsockname()[1] for own in sockets]


# What is refused.


def test_a_task_that_does_not_tolerate_delays_needs_agreement(tmp_path):
    task = hk.load_task("drawbridge")
    with pytest.raises(HocketError, match=r"A2: up, A1: lift \(--agree\)"):
        run_team(task, {}, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_with_something_else_in_it_is_left_alone(tiny, finished, tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(HocketError, match="is not empty"):
        run_team(tiny, {}, tmp_path)
    with pytest.raises(HocketError, match="of another task"):
        run_team("buttons", {}, finished)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "run: must be a name"),
        ('run = "a"', "agents: has no address of A1"),
        ('run = "a"\n[agents]\nA1 = "x:1"', "has no address of A2"),
        ('run = "a"\n[agents]\nA1 = "x:1"\nA2 = "y"', "an address is HOST:PORT"),
        ('run = "a"\n[agents]\nA1 = "x:1"\nA2 = "y:2"\nA3 = "z:3"', "agent 'A3' does not exist"),
        ('run = "a"\n[agents]\nA1 = "x:1"\nA2 = "y:2"', "must be the address of the world"),
        ("runs = 1", "runs: unknown key"),
        ("run = ", "peers.toml"),
    ],
)
def test_a_file_of_peers_that_makes_no_sense_is_refused(tiny, tmp_path, text, message):
    (tmp_path / "peers.toml").write_text(text)
    with pytest.raises(HocketError, match=message):
        run_team(tiny, {}, tmp_path / "run", agent="A1", peers=tmp_path / "peers.toml")


def test_one_agent_needs_peers_and_must_exist(tiny, tmp_path):
    with pytest.raises(HocketError, match="--agent and --peers go together"):
        run_team(tiny, {}, tmp_path, agent="A1")
    (tmp_path / "peers.toml").write_text('run = "a"')
    with pytest.raises(HocketError, match="agent 'A9' does not exist"):
        run_team(tiny, {}, tmp_path, agent="A9", peers=tmp_path / "peers.toml")


# The commands.


@pytest.fixture(scope="module")
def trained(tiny, tmp_path_factory) -> Path:
    """Write a policy as a learner would have left it."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "policies").mkdir()
    tables = shortest_actions(tiny)
    states = max(len(table) for table in tables.values())
    q = np.zeros((len(tables), tiny.grid.cells, 5, states), np.float32)
    for place, table in enumerate(tables.values()):
        for action in range(5):
            q[place, :, action, : len(table)] = (table.T >> action) & 1
    settings = asdict(DqprmSettings())
    for seed, arrays in ((3, {"q": -q}), (1, {"q": q})):
        Policy(tiny.name, tiny.digest, "dqprm", seed, settings, arrays).save(folder / "policies" / f"{9 - seed}.npz")
    return folder


def test_the_first_runs_policy_is_played(tiny, trained):
    for agent, table in shortest_actions(tiny).items():
        assert np.array_equal(load_actions(trained, tiny)[agent], table)


def test_a_folder_without_a_fitting_policy_is_refused(trained, tmp_path):
    with pytest.raises(HocketError, match=r"belong to other tasks \(tiny,"):
        load_actions(trained, hk.load_task("buttons"))
    with pytest.raises(HocketError, match="has no policies in it"):
        load_actions(tmp_path, hk.load_task("buttons"))
    with pytest.raises(HocketError, match="is not a folder of runs"):
        load_actions(tmp_path / "nowhere", hk.load_task("buttons"))


def test_run_and_verify_say_how_it_went(hocket, tiny, trained, tmp_path):
    hk.save_task(tiny, tmp_path / "tiny.toml")
    target, out = tmp_path / "tiny.toml", tmp_path / "run"
    words = ("--policies", trained, "--out", out, "--pace", "100", "--durability", "none")
    code, said, _ = hocket("run", target, *words)
    assert code == 0 and "A1: here1" in said and "The task is complete" in said
    code, said, _ = hocket("verify", out)
    assert code == 0 and said.startswith("Verified: the trace here1, meet, home is a trace of the team machine")
    code, said, _ = hocket("verify", out, "--json")
    assert json.loads(said)["complete"]
    (out / "A1.log").write_bytes((out / "A1.log").read_bytes()[:-9])
    code, said, _ = hocket("verify", out)
    assert code == 1 and said.startswith("Not verified: A1.log does not end as it did")


@pytest.mark.parametrize(
    "words",
    [
        ["run", "buttons"],
        ["run", "buttons", "--policies", "nowhere", "--out", "run"],
        ["run", "buttons", "--pace", "0", "--policies", "x"],
        ["run", "drawbridge", "--policies", "x"],
        ["verify", "nowhere"],
    ],
)
def test_what_cannot_be_run_is_one_sentence(hocket, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    code, _, err = hocket(*words)
    assert code == 2 and err.startswith("hocket: ") and err.count("\n") == 1


def test_a_process_of_a_run_loads_neither_the_compiler_nor_what_draws():
    code = "import sys, hocket.runtime.worker; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numba", "scipy", "matplotlib", "rich", "tyro"} & {*loaded}
