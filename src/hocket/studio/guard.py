"""Access control: the server answers only pages that it has served to users who have its address with the token."""

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
PROVE = "/api/prove"  # requested before a page sends its key
KEY_HEADER, NONCE_HEADER, PROOF_HEADER = "x-hocket-key", "x-hocket-nonce", "x-hocket-proof"
LONGEST_NONCE = 100  # characters
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (  # of a report, whose scripts are inline and have no access to the studio
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class AccessGuard:
    """Refuses requests that do not come from the studio's own page, and sets the security headers of answers."""

    def __init__(self, app: ASGIApp, port: int, session: Session) -> None:
        self.app, self.session = app, session
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
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
                answer.update({**HEADERS, "Content-Security-Policy": policy})
                if NONCE_HEADER in headers:
                    answer[PROOF_HEADER] = self.session.sign(f"answer {headers[NONCE_HEADER][:LONGEST_NONCE]}")
            await send(message)

        respond = self.app if reason is None else PlainTextResponse(reason, 403)
        await respond(scope, receive, send_guarded)

    def refuses(self, headers: Headers, path: str) -> str | None:
        """Return the reason why a request is refused; None if it is not."""
        if {*headers.getlist("host")} - self.hosts or "host" not in headers:
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
    """Authentication between a running studio and its pages, by a shared secret that no request contains.

    A page gets the secret from the address with the token. Before each request the studio signs a nonce of the page,
    to prove that it has the secret, too. So another program that takes the port while the studio is down learns
    nothing, and the page rejects its answers. A key derived from the secret, in each request, is valid for one run.
    """

    def __init__(self, port: int, folder: Path) -> None:
        self.secret = page_secret(port, folder)
        self.run = secrets.token_hex(16)
        self.key = self.sign(f"session {self.run}")

    def prove(self, nonce: str) -> dict[str, str]:
        """Prove to a page that this studio has its secret."""
        return {"run": self.run, "proof": self.sign(f"studio {self.run} {nonce}")}

    def sign(self, text: str) -> str:
        """Sign a text with the secret."""
        return hmac.new(self.secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def page_secret(port: int, folder: Path) -> str:
    """Derive the secret of the studio's pages from a file of the user, so that open pages can go on after a restart.

    Without a home directory it is new each time. The token in the address is always new.
    """
    secret = secrets.token_bytes(SECRET)
    with suppress(OSError, RuntimeError, HocketError):  # there may be no home directory
        path = user_folder("XDG_STATE_HOME", ".local", "state") / "studio.key"
        remove_unfinished(path.parent, older_than=LONG_AGO)
        if (old := _read_secret(path)) is not None:
            secret = old
        else:
            with GrowingFile(path, 0o600) as file:  # replaces any file of this name
                file.add(secret)
                file.keep()
    return hmac.new(secret, f"{port} {folder}".encode(), hashlib.sha256).hexdigest()


def _read_secret(path: Path) -> bytes | None:
    """Read the secret; None if it is missing or incomplete, or if other users may have read it."""
    try:
        with open_regular(path, getattr(os, "O_NOFOLLOW", 0)) as file:
            about, secret = os.fstat(file.fileno()), file.read(SECRET)
    except HocketError:
        return None
    is_ours = os.name != "posix" or (about.st_uid == os.geteuid() and not about.st_mode & 0o077)
    return secret if is_ours and len(secret) == SECRET else None
