"""Who may talk to the server: pages that it has served itself, to somebody who has its address."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

KEY_HEADER = "x-hocket-key"
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

    def __init__(self, app: ASGIApp, port: int, key: str) -> None:
        self.app, self.key = app, key
        self.hosts = {f"{name}:{port}" for name in NAMES}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        reason = self.refuses(Headers(scope=scope), scope["path"])

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                policy = REPORT_POLICY if scope["path"].startswith("/report/") else POLICY
                more = {**ALWAYS, "Content-Security-Policy": policy}
                message["headers"] = [
                    *message["headers"],
                    *((name.lower().encode(), value.encode()) for name, value in more.items()),
                ]
            await send(message)

        respond = self.app if reason is None else PlainTextResponse(reason, 403)
        await respond(scope, receive, send_guarded)

    def refuses(self, headers: Headers, path: str) -> str | None:
        """Say why a request is refused, if it is."""
        if headers.getlist("host") == [] or {*headers.getlist("host")} - self.hosts:
            return "The studio only answers requests to its own address."  # DNS rebinding
        if {*headers.getlist("origin")} - self.origins:
            return "The studio only answers its own pages."
        if path.startswith("/api/") and not same(headers.get(KEY_HEADER, ""), self.key):
            return "The studio needs the address that it has printed, with its token."
        return None


def same(given: str, secret: str) -> bool:
    """Compare with a secret in constant time."""
    return hmac.compare_digest(given.encode(), secret.encode())


def page_key(port: int, folder: Path) -> str:
    """Make the key of the studio's pages: the same after a restart, so that a page that is open can go on.

    It comes from a secret in the user's own files, which nobody else can read; where there is no place for that, it is
    a new one each time, and a page has to be opened again after a restart. The token in the address is always new.
    """
    secret = _page_secret()
    return hmac.new(secret, f"{port} {folder}".encode(), hashlib.sha256).hexdigest()


def _page_secret() -> bytes:
    path = _state_folder() / "studio.key"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(32))
        if os.name == "posix" and path.stat().st_mode & 0o077:
            return secrets.token_bytes(32)  # others may have read it
        secret = path.read_bytes()
        return secret if len(secret) >= 32 else secrets.token_bytes(32)
    except (OSError, RuntimeError):  # there may be no home
        return secrets.token_bytes(32)


def _state_folder() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(home) if home else Path.home() / ".local" / "state") / "hocket"
