"""Messages between processes: Unix sockets on one machine, TCP with TLS between several; or zenoh.

An agent connects to each agent that it sends messages to. It first sends a greeting with its name, run and task; its
certificate, signed by the run's own authority, must have the same name. A message that cannot be sent is dropped: the
protocol sends it again. Over zenoh, sessions listen at the agents' addresses and connect to those of the others,
without multicast; keys begin with a hash of the greeting, so that messages of other runs are not received.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from hocket.errors import FormatError, HocketError, SettingsError, needs_extra
from hocket.runtime.codec import LARGEST_MESSAGE, MessageError, decode, encode, names_known_agents_and_events
from hocket.runtime.protocol import Message
from hocket.runtime.settings import RunSettings

LENGTH = 4  # bytes of a frame's length
LARGEST_GREETING = 10_000  # bytes
TIMEOUT = 5.0  # seconds for a connection or a greeting
RETRY = 0.2  # seconds until a connection that failed is tried again
LARGEST_BUFFER = 10_000_000  # bytes that may wait to be sent to one agent
ZENOH: dict[str, object] = {"mode": "peer", "connect/exit_on_failure": False, "connect/timeout_ms": 0}
ZENOH |= {f"scouting/{method}/enabled": False for method in ("multicast", "gossip")}
LOOPBACK = ("127.0.0.1", "::1", "localhost")

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]


def make_keys(folder: str | Path, names: Iterable[str], days: int = 365) -> list[Path]:
    """Make a certificate for each name, signed by the folder's own authority, which is made if there is none.

    Existing files are kept. Returns the files that were written; give each machine `ca.crt`, and `.crt` and `.key` of
    its agent only. Needs the extra `keys`: in a clone, pip install ".[keys]".
    """
    with needs_extra("a certificate", "keys"):
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID
    folder, written = Path(folder), list[Path]()
    now = datetime.datetime.now(datetime.UTC)

    def certify(name: str, issuer: x509.Name, signer: ec.EllipticCurvePrivateKey | None) -> None:
        """Make a key and its certificate; without a signer it is self-signed."""
        key, pem = ec.generate_private_key(ec.SECP256R1()), serialization.Encoding.PEM
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
        builder = builder.not_valid_after(now + datetime.timedelta(days=days))
        builder = builder.add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
        certificate = builder.sign(signer or key, hashes.SHA256())
        secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        for suffix, data, mode in (("key", secret, 0o600), ("crt", certificate.public_bytes(pem), 0o644)):
            written.append(folder / f"{name}.{suffix}")
            written[-1].touch(mode, exist_ok=False)
            written[-1].write_bytes(data)

    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (folder / "ca.key").exists():
            certify("ca", x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")]), None)
        signer = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
        authority = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes()).subject
        if not isinstance(signer, ec.EllipticCurvePrivateKey):
            raise FormatError("is not a key that hocket keys has made", path=folder / "ca.key")
        for name in names:
            if not (folder / f"{name}.key").exists():
                certify(name, authority, signer)
    except (OSError, ValueError, TypeError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"cannot hold keys: {getattr(error, 'strerror', None) or error}", path=folder) from None
    return written


def tls_context(keys: str | Path | None, agent: str, *, server: bool) -> ssl.SSLContext | None:
    """Make the TLS context, if there are keys: both sides show a certificate of the run's own authority."""
    if keys is None:
        return None
    folder = Path(keys)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the name in a certificate is an agent's, and is compared with the greeting
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_verify_locations(folder / "ca.crt")
        context.load_cert_chain(folder / f"{agent}.crt", folder / f"{agent}.key")
    except (OSError, ssl.SSLError) as error:
        raise FormatError(f"has no valid certificate for {agent}: {error}", path=folder) from None
    return context


def split_address(address: str, key: str = "peers") -> tuple[str, int]:
    """Read HOST:PORT."""
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):
        raise SettingsError(f"{key}: an address is HOST:PORT, got {address!r}")
    return host.strip("[]"), int(port)


def listening_address(settings: RunSettings, name: str) -> tuple[str, int]:
    """Return where to listen; other machines may connect only with certificates, or if the settings are insecure."""
    host, port = split_address(address := settings.addresses[name])
    if settings.keys is None and host not in LOOPBACK and not settings.insecure:
        rule = "TCP beyond this machine needs certificates (hocket keys), or --insecure"
        raise SettingsError(f"{rule}, got the address {address}")
    return host, port


async def listen(settings: RunSettings, name: str, handle: Handler) -> asyncio.Server:
    """Listen at the path of a Unix socket or at HOST:PORT."""
    context, address = tls_context(settings.keys, name, server=True), settings.addresses[name]
    try:
        if "/" in address:
            Path(address).unlink(missing_ok=True)
            return await asyncio.start_unix_server(handle, address, limit=LARGEST_GREETING)  # type: ignore[arg-type]
        host, port = listening_address(settings, name)
        return await asyncio.start_server(handle, host, port, ssl=context, limit=LARGEST_GREETING)  # type: ignore[arg-type]
    except OSError as error:
        raise HocketError(f"cannot listen at {address}: {error.strerror or error}") from None


async def dial(settings: RunSettings, agent: str, name: str) -> Streams:
    """Connect an agent to the Unix socket or to HOST:PORT of another process, and send the greeting."""
    context, address = tls_context(settings.keys, agent, server=False), settings.addresses[name]
    if "/" in address:
        reader, writer = await asyncio.open_unix_connection(address)
    else:
        reader, writer = await asyncio.open_connection(*split_address(address), ssl=context)
        if context is not None and certified_name(writer) != name:
            writer.close()
            raise ConnectionError(f"{address} is not that of {name}")
    writer.write(json.dumps({**settings.greeting, "agent": agent}).encode() + b"\n")
    await writer.drain()
    return reader, writer


def certified_name(writer: asyncio.StreamWriter) -> str | None:
    """Read the name in the certificate at the other end of a connection; None without TLS."""
    subject = (writer.get_extra_info("peercert") or {}).get("subject", ())
    return next((str(value) for part in subject for key, value in part if key == "commonName"), None)


async def receive_greeting(settings: RunSettings, name: str, streams: Streams) -> tuple[str, str]:
    """Return the name in the greeting of a new connection, and why the connection is refused, if it is."""
    greeting: Any = None
    with suppress(ValueError):
        greeting = json.loads(await asyncio.wait_for(streams[0].readline(), TIMEOUT))
    greeting = greeting if isinstance(greeting, dict) else {}
    sender = str(greeting.get("agent", ""))
    for key, thing in (("digest", "task"), ("run", "run"), ("deciders", "set of deciders")):
        if greeting.get(key) != settings.greeting[key]:
            return sender, f"{name} is of another {thing}"
    if sender not in settings.task.agents:
        return sender, f"{name} knows no such agent"
    if settings.keys is not None and certified_name(streams[1]) != sender:
        return sender, f"{name} was greeted as {sender[:80]} with the certificate of another name"
    return sender, ""


class Transport:
    """An agent's connections to all others."""

    def __init__(self, settings: RunSettings, agent: str, receive: Callable[[int, Message], None]) -> None:
        self.settings, self.plan, self.agent, self.receive = settings, settings.plan, agent, receive
        self.random = Random()  # draws the messages that are lost on purpose
        self.writers: dict[int, asyncio.StreamWriter] = {}
        self.connecting: dict[int, asyncio.Task[None]] = {}
        self.incoming: set[asyncio.StreamWriter] = set()
        self.refused: dict[str, str] = {}  # agent -> why it refuses a connection
        self.bytes_sent = 0

    async def start(self) -> None:
        """Listen."""
        self.server = await listen(self.settings, self.agent, self._listen)

    def take(self, sender: int, data: bytes) -> None:
        """Receive a message, unless it names agents or events that do not exist."""
        message = decode(data, len(self.plan.events))
        if names_known_agents_and_events(message, self.plan):
            self.receive(sender, message)

    def send(self, receiver: int, message: Message) -> None:
        """Send a message, unless it is to be lost on purpose."""
        if not self.settings.loss or self.random.random() >= self.settings.loss:
            self.post(receiver, encode(message))

    def post(self, receiver: int, data: bytes) -> None:
        """Write to an agent if there is a connection, and otherwise begin to make one."""
        writer = self.writers.get(receiver)
        if writer is None or writer.is_closing():
            if receiver not in self.connecting:
                self.connecting[receiver] = asyncio.get_running_loop().create_task(self._connect(receiver, data))
        elif writer.transport.get_write_buffer_size() < LARGEST_BUFFER:
            writer.write(len(data).to_bytes(LENGTH, "big") + data)
            self.bytes_sent += len(data)

    async def _connect(self, receiver: int, data: bytes) -> None:
        name = self.plan.agents[receiver]
        try:
            reader, writer = await asyncio.wait_for(dial(self.settings, self.agent, name), TIMEOUT)
            answer = await asyncio.wait_for(reader.read(LARGEST_GREETING), TIMEOUT)
            if answer != b"ok\n":
                self.refused[name] = answer.decode(errors="replace").strip() or "it hangs up"
                writer.close()
                raise ConnectionError
            self.refused.pop(name, None)
            self.writers[receiver] = writer
            self.post(receiver, data)
        except OSError:
            await asyncio.sleep(RETRY)
        finally:
            self.connecting.pop(receiver, None)

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Receive the messages of one agent, after its greeting."""
        self.incoming.add(writer)
        try:
            sender, refusal = await receive_greeting(self.settings, self.agent, (reader, writer))
            writer.write(f"{refusal or 'ok'}\n".encode())
            await writer.drain()
            while not refusal:
                size = int.from_bytes(await reader.readexactly(LENGTH), "big")
                if size > LARGEST_MESSAGE:
                    break
                self.take(self.plan.agents.index(sender), await reader.readexactly(size))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError, MessageError):
            pass  # the other side closes the connection or sends invalid bytes, or this process ends
        finally:
            self.incoming.discard(writer)
            writer.close()

    async def close(self) -> None:
        """Close all connections."""
        for task in self.connecting.values():
            task.cancel()
        self.server.close()
        for writer in [*self.writers.values(), *self.incoming]:
            with suppress(OSError, RuntimeError):
                writer.close()


class ZenohTransport(Transport):
    """An agent's connections to all others over zenoh. Needs the extra `zenoh`."""

    session: Any = None

    async def start(self) -> None:
        """Open a session, and subscribe to the messages for this agent."""
        with needs_extra("the transport zenoh", "zenoh"):
            import zenoh
        run = json.dumps(self.settings.greeting, sort_keys=True)
        self.root = f"hocket/{sha256(run.encode()).hexdigest()[:32]}"
        self.number = self.plan.agents.index(self.agent)
        config = zenoh.Config()
        for key, value in self._config().items():
            config.insert_json5(key, json.dumps(value))
        loop = asyncio.get_running_loop()

        def take(sample: Any) -> None:  # noqa: ANN401 - in a thread of zenoh's
            sender = str(sample.key_expr).rpartition("/")[2]
            loop.call_soon_threadsafe(self._take, sender, sample.payload.to_bytes())

        try:
            self.session = await asyncio.to_thread(zenoh.open, config)
            self.session.declare_subscriber(f"{self.root}/{self.number}/*", take)
        except zenoh.ZError as error:
            raise HocketError(f"cannot listen at {self.settings.addresses[self.agent]}: {str(error)[:200]}") from None

    def _config(self) -> dict[str, object]:
        addresses, keys = self.settings.addresses, self.settings.keys
        listening_address(self.settings, self.agent)  # checks it
        kind = "tcp" if keys is None else "tls"
        others = [f"{kind}/{addresses[agent]}" for agent in self.plan.agents if agent != self.agent]
        config = {**ZENOH, "listen/endpoints": [f"{kind}/{addresses[self.agent]}"], "connect/endpoints": others}
        if keys is not None:
            tls_context(keys, self.agent, server=True)  # checks that the files are there
            certificate, key = str(Path(keys, f"{self.agent}.crt")), str(Path(keys, f"{self.agent}.key"))
            tls: dict[str, object] = {"enable_mtls": True, "verify_name_on_connect": False}
            tls["root_ca_certificate"] = str(Path(keys, "ca.crt"))
            for side in ("listen", "connect"):
                tls |= {f"{side}_certificate": certificate, f"{side}_private_key": key}
            config["transport/link/tls"] = tls
        return config

    def post(self, receiver: int, data: bytes) -> None:
        """Publish a message; if its receiver is not there it is lost, and the protocol sends it again."""
        if self.session is not None:
            self.session.put(f"{self.root}/{receiver}/{self.number}", data)
            self.bytes_sent += len(data)

    def _take(self, sender: str, data: bytes) -> None:
        is_agent = sender.isdecimal() and int(sender) < len(self.plan.agents)
        if self.session is not None and is_agent and len(data) <= LARGEST_MESSAGE:
            with suppress(MessageError):
                self.take(int(sender), data)

    async def close(self) -> None:
        """Close the session."""
        session, self.session = self.session, None
        if session is not None:
            await asyncio.to_thread(session.close)
