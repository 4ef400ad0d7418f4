"""The web server of the studio, for its own pages only: files, checks, edits, games and trainings."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from hocket.errors import FormatError, HocketError, printable
from hocket.files import LONG_AGO, MEGABYTE, exists, in_form_of, plain, read_text, remove_unfinished, write_whole
from hocket.machine.formats import FORMATS
from hocket.studio.guard import LONGEST_NONCE, AccessGuard, Session, same
from hocket.studio.pictures import Data
from hocket.studio.processes import CutOffError, Trainings, Worker
from hocket.studio.worker import CHECKS, GAMES, JOBS, RUNS, SEARCHES, start_text

LARGEST_TEXT = MEGABYTE  # bytes of a text that the page can edit
LISTED_SUFFIXES = (".toml", ".json", ".hoa", ".dot", ".gv")  # of files that the page lists; others can be typed
MOST_LISTED, MOST_LEVELS = 200, 3  # files, and levels of folders
SAVED_SUFFIX = ".toml"  # files are saved in this format and read in all
LARGEST_REQUEST = 3 * LARGEST_TEXT  # bytes
MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css"}
WORKER_SECONDS = {CHECKS: 10.0, SEARCHES: 20.0, GAMES: 60.0, RUNS: 10.0}  # of a job; the first game may compile
WORKER_OF_JOB = {name: job.worker for name, job in JOBS.items() if job.worker is not None}

Body = dict[str, object]
RequestHandler = Callable[[Body], Awaitable[Data]]


@dataclass(frozen=True)
class Folder:
    """The folder that the page may read and write, with all links resolved; nothing outside of it."""

    root: Path
    _write_lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def path(self, name: str, suffixes: Collection[str] = (SAVED_SUFFIX,)) -> Path:
        """Return the path of a file in the folder or below; refuse one outside, also if a link leads there."""
        allowed = " or ".join(suffixes)
        refusal = FormatError(f"a file must end in {allowed} and be in the studio's folder or below, got {name!r:.80}")
        try:
            path = (self.root / name).resolve()
        except (OSError, ValueError, RuntimeError):  # not a valid file name, or links in a circle
            raise refusal from None
        if self.root not in path.parents or path.suffix.lower() not in suffixes:
            raise refusal
        return path

    def files(self) -> list[str]:
        """List the files that can be opened, by name, without hidden folders and those at deeper levels."""
        files: list[str] = []
        for folder, subfolders, names in os.walk(self.root):
            relative = Path(folder).relative_to(self.root)
            subfolders[:] = sorted(name for name in subfolders if name[0] != "." and len(relative.parts) < MOST_LEVELS)
            paths = [relative / name for name in sorted(names)]
            files += [path.as_posix() for path in paths if path.suffix.lower() in LISTED_SUFFIXES]
            if len(files) >= MOST_LISTED:
                break
        return files[:MOST_LISTED]

    def has_file(self, name: str, test: Callable[[Path], bool] = Path.exists) -> bool:
        """Say whether something has this name and passes the test."""
        try:
            return test(self.path(name, FORMATS))
        except OSError as error:  # the name is too long, or its folder may not be read
            raise FormatError(f"cannot be read: {error.strerror}", path=name) from None

    def read(self, name: str) -> tuple[str, str]:
        """Read a file in the plain form that the page edits, and its fingerprint, which shows later changes."""
        text = self._read(name)
        return plain(text), fingerprint_of(text)

    def fingerprint(self, name: str) -> str | None:
        """Return the fingerprint of a file; None if there is no file."""
        self.path(name)
        return fingerprint_of(self._read(name)) if self.has_file(name, Path.is_file) else None

    def _read(self, name: str) -> str:
        path = self.path(name, FORMATS)
        try:
            return read_text(path, LARGEST_TEXT, keep_mark=True)
        except FormatError as error:
            raise FormatError(str(error).removeprefix(f"{path}: "), path=name) from None

    def save(self, name: str, text: str, expected: str | None) -> str | None:
        """Write a file, lines that were not edited byte for byte; return its fingerprint, or None if it has changed."""
        path = self.path(name)
        with self._write_lock:
            if self.fingerprint(name) != expected:
                return None
            if not path.parent.is_dir():
                raise FormatError("its folder must exist", path=name)
            remove_unfinished(path.parent, older_than=LONG_AGO)
            if expected is not None:
                text = in_form_of(text, self._read(name))
            write_whole(path, text)
        return fingerprint_of(text)


def fingerprint_of(text: str) -> str:
    """Return the fingerprint of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class Studio:
    """A running studio: its folder, the file that it was started with, and its processes."""

    folder: Folder
    file_name: str | None
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    workers: dict[str, Worker] = field(default_factory=dict)
    trainings: Trainings = field(default_factory=Trainings)

    @classmethod
    def for_file(cls, file: Path | None, port: int) -> Studio:
        """Make a studio in the folder of a file, or in the current folder if there is no file."""
        if file is None:
            return cls(Folder(Path.cwd().resolve()), None, port)
        path = file.resolve()
        folder = Folder(path.parent)
        folder.path(path.name, FORMATS if exists(path) else (SAVED_SUFFIX,))  # refuses other suffixes
        return cls(folder, path.name, port)

    @cached_property
    def session(self) -> Session:
        """The session that authenticates the studio and its pages to each other."""
        return Session(self.port, self.folder.root)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    def app(self) -> ASGIApp:
        """Make the application."""
        handlers: dict[str, RequestHandler] = {job: partial(self.run_job, job) for job in WORKER_OF_JOB}
        handlers |= {"prove": self.prove, "hello": self.first_file, "files": self.files, "open": self.open}
        handlers |= {"fingerprint": self.fingerprint, "save": self.save, "start": self.template}
        handlers |= {"play": self.play, "train": self.train, "steer": self.send_command}
        posts = {name: _endpoint(handler, name in WORKER_OF_JOB) for name, handler in handlers.items()}
        posts["follow"] = self.stream_messages
        routes = [Route("/", self.page), Route("/{asset}", _asset), Route("/report/{training}/{number}", self.report)]
        routes += [Route(f"/api/{name}", respond, methods=["POST"]) for name, respond in posts.items()]
        return AccessGuard(Starlette(routes=routes, lifespan=self.lifespan), self.port, self.session)

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Run the workers as long as the server; remove unfinished files of killed saves."""
        remove_unfinished(self.folder.root, older_than=LONG_AGO)
        self.workers = {name: Worker(seconds) for name, seconds in WORKER_SECONDS.items()}
        warm = [asyncio.ensure_future(self.workers[name].ask({"do": "warm"})) for name in (CHECKS, SEARCHES)]
        try:
            yield
        finally:
            for task in warm:
                task.cancel()
            await asyncio.gather(*warm, return_exceptions=True)
            for worker in self.workers.values():
                await worker.close()
            await self.trainings.forget()

    async def page(self, request: Request) -> Response:
        """Serve the page; include the secret if the request has the token."""
        has_token = same(request.query_params.get("token", ""), self.token)
        text = _assets()["index.html"].read_text(encoding="utf-8")
        return HTMLResponse(text.replace("{{secret}}", self.session.secret if has_token else ""))

    async def prove(self, body: Body) -> Data:
        """Prove to a page that this is its studio."""
        return dict(self.session.prove(_text(body, "nonce")[:LONGEST_NONCE]))

    async def first_file(self, body: Body) -> Data:
        """Tell the page which file to open first."""
        return {"name": self.file_name, "folder": str(self.folder.root)}

    async def files(self, body: Body) -> Data:
        """List the files that can be opened."""
        return {"files": await run_in_threadpool(self.folder.files)}

    async def open(self, body: Body) -> Data:
        """Read a file: its text is null if it does not exist, and converted if it has another format."""
        name = _text(body, "name")
        if not await run_in_threadpool(self.folder.has_file, name):
            self.folder.path(name)  # refuses one that cannot be written
            return {"name": name, "text": None, "fingerprint": None}
        text, fingerprint = await run_in_threadpool(self.folder.read, name)
        if (suffix := Path(name).suffix.lower()) == SAVED_SUFFIX:
            return {"name": name, "text": text, "fingerprint": fingerprint}
        answer = await self.workers[CHECKS].ask({"do": "import", "text": text, "suffix": suffix})
        return {"name": None, "fingerprint": None, **answer}

    async def fingerprint(self, body: Body) -> Data:
        """Return the fingerprint of a file, so that the page sees changes by other programs."""
        return {"fingerprint": await run_in_threadpool(self.folder.fingerprint, _text(body, "name"))}

    async def save(self, body: Body) -> Data:
        """Write a file; if another program has changed it, send its new text instead."""
        name, text, expected = _text(body, "name"), _text(body, "text"), body.get("expected")
        known = expected if isinstance(expected, str) else None
        new = await run_in_threadpool(self.folder.save, name, text, known)
        return {"conflict": await self.open({"name": name})} if new is None else {"fingerprint": new}

    async def template(self, body: Body) -> Data:
        """Return the text of an empty task, an example or a built-in task."""
        return {"text": start_text(_text(body, "name"))}

    async def run_job(self, job: str, body: Body) -> Data:
        """Run a job in its worker."""
        return await self.workers[WORKER_OF_JOB[job]].ask({**self.with_folders(body), "do": job})

    def with_folders(self, body: Body) -> Body:
        """Check the length of a job's text; add the folder of its file, and that of the studio."""
        text = body.get("text", "")
        if not isinstance(text, str) or len(text.encode()) > LARGEST_TEXT:
            raise FormatError(f"the page can edit texts of at most {LARGEST_TEXT:,} bytes")
        folder = self.folder.path(_text(body, "name")).parent if body.get("name") else ""
        return {**body, "text": text, "folder": str(folder), "root": str(self.folder.root)}

    async def play(self, body: Body) -> Data:
        """Play a game; the request can ask for teammates with the latest policies of a training."""
        policies = self.trainings.find(body["training"]).policies if body.get("training") else None
        return await self.run_job("play", {**body, "policies": str(policies or "")})

    async def train(self, body: Body) -> Data:
        """Start a training."""
        return {"training": await self.trainings.start(self.with_folders(body))}

    async def send_command(self, body: Body) -> Data:
        """Stop or continue a training."""
        await self.trainings.send_command(body.get("training"), body.get("command"))
        return {}

    async def stream_messages(self, request: Request) -> Response:
        """Stream the messages of a training to the page."""
        try:
            training = self.trainings.find((await _body(request)).get("training"))
        except HocketError as error:
            return JSONResponse({"refused": str(error)})
        return StreamingResponse(training.follow(), media_type="application/x-ndjson")

    async def report(self, request: Request) -> Response:
        """Serve a report that a training has written; its address cannot be guessed."""
        path = self.trainings.report(request.path_params["training"], request.path_params["number"])
        return Response(status_code=404) if path is None else FileResponse(path, media_type="text/html")


def _endpoint(handler: RequestHandler, is_cancellable: bool) -> Callable[[Request], Awaitable[Response]]:
    """Make the function of an endpoint; if `is_cancellable`, its work stops when the page disconnects."""

    async def respond(request: Request) -> Response:
        try:
            content = handler(await _body(request))
            return JSONResponse(await (_until_disconnect(content, request) if is_cancellable else content))
        except HocketError as error:
            return JSONResponse({"refused": printable(str(error), 1_000)})
        except CutOffError as error:
            return JSONResponse({"refused": f"The computation {error}.", "cut_off": True})

    return respond


async def _until_disconnect(content: Awaitable[Data], request: Request) -> Data:
    """Finish the work unless the page disconnects, because it was closed or has a newer request."""

    async def wait_for_disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    work, disconnect = asyncio.ensure_future(content), asyncio.ensure_future(wait_for_disconnect())
    try:
        await asyncio.wait((work, disconnect), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise CutOffError("was cancelled")
        return await work
    finally:
        for task in (work, disconnect):
            task.cancel()
        await asyncio.gather(work, disconnect, return_exceptions=True)


async def _body(request: Request) -> Body:
    """Read the JSON object of a request."""
    content = b""
    try:
        async for chunk in request.stream():
            content += chunk
            if len(content) > LARGEST_REQUEST:
                raise FormatError(f"a request must have at most {LARGEST_REQUEST:,} bytes")
    except ClientDisconnect:
        raise FormatError("the request is incomplete") from None
    try:
        data = json.loads(content or b"{}")
        json.dumps(data, ensure_ascii=False).encode()  # fails if a text has half of a surrogate pair
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise FormatError("a request must be a JSON object of valid Unicode")
    return data


def _text(body: Body, key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str):
        raise FormatError(f"must be text, got {value!r:.60}", where=key)
    return value


async def _asset(request: Request) -> Response:
    """Serve a script or style sheet of the page."""
    name = request.path_params["asset"]
    media_type = MEDIA_TYPES.get(Path(name).suffix)
    if media_type is None or name not in _assets():
        return Response(status_code=404)
    return Response(_assets()[name].read_text(encoding="utf-8"), media_type=media_type)


@cache
def _assets() -> dict[str, Traversable]:
    """Find the files of the page, and those that it shares with reports."""
    folders = (resources.files("hocket.studio.page"), resources.files("hocket.draw") / "web")
    return {entry.name: entry for folder in folders for entry in folder.iterdir()}
