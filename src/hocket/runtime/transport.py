"""Messages between processes: Unix sockets on one machine, TCP with TLS between several.

Each agent connects to each other one that it has something to say to, and says first who it is, of which run and task.
Whoever is not who it says, or of another run or task, is not listened to. Who an agent is says its certificate, which
the run's own authority has signed. What cannot be sent is dropped: the protocol sends again.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import ssl
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from hocket.errors import FormatError, HocketError, SettingsError, needs_extra
from hocket.runtime.codec import LARGEST_MESSAGE, MessageError, decode, encode, fits
from hocket.runtime.plan import Plan
from hocket.runtime.protocol import Message

LENGTH = 4  # bytes of a frame's length
LARGEST_GREETING = 10_000  # bytes
PATIENCE = 5.0  # seconds in which a greeting or a connection has to come
AGAIN = 0.2  # seconds until a connection that failed is tried again
MOST_WAITING = 10_000_000  # bytes that may wait to be sent to one agent
DAYS = 365  # that certificates are valid
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Security:
    """Certificates of a run: a folder that `hocket keys` has made; or none."""

    folder: Path | None = None
    insecure: bool = False  # whether plain TCP may leave this machine

    def context(self, agent: str, *, server: bool) -> ssl.SSLContext | None:
        """Make what TLS needs: both sides show a certificate of the run's own authority."""
        if self.folder is None:
            return None
        purpose = ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT
        context = ssl.SSLContext(purpose)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # the name in a certificate is an agent's, and is compared with the greeting
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(self.folder / "ca.crt")
            context.load_cert_chain(self.folder / f"{agent}.crt", self.folder / f"{agent}.key")
        except (OSError, ssl.SSLError) as error:
            raise FormatError(f"has no good certificate for {agent}: {error}", path=self.folder) from None
        return context


LOCAL = Security()


def make_keys(folder: str | Path, names: Iterable[str], days: int = DAYS) -> list[Path]:
    """Make a certificate for each name, signed by the folder's own authority, which is made where there is none.

    What is there already stays as it is. Returns what was written; give each machine `ca.crt`, and its agent's `.crt`
    and `.key` alone. Needs the extra `keys`: in a clone, pip install ".[keys]".
    """
    with needs_extra("a certificate", "keys"):
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID
    folder, written = Path(folder), list[Path]()
    now = datetime.datetime.now(datetime.UTC)

    def certify(name: str, issuer: x509.Name, signer: ec.EllipticCurvePrivateKey | None) -> None:
        """Make a key and its certificate; without a signer one that signs itself."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
        builder = builder.not_valid_after(now + datetime.timedelta(days=days))
        builder = builder.add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
        certificate = builder.sign(signer or key, hashes.SHA256())
        pem = serialization.Encoding.PEM
        private = serialization.PrivateFormat.PKCS8
        secret = key.private_bytes(pem, private, serialization.NoEncryption())
        for kind, data, mode in (("key", secret, 0o600), ("crt", certificate.public_bytes(pem), 0o644)):
            written.append(folder / f"{name}.{kind}")
            handle = os.open(written[-1], os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(handle, "wb") as file:
                file.write(data)

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


def certified_name(writer: asyncio.StreamWriter) -> str | None:
    """Read the name in the certificate of whoever is at the other end; None without TLS."""
    subject = (writer.get_extra_info("peercert") or {}).get("subject", ())
    return next((str(value) for part in subject for key, value in part if key == "commonName"), None)


def split_address(address: str, key: str = "peers", security: Security | None = None) -> tuple[str, int]:
    """Read HOST:PORT; to listen there, beyond this machine, needs `security`."""
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):
        raise SettingsError(f"{key}: an address is HOST:PORT, got {address!r}")
    host = host.strip("[]")
    if security is not None and security.folder is None and host not in LOOPBACK and not security.insecure:
        rule = "TCP beyond this machine needs certificates (hocket keys), or --insecure"
        raise SettingsError(f"{rule}, got the address {address}")
    return host, int(port)


class Transport:
    """An agent's connections to all others."""

    def __init__(
        self,
        plan: Plan,
        agent: str,
        addresses: Mapping[str, str],
        greeting: Mapping[str, str],
        receive: Callable[[int, Message], None],
        security: Security = LOCAL,
        loss: float = 0.0,
    ) -> None:
        self.plan, self.agent, self.addresses, self.receive = plan, agent, addresses, receive
        self.greeting = {**greeting, "agent": agent}
        self.security, self.loss, self.random = security, loss, Random()
        self.numbers = {name: number for number, name in enumerate(plan.agents)}
        self.writers: dict[int, asyncio.StreamWriter] = {}
        self.connecting: dict[int, asyncio.Task[None]] = {}
        self.incoming: set[asyncio.StreamWriter] = set()
        self.refused: dict[str, str] = {}  # agent -> why it does not listen
        self.bytes_sent = self.messages_sent = 0
        self.server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen."""
        self.server = await listen(self.addresses[self.agent], self._listen, self.agent, self.security)

    def is_lost(self) -> bool:
        """Say whether a message is dropped on purpose."""
        return bool(self.loss) and self.random.random() < self.loss

    def pack(self, message: Message) -> bytes:
        """Write a message that is about to be sent."""
        data = encode(message)
        self.bytes_sent += len(data)
        self.messages_sent += 1
        return data

    def take(self, sender: int, data: bytes) -> None:
        """Take a message, unless it makes no sense."""
        message = decode(data)
        if fits(message, len(self.plan.agents), len(self.plan.events)):
            self.receive(sender, message)

    def send(self, receiver: int, message: Message) -> None:
        """Send a message if there is a connection, and otherwise begin to make one."""
        if self.is_lost():
            return
        writer = self.writers.get(receiver)
        if writer is None or writer.is_closing():
            if receiver not in self.connecting:
                task = asyncio.get_running_loop().create_task(self._connect(receiver, message))
                self.connecting[receiver] = task
            return
        if writer.transport.get_write_buffer_size() < MOST_WAITING:
            self._write(writer, message)

    def _write(self, writer: asyncio.StreamWriter, message: Message) -> None:
        data = self.pack(message)
        writer.write(len(data).to_bytes(LENGTH, "big") + data)

    async def _connect(self, receiver: int, message: Message) -> None:
        name = self.plan.agents[receiver]
        try:
            dialled = dial(self.addresses[name], self.greeting, self.security)
            reader, writer = await asyncio.wait_for(dialled, PATIENCE)
            answer = await asyncio.wait_for(reader.read(LARGEST_GREETING), PATIENCE)
            if answer != b"ok\n":
                self.refused[name] = answer.decode(errors="replace").strip() or "it hangs up"
                writer.close()
                await asyncio.sleep(AGAIN)
                return
            if self.security.folder is not None and certified_name(writer) != name:
                writer.close()
                return
            self.refused.pop(name, None)
            self.writers[receiver] = writer
            self._write(writer, message)
        except (OSError, TimeoutError, ssl.SSLError):
            await asyncio.sleep(AGAIN)
        finally:
            self.connecting.pop(receiver, None)

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Listen to one agent, once it has said who it is."""
        self.incoming.add(writer)
        try:
            greeting = await read_greeting(reader)
            why = self._objection(greeting, certified_name(writer))
            writer.write(f"{why or 'ok'}\n".encode())
            await writer.drain()
            while not why:
                size = int.from_bytes(await reader.readexactly(LENGTH), "big")
                if size > LARGEST_MESSAGE:
                    break
                self.take(self.numbers[greeting["agent"]], await reader.readexactly(size))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError, MessageError, TimeoutError, ssl.SSLError):
            pass  # it hangs up, talks nonsense, or this process ends
        finally:
            self.incoming.discard(writer)
            writer.close()

    def _objection(self, greeting: Mapping[str, str], certified: str | None) -> str:
        """Say why somebody is not listened to, if so."""
        who = greeting.get("agent", "")
        for key, what in (("digest", "task"), ("run", "run"), ("deciders", "set of deciders")):
            if greeting.get(key) != self.greeting[key]:
                return f"{self.agent} is of another {what}"
        if who not in self.numbers:
            return f"{self.agent} knows no such agent"
        if self.security.folder is not None and certified != who:
            return f"{self.agent} hears somebody else speak for {who[:80]}"
        return ""

    async def close(self) -> None:
        """Hang up."""
        for task in [*self.connecting.values()]:
            task.cancel()
        if self.server is not None:
            self.server.close()
        for writer in [*self.writers.values(), *self.incoming]:
            with suppress(OSError, RuntimeError):
                writer.close()


async def read_greeting(reader: asyncio.StreamReader) -> dict[str, str]:
    """Read who speaks; nothing where it is no greeting."""
    with suppress(ValueError):
        greeting = json.loads(await asyncio.wait_for(reader.readline(), PATIENCE))
        if isinstance(greeting, dict):
            return {str(key): value for key, value in greeting.items() if isinstance(value, str)}
    return {}


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]


async def listen(address: str, handle: Handler, name: str, security: Security) -> asyncio.Server:
    """Listen at the path of a Unix socket or at HOST:PORT."""
    context = security.context(name, server=True)
    try:
        if "/" in address:
            Path(address).unlink(missing_ok=True)
            return await asyncio.start_unix_server(handle, address, limit=LARGEST_GREETING)  # type: ignore[arg-type]
        host, port = split_address(address, security=security)
        return await asyncio.start_server(handle, host, port, ssl=context, limit=LARGEST_GREETING)  # type: ignore[arg-type]
    except OSError as error:
        raise HocketError(f"cannot listen at {address}: {error.strerror or error}") from None


async def dial(address: str, greeting: Mapping[str, str], security: Security) -> Streams:
    """Connect to a Unix socket or to HOST:PORT, and say who one is."""
    context = security.context(greeting["agent"], server=False)
    if "/" in address:
        reader, writer = await asyncio.open_unix_connection(address)
    else:
        reader, writer = await asyncio.open_connection(*split_address(address), ssl=context)
    writer.write(json.dumps(dict(greeting)).encode() + b"\n")
    await writer.drain()
    return reader, writer
