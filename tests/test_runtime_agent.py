"""An agent in one's own loop: steps, holding, what it remembers, and what it refuses."""

import socket
import time
from contextlib import ExitStack

import pytest

import hocket as hk
from hocket.errors import HocketError
from hocket.runtime.log import read_log
from hocket.runtime.recording import verify
from hocket.runtime.transport import make_keys

TASK = hk.load_task("rendezvous-2")
MEETING = 34  # the cell of the meeting place


def make(folder, name: str, **more) -> hk.runtime.Agent:
    peers = {agent: str(folder / agent) for agent in TASK.agents}
    return hk.runtime.Agent(TASK, name, peers=peers, log=folder / f"{name}.log", durable=False, **more)


def free_ports(count: int) -> list[int]:
    """Find ports that nobody listens at."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for own in sockets:
            own.bind(("127.0.0.1", 0))
        return [own.getsockname()[1] for own in sockets]


def until(holds) -> None:
    """Wait until something holds."""
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_agents_that_stand_where_they_meet_meet(tmp_path):
    with make(tmp_path, "A1") as one, make(tmp_path, "A2") as other:
        assert one.step(MEETING) == other.step(MEETING) == "stay"
        until(lambda: "r" in one.events and "r" in other.events)
        assert one.events == ("r1", "r") and one.state == "2" and not one.holding and not one.done
        assert one.step(97) == "stay" and one.done and one.events[-1] == "g1"
        assert one.finished
    found = verify(tmp_path)
    assert found.ok and found.trace[-2:] == ("r", "g1") and not found.complete


def test_an_agent_that_moves_agrees_on_nothing(tmp_path):
    with make(tmp_path, "A1", policy=lambda seen: "up") as one, make(tmp_path, "A2") as other:
        assert one.step(MEETING) == "up"
        other.step(MEETING)
        until(lambda: other.events == ("r2",))
        time.sleep(0.1)
        assert one.events == ("r1",) and "r" not in other.events


def test_an_agent_goes_on_when_what_it_has_promised_has_happened(tmp_path):
    def policy(seen: tuple[int, str]) -> str:
        return "up" if seen[1] == "2" else "stay"

    with make(tmp_path, "A1", policy=policy) as one, make(tmp_path, "A2") as other:
        one.step(MEETING)
        other.step(MEETING)
        until(lambda: "r" in one.events)
        assert one.step(MEETING) == "up"


def test_an_agent_that_comes_back_knows_what_it_knew(tmp_path):
    with make(tmp_path, "A1") as one:
        one.step(MEETING)
        assert one.events == ("r1",)
    with make(tmp_path, "A1") as one:
        assert one.events == ("r1",) and one.state == "1"
    kinds = [entry[0] for entry in read_log(tmp_path / "A1.log").entries]
    assert kinds == ["start", "decide", "stop", "start", "stop"]


def test_a_policy_gets_the_observation_and_the_state_of_the_machine(tmp_path):
    seen = []
    with make(tmp_path, "A1", policy=lambda own: seen.append(own) or "stay") as one:
        one.step(5)
        one.step(MEETING)
    assert seen == [(5, "0"), (MEETING, "1")]


def test_conditions_of_ones_own_world_take_the_place_of_cells(tmp_path):
    with make(tmp_path, "A1", conditions=lambda seen: [seen]) as one:
        one.step("r1")
        assert one.events == ("r1",)
        with pytest.raises(HocketError, match="A1 does not control 'g2'"):
            one.step("g2")


@pytest.mark.parametrize("observation", [-1, 100, "corner", None])
def test_an_observation_that_is_no_cell_is_refused(tmp_path, observation):
    with make(tmp_path, "A1") as one, pytest.raises(HocketError, match="must be a cell from 0 to 99"):
        one.step(observation)


@pytest.mark.parametrize("secure", [False, True])
def test_agents_meet_over_zenoh_too(tmp_path, secure):
    ports = free_ports(2)
    text = 'run = "today"\ntransport = "zenoh"\n' + ('keys = "keys"\n' if secure else "")
    text += "[agents]\n" + "".join(f'{a} = "127.0.0.1:{p}"\n' for a, p in zip(("A1", "A2"), ports, strict=True))
    (tmp_path / "peers.toml").write_text(text)
    if secure:
        make_keys(tmp_path / "keys", ["A1", "A2"])

    def agent(name: str) -> hk.runtime.Agent:
        log = tmp_path / f"{name}.log"
        return hk.runtime.Agent(TASK, name, peers=tmp_path / "peers.toml", log=log, durable=False)

    with agent("A1") as one, agent("A2") as other:
        one.step(MEETING)
        other.step(MEETING)
        until(lambda: "r" in one.events and "r" in other.events)


def test_what_makes_no_agent_is_refused(tmp_path):
    with pytest.raises(HocketError, match="agent 'A7' does not exist"):
        make(tmp_path, "A7")
    with pytest.raises(HocketError, match="got none of A2"):
        hk.runtime.Agent(TASK, "A1", peers={"A1": "x:1"}, log=tmp_path / "log")
    with pytest.raises(HocketError, match="cannot listen at"):
        hk.runtime.Agent(
            TASK, "A1", peers={"A1": str(tmp_path / "no" / "where"), "A2": "y:1"}, log=tmp_path / "log", durable=False
        )


def test_what_cannot_be_logged_has_not_happened_and_nobody_is_told(tmp_path):
    class Full:
        """A file on a full disk."""

        def write(self, data: bytes) -> int:
            return len(data) // 2

        def close(self) -> None:
            pass

    with make(tmp_path, "A1") as one, make(tmp_path, "A2") as other:
        other._host.log.file.close()
        other._host.log.file = Full()
        with pytest.raises(HocketError, match=r"A2\.log: cannot be written: No space left on device"):
            other.step(MEETING)
        one.step(MEETING)
        time.sleep(0.2)
        assert one.events == ("r1",) and other.events == ()
