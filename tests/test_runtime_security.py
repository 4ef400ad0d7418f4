"""Who may join a run: certificates, greetings, and what does not get through."""

import asyncio
import json
import socket
import ssl
import stat
from pathlib import Path

import pytest

import hocket as hk
from hocket.errors import HocketError
from hocket.runtime.codec import encode
from hocket.runtime.protocol import ACK
from hocket.runtime.settings import RunSettings
from hocket.runtime.transport import Transport, dial, make_keys, tls_context

TASK = hk.load_task("rendezvous-2")
DECIDERS = {event: tuple(own) for event, own in TASK.controllers.items()}


def free_port() -> int:
    """Find a port that nobody listens at."""
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return own.getsockname()[1]


PORT = free_port()


@pytest.fixture(scope="module")
def keys(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("keys") / "keys"
    make_keys(folder, ["A1", "A2"])
    return folder


@pytest.fixture(scope="module")
def foreign(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("foreign") / "keys"
    make_keys(folder, ["A1", "A2"])
    return folder


def greeting(agent: str, run: str = "today") -> dict[str, str]:
    return {**RunSettings(TASK, run, DECIDERS).greeting, "agent": agent}


async def hear(keys: Path | None, said: bytes, context: ssl.SSLContext | None) -> tuple[list, bytes]:
    """Let A1 listen, somebody connect and say something; return what A1 takes in, and what it answers."""
    addresses, heard = {"A1": f"127.0.0.1:{PORT}", "A2": f"127.0.0.1:{PORT + 1}"}, []
    settings = RunSettings(TASK, "today", DECIDERS, addresses, None if keys is None else str(keys))
    transport = Transport(settings, "A1", lambda *own: heard.append(own))
    await transport.start()
    answer = b""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT, ssl=context)
        writer.write(said)
        await writer.drain()
        answer = await asyncio.wait_for(reader.readline(), 5)
        if answer == b"ok\n":
            while not heard:
                await asyncio.sleep(0.005)
        else:
            await reader.read()  # until it hangs up
        writer.close()
    except (OSError, ssl.SSLError):
        pass
    await transport.close()
    await asyncio.sleep(0)
    return heard, answer


def frames(agent: str, run: str = "today") -> bytes:
    """Say who one is, and then that an event was heard."""
    message = encode((ACK, 1))
    return json.dumps(greeting(agent, run)).encode() + b"\n" + len(message).to_bytes(4, "big") + message


def client(folder: Path, agent: str, authority: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations((authority or folder) / "ca.crt")
    context.load_cert_chain(folder / f"{agent}.crt", folder / f"{agent}.key")
    return context


def test_an_agent_with_its_certificate_is_heard(keys):
    heard, answer = asyncio.run(hear(keys, frames("A2"), client(keys, "A2")))
    assert (heard, answer) == ([(1, (ACK, 1))], b"ok\n")


def test_a_connection_without_tls_is_refused(keys):
    heard, answer = asyncio.run(hear(keys, frames("A2"), None))
    assert heard == [] and not answer.startswith(b"ok")


def test_a_connection_with_a_certificate_of_another_authority_is_refused(keys, foreign):
    heard, answer = asyncio.run(hear(keys, frames("A2"), client(foreign, "A2", authority=keys)))
    assert (heard, answer) == ([], b"")


def test_a_connection_without_a_certificate_is_refused(keys):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(keys / "ca.crt")
    assert asyncio.run(hear(keys, frames("A2"), context)) == ([], b"")


def test_an_agent_can_send_messages_only_in_its_own_name(keys):
    heard, answer = asyncio.run(hear(keys, frames("A1"), client(keys, "A2")))
    assert (heard, answer) == ([], b"A1 was greeted as A1 with the certificate of another name\n")


@pytest.mark.parametrize("name", ["A1", "world"])
def test_nobody_is_spoken_to_who_has_the_certificate_of_another(keys, name):
    async def call() -> None:
        address = f"127.0.0.1:{PORT}"
        settings = RunSettings(TASK, "today", DECIDERS, {"A1": address, "world": address}, str(keys))
        transport = Transport(settings, "A1", lambda *_: None)
        await transport.start()
        try:
            _, writer = await dial(settings, "A2", name)
            writer.close()
        finally:
            await transport.close()

    if name == "A1":
        asyncio.run(call())
    else:
        with pytest.raises(ConnectionError, match="is not that of world"):
            asyncio.run(call())


@pytest.mark.parametrize("secure", [True, False])
def test_messages_of_an_earlier_run_are_rejected(keys, secure):
    folder, context = (keys, client(keys, "A2")) if secure else (None, None)
    heard, answer = asyncio.run(hear(folder, frames("A2", run="yesterday"), context))
    assert (heard, answer) == ([], b"A1 is of another run\n")


@pytest.mark.parametrize("said", [b"\n", b"[]\n", b"{}\n", b'{"agent": 7}\n', b"\xff\xfe\n"])
def test_whoever_does_not_say_who_it_is_is_not_heard(said):
    heard, answer = asyncio.run(hear(None, said, None))
    assert heard == [] and not answer.startswith(b"ok")


def test_agents_of_another_task_are_not_heard():
    other = {**greeting("A2"), "digest": "0" * 64}
    assert asyncio.run(hear(None, json.dumps(other).encode() + b"\n", None)) == ([], b"A1 is of another task\n")


def test_plain_tcp_to_other_machines_needs_the_option_insecure():
    settings = RunSettings(TASK, "today", DECIDERS, {"A1": f"0.0.0.0:{PORT}"})
    transport = Transport(settings, "A1", lambda *_: None)
    with pytest.raises(HocketError, match="needs certificates"):
        asyncio.run(transport.start())


def test_private_keys_can_be_read_only_by_their_owner_and_nothing_is_overwritten(keys):
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in keys.glob("*.key"))
    assert stat.S_IMODE(keys.stat().st_mode) == 0o700
    before = (keys / "A1.key").read_bytes()
    assert [path.name for path in make_keys(keys, ["A1", "A3"])] == ["A3.key", "A3.crt"]
    assert (keys / "A1.key").read_bytes() == before


def test_a_folder_without_certificates_is_named(tmp_path):
    with pytest.raises(HocketError, match="has no valid certificate for A1"):
        tls_context(tmp_path, "A1", server=True)


def test_keys_makes_them_for_a_task(hocket, tmp_path):
    code, out, _ = hocket("keys", "buttons", "--out", tmp_path / "keys")
    assert code == 0 and len(out.split()) == 10 and (tmp_path / "keys" / "world.crt").exists()
    (tmp_path / "keys" / "ca.key").write_text("nonsense")
    code, _, err = hocket("keys", "rendezvous-4", "--out", tmp_path / "keys")
    assert code == 2 and err.startswith("hocket: ") and err.count("\n") == 1
