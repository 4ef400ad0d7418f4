"""The web server of the studio: files, checks, edits, games and trainings, for its own pages only."""

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

LIMIT = MEGABYTE  # of a file that is edited in the page
LISTED = (".toml", ".json", ".hoa", ".dot", ".gv")  # suffixes of files that the page lists; others can be typed
MOST_LISTED, MOST_DEEP = 200, 3  # files, and levels of folders
SUFFIX = ".toml"  # of files that are written; every format of tasks and machines can be read
MOST_SENT = 3 * LIMIT  # bytes of a request
MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css"}
LIMITS = {CHECKS: 10.0, SEARCHES: 20.0, GAMES: 60.0, RUNS: 10.0}  # seconds; the first game may have to compile
PAGE_JOBS = {name: job.worker for name, job in JOBS.items() if job.worker is not None}

Body = dict[str, object]
Answer = Callable[[Body], Awaitable[Data]]


@dataclass(frozen=True)
class Folder:
    """The folder that the page may read and write, with all links resolved; nothing outside of it."""

    root: Path
    _writing: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def path(self, name: str, suffixes: Collection[str] = (SUFFIX,)) -> Path:
        """Return the path of a file in the folder or below; refuse one outside, also if a link leads there."""
        try:
            path = (self.root / name).resolve()
        except (OSError, ValueError, RuntimeError):  # not a valid file name, or links in a circle
            path = self.root
        if self.root not in path.parents or path.suffix.lower() not in suffixes:
            *others, last = suffixes
            kinds = f"{', '.join(others)} or {last}" if others else last
            raise FormatError(f"a file must be {kinds} and lie in the folder of the studio or below, got {name!r:.80}")
        return path

    def files(self) -> list[str]:
        """List the files that can be opened, by name, without hidden folders and those at deeper levels."""
        files: list[str] = []
        for folder, inner, names in os.walk(self.root):
            here = Path(folder).relative_to(self.root)
            inner[:] = sorted(name for name in inner if name[0] != ".") if len(here.parts) < MOST_DEEP else []
            files += [(here / name).as_posix() for name in sorted(names) if Path(name).suffix.lower() in LISTED]
            if len(files) >= MOST_LISTED:
                break
        return files[:MOST_LISTED]

    def has(self, name: str, test: Callable[[Path], bool] = Path.exists) -> bool:
        """Say whether something has this name and passes the test."""
        try:
            return test(self.path(name, FORMATS))
        except OSError as error:  # the name is too long, or its folder may not be read
            raise FormatError(f"cannot be read: {error.strerror}", path=name) from None

    def read(self, name: str) -> tuple[str, str]:
        """Read a file in the plain form that the page edits, and its fingerprint, which shows later changes."""
        text = self._read(name)
        return plain(text), mark_of(text)

    def mark(self, name: str) -> str | None:
        """Return the fingerprint of a file; None if there is no file."""
        self.path(name)
        return mark_of(self._read(name)) if self.has(name, Path.is_file) else None

    def _read(self, name: str) -> str:
        path = self.path(name, FORMATS)
        try:
            return read_text(path, LIMIT, keep_mark=True)
        except FormatError as error:
            raise FormatError(str(error).removeprefix(f"{path}: "), path=name) from None

    def save(self, name: str, text: str, expected: str | None) -> str | None:
        """Write a file, lines that were not edited byte for byte; return its fingerprint, or None if it has changed."""
        path = self.path(name)
        with self._writing:
            if self.mark(name) != expected:
                return None
            if not path.parent.is_dir():
                raise FormatError("must lie in an existing folder", path=name)
            remove_unfinished(path.parent, older_than=LONG_AGO)
            if expected is not None:
                text = in_form_of(text, self._read(name))
            write_whole(path, text)
        return mark_of(text)


def mark_of(text: str) -> str:
    """Fingerprint a text."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class Studio:
    """A running studio: its folder, the file that it was started with, and its processes."""

    folder: Folder
    name: str | None  # of the file
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    workers: dict[str, Worker] = field(default_factory=dict)
    trainings: Trainings = field(default_factory=Trainings)

    @classmethod
    def of(cls, file: Path | None, port: int) -> Studio:
        """Make a studio in the folder of a file, or else in the current one."""
        if file is None:
            return cls(Folder(Path.cwd().resolve()), None, port)
        path = file.resolve()
        folder = Folder(path.parent)
        folder.path(path.name, FORMATS if exists(path) else (SUFFIX,))  # refuses other suffixes
        return cls(folder, path.name, port)

    @cached_property
    def session(self) -> Session:
        """The secret that it shares with its pages."""
        return Session(self.port, self.folder.root)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    def app(self) -> ASGIApp:
        """Make the application."""
        answers: dict[str, Answer] = {job: partial(self.do, job) for job in PAGE_JOBS}
        files = (self.hello, self.files, self.open, self.mark, self.save, self.start)
        answers |= {answer.__name__: answer for answer in (self.prove, *files, self.play, self.train, self.steer)}
        posts = {name: _endpoint(answer, name in PAGE_JOBS) for name, answer in answers.items()}
        posts["follow"] = self.follow
        routes = [Route("/", self.page), Route("/{asset}", _asset), Route("/report/{training}/{number}", self.report)]
        routes += [Route(f"/api/{name}", respond, methods=["POST"]) for name, respond in posts.items()]
        return AccessGuard(Starlette(routes=routes, lifespan=self.lifespan), self.port, self.session)

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Run the workers as long as the server; remove unfinished files of killed saves."""
        remove_unfinished(self.folder.root, older_than=LONG_AGO)
        self.workers = {name: Worker(limit) for name, limit in LIMITS.items()}
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
        """Serve the page; with the secret, if the request has the token."""
        given = same(request.query_params.get("token", ""), self.token)
        text = _assets()["index.html"].read_text(encoding="utf-8")
        return HTMLResponse(text.replace("{{key}}", self.session.secret if given else ""))

    async def prove(self, body: Body) -> Data:
        """Prove to a page that this is its studio."""
        return dict(self.session.prove(_text(body, "nonce")[:LONGEST_NONCE]))

    async def hello(self, body: Body) -> Data:
        """Tell the page which file to open first."""
        return {"name": self.name, "folder": str(self.folder.root)}

    async def files(self, body: Body) -> Data:
        """List the files that can be opened."""
        return {"files": await run_in_threadpool(self.folder.files)}

    async def open(self, body: Body) -> Data:
        """Read a file: its text is null if it does not exist, and converted if it has another format."""
        name = _text(body, "name")
        if not await run_in_threadpool(self.folder.has, name):
            self.folder.path(name)  # refuses one that cannot be written
            return {"name": name, "text": None, "mark": None}
        text, mark = await run_in_threadpool(self.folder.read, name)
        if (suffix := Path(name).suffix.lower()) == SUFFIX:
            return {"name": name, "text": text, "mark": mark}
        answer = await self.workers[CHECKS].ask({"do": "import", "text": text, "suffix": suffix})
        return {"name": None, "mark": None, **answer}

    async def mark(self, body: Body) -> Data:
        """Return the fingerprint of a file, so that the page sees changes by other programs."""
        return {"mark": await run_in_threadpool(self.folder.mark, _text(body, "name"))}

    async def save(self, body: Body) -> Data:
        """Write a file; if another program has changed it, send its new text instead."""
        name, text, expected = _text(body, "name"), _text(body, "text"), body.get("expected")
        known = expected if isinstance(expected, str) else None
        mark = await run_in_threadpool(self.folder.save, name, text, known)
        return {"conflict": await self.open({"name": name})} if mark is None else {"mark": mark}

    async def start(self, body: Body) -> Data:
        """Return the text of a new task, an example or a built-in task."""
        return {"text": start_text(_text(body, "name"))}

    async def do(self, job: str, body: Body) -> Data:
        """Run a job in its worker."""
        return await self.workers[PAGE_JOBS[job]].ask({**self.checked(body), "do": job})

    def checked(self, body: Body) -> Body:
        """Check the text of a job, and add the folder of its file and that of the studio."""
        text = body.get("text", "")
        if not isinstance(text, str) or len(text.encode()) > LIMIT:
            raise FormatError(f"a text must have at most {LIMIT:,} bytes to be edited here")
        folder = self.folder.path(_text(body, "name")).parent if body.get("name") else ""
        return {**body, "text": text, "folder": str(folder), "root": str(self.folder.root)}

    async def play(self, body: Body) -> Data:
        """Play a game; trained teammates have the latest policies of a training."""
        policies = self.trainings.find(body["training"]).policies if body.get("training") else None
        return await self.do("play", {**body, "policies": str(policies or "")})

    async def train(self, body: Body) -> Data:
        """Start a training."""
        return {"training": await self.trainings.start(self.checked(body))}

    async def steer(self, body: Body) -> Data:
        """Stop or continue a training."""
        await self.trainings.steer(body.get("training"), body.get("command"))
        return {}

    async def follow(self, request: Request) -> Response:
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


def _endpoint(answer: Answer, gives_up: bool) -> Callable[[Request], Awaitable[Response]]:
    """Make a handler of requests; `gives_up` stops the work when the page hangs up."""

    async def respond(request: Request) -> Response:
        try:
            working = answer(await _body(request))
            return JSONResponse(await (_while_wanted(working, request) if gives_up else working))
        except HocketError as error:
            return JSONResponse({"refused": printable(str(error), 1_000)})
        except CutOffError as error:
            return JSONResponse({"refused": f"The check {error}.", "cut_off": True})

    return respond


async def _while_wanted(working: Awaitable[Data], request: Request) -> Data:
    """Work until the page hangs up, because it was closed or has a newer request."""

    async def hang_up() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    work, leaving = asyncio.ensure_future(working), asyncio.ensure_future(hang_up())
    try:
        await asyncio.wait((work, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise CutOffError("was cancelled")
        return await work
    finally:
        for task in (work, leaving):
            task.cancel()
        await asyncio.gather(work, leaving, return_exceptions=True)


async def _body(request: Request) -> Body:
    """Read a request of bounded length."""
    sent = b""
    try:
        async for chunk in request.stream():
            sent += chunk
            if len(sent) > MOST_SENT:
                raise FormatError(f"a request must have at most {MOST_SENT:,} bytes")
    except ClientDisconnect:
        raise FormatError("the request is incomplete") from None
    try:
        data = json.loads(sent or b"{}")
        json.dumps(data, ensure_ascii=False).encode()  # fails if a text has half of a surrogate pair
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise FormatError("a request is a JSON object whose texts have whole characters")
    return data


def _text(body: Body, key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str):
        raise FormatError(f"must be text, got {value!r:.60}", where=key)
    return value


async def _asset(request: Request) -> Response:
    """Serve a script or style sheet of the page."""
    name = request.path_params["asset"]
    kind = MEDIA_TYPES.get(Path(name).suffix)
    if kind is None or name not in _assets():
        return Response(status_code=404)
    return Response(_assets()[name].read_text(encoding="utf-8"), media_type=kind)


@cache
def _assets() -> dict[str, Traversable]:
    """Find the files of the page, and those that it shares with reports."""
    folders = (resources.files("hocket.studio.page"), resources.files("hocket.draw") / "web")
    return {entry.name: entry for folder in folders for entry in folder.iterdir()}
