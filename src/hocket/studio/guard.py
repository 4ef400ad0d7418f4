"""Who may talk to the server: pages that it has served itself, to somebody who has its address."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hocket.errors import HocketError
from hocket.files import LONG_AGO, GrowingFile, open_regular, remove_unfinished, user_folder

SECRET = 32  # bytes
PROVE = "/api/prove"  # what a page asks before it shows its key
KEY_HEADER, NONCE_HEADER, PROOF_HEADER = "x-hocket-key", "x-hocket-nonce", "x-hocket-proof"
LONGEST_NONCE = 100  # characters
NAMES = ("127.0.0.1", "localhost")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (  # of a report, which is one page with all its scripts in it, and sees nothing of the studio
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts"
)
ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class AccessGuard:
    """Refuses what does not come from the studio's own page, and says what pages may do."""

    def __init__(self, app: ASGIApp, port: int, session: Session) -> None:
        self.app, self.session = app, session
        self.hosts = {f"{name}:{port}" for name in NAMES}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        reason = self.refuses(headers, scope["path"])

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                policy = REPORT_POLICY if scope["path"].startswith("/report/") else POLICY
                answer = MutableHeaders(scope=message)
                answer.update({**ALWAYS, "Content-Security-Policy": policy})
                if NONCE_HEADER in headers:
                    answer[PROOF_HEADER] = self.session.sign(f"answer {headers[NONCE_HEADER][:LONGEST_NONCE]}")
            await send(message)

        respond = self.app if reason is None else PlainTextResponse(reason, 403)
        await respond(scope, receive, send_guarded)

    def refuses(self, headers: Headers, path: str) -> str | None:
        """Say why a request is refused, if it is."""
        if headers.getlist("host") == [] or {*headers.getlist("host")} - self.hosts:
            return "The studio only answers requests to its own address."  # DNS rebinding
        if {*headers.getlist("origin")} - self.origins:
            return "The studio only answers its own pages."
        if path.startswith("/api/") and path != PROVE and not same(headers.get(KEY_HEADER, ""), self.session.key):
            return "The studio needs the address that it has printed, with its token."
        return None


def same(given: str, secret: str) -> bool:
    """Compare with a secret in constant time."""
    return hmac.compare_digest(given.encode(), secret.encode())


class Session:
    """What a running studio and its pages know of each other, without ever sending the secret that they share.

    A page has the secret from the address with the token. Before each request the studio proves that it has it, too,
    by signing a number that the page has just drawn; so whoever takes the port while the studio is away learns
    nothing, and what it answers is not believed. Requests bear a key that is made of the secret and of this run of the
    studio, and ends with it.
    """

    def __init__(self, port: int, folder: Path) -> None:
        self.secret = page_secret(port, folder)
        self.run = secrets.token_hex(16)
        self.key = self.sign(f"session {self.run}")

    def prove(self, nonce: str) -> dict[str, str]:
        """Show a page that this is the studio that its secret is from."""
        return {"run": self.run, "proof": self.sign(f"studio {self.run} {nonce}")}

    def sign(self, text: str) -> str:
        """Sign a text as only those can who have the secret."""
        return hmac.new(self.secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def page_secret(port: int, folder: Path) -> str:
    """Make the secret of the studio's pages: the same after a restart, so that a page that is open can go on.

    It comes from a file of the user's own, which nobody else can read; where there is no place for that, it is a new
    one each time, and a page has to be opened again after a restart. The token in the address is always new.
    """
    return hmac.new(_user_secret(), f"{port} {folder}".encode(), hashlib.sha256).hexdigest()


def _user_secret() -> bytes:
    secret = secrets.token_bytes(SECRET)
    with suppress(OSError, RuntimeError, HocketError):  # there may be no home
        folder = user_folder("XDG_STATE_HOME", ".local", "state")
        remove_unfinished(folder, older_than=LONG_AGO)
        path = folder / "studio.key"
        if (kept := _read_secret(path)) is not None:
            return kept
        with GrowingFile(path, 0o600) as file:  # which replaces whatever bears the name
            file.add(secret)
            file.keep()
    return secret


def _read_secret(path: Path) -> bytes | None:
    """Read the secret; None where there is none, or only a piece of one, or others may have read it."""
    try:
        with open_regular(path, getattr(os, "O_NOFOLLOW", 0)) as file:
            about, secret = os.fstat(file.fileno()), file.read(SECRET)
    except HocketError:
        return None
    is_ours = os.name != "posix" or (about.st_uid == os.geteuid() and not about.st_mode & 0o077)
    return secret if is_ours and len(secret) == SECRET else None
