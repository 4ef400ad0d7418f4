"""The server of the studio: files, checks, edits, games and training, for its own pages."""

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
from hocket.files import LONG_AGO, MEGABYTE, exists, in_form_of, plain, read_exactly, remove_unfinished, write_whole
from hocket.machine.formats import FORMATS
from hocket.studio.guard import LONGEST_NONCE, AccessGuard, Session, same
from hocket.studio.pictures import Data
from hocket.studio.processes import CutOffError, Trainings, Worker
from hocket.studio.worker import CHECKS, GAMES, JOBS, RUNS, SEARCHES, start_text

LIMIT = MEGABYTE  # of a file that is edited in the page
LISTED = (".toml", ".json", ".hoa", ".dot", ".gv")  # suffixes of files that are offered; others can be named
MOST_LISTED, MOST_DEEP = 200, 3  # files, and folders below the first one
SUFFIX = ".toml"  # of what is written; all that machines and tasks are read from can be a start
MOST_SENT = 3 * LIMIT  # bytes of a request
KINDS = {".js": "text/javascript", ".css": "text/css"}
LIMITS = {CHECKS: 10.0, SEARCHES: 20.0, GAMES: 60.0, RUNS: 10.0}  # seconds; the first game may have to compile
PAGE_JOBS = {name: job.worker for name, job in JOBS.items() if job.worker is not None}

Body = dict[str, object]
Answer = Callable[[Body], Awaitable[Data]]


# The folder that the page may read and write: one that was named at the start, and nothing outside.


class ConflictError(Exception):
    """A file that is not as it was when the page read it."""


@dataclass(frozen=True)
class Folder:
    """A folder, all links resolved."""

    root: Path
    _writing: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def path(self, name: str, suffixes: Collection[str] = (SUFFIX,)) -> Path:
        """Find a file in the folder or below; one elsewhere, also by a link, is refused."""
        try:
            path = (self.root / name).resolve()
        except (OSError, ValueError, RuntimeError):  # no name that a file can have, or links that go round
            path = self.root
        if self.root not in path.parents or path.suffix.lower() not in suffixes:
            *others, last = suffixes
            kinds = f"{', '.join(others)} or {last}" if others else last
            raise FormatError(f"a file must be {kinds} and lie in the folder of the studio or below, got {name!r:.80}")
        return path

    def files(self) -> list[str]:
        """List what can be opened, in the folder and below, by name; hidden folders and deep ones are left out."""
        files: list[str] = []
        for folder, inner, names in os.walk(self.root):
            depth = len(Path(folder).relative_to(self.root).parts)
            inner[:] = sorted(name for name in inner if not name.startswith(".")) if depth < MOST_DEEP else []
            here = (Path(folder, name) for name in sorted(names) if Path(name).suffix.lower() in LISTED)
            files += [path.relative_to(self.root).as_posix() for path in here]
            if len(files) >= MOST_LISTED:
                break
        return files[:MOST_LISTED]

    def has(self, name: str, so: Callable[[Path], bool] = Path.exists) -> bool:
        """Say whether there is a file, or whatever else, of a name."""
        try:
            return so(self.path(name, FORMATS))
        except OSError as error:  # a name that is too long, or a folder that nobody may look into
            raise FormatError(f"cannot be read: {error.strerror}", path=name) from None

    def read(self, name: str) -> tuple[str, str]:
        """Read a file as plain as a page has it; its mark tells later whether it is still the same."""
        text = self._read(name)
        return plain(text), mark_of(text)

    def mark(self, name: str) -> str | None:
        """Tell what a file has now; None where there is none."""
        self.path(name)
        return mark_of(self._read(name)) if self.has(name, Path.is_file) else None

    def _read(self, name: str) -> str:
        path = self.path(name, FORMATS)
        try:
            return read_exactly(path, LIMIT)
        except FormatError as error:
            raise FormatError(str(error).removeprefix(f"{path}: "), path=name) from None

    def save(self, name: str, text: str, expected: str | None) -> str:
        """Write a file whole, if it is as the page has last seen it; lines that nobody touched stay byte for byte."""
        path = self.path(name)
        with self._writing:
            if self.mark(name) != expected:
                raise ConflictError
            if not path.parent.is_dir():
                raise FormatError("must lie in a folder that there is", path=name)
            remove_unfinished(path.parent, older_than=LONG_AGO)
            if expected is not None:
                text = in_form_of(text, self._read(name))
            write_whole(path, text)
        return mark_of(text)


def mark_of(text: str) -> str:
    """Fingerprint a text."""
    return hashlib.sha256(text.encode()).hexdigest()


# The server.


@dataclass
class Studio:
    """What the server has: a folder, the file that it was started with, and processes that work for it."""

    folder: Folder
    name: str | None  # of the file
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    workers: dict[str, Worker] = field(default_factory=dict)
    trainings: Trainings = field(default_factory=Trainings)

    @classmethod
    def of(cls, file: Path | None, port: int) -> Studio:
        """Take the folder of a file, or else the current one."""
        if file is None:
            return cls(Folder(Path.cwd().resolve()), None, port)
        path = file.resolve()
        folder = Folder(path.parent)
        folder.path(path.name, FORMATS if exists(path) else (SUFFIX,))  # is a file that it can have
        return cls(folder, path.name, port)

    @cached_property
    def session(self) -> Session:
        """What it shares with its pages."""
        return Session(self.port, self.folder.root)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    def app(self) -> ASGIApp:
        """Make the application."""
        plain = (self.prove, self.hello, self.files, self.open, self.mark, self.save, self.start)
        others = (*plain, self.play, self.train, self.steer)
        answers = {job: partial(self.do, job) for job in PAGE_JOBS} | {answer.__name__: answer for answer in others}
        posts = {name: _endpoint(answer, name in PAGE_JOBS) for name, answer in answers.items()}
        posts["follow"] = self.follow
        routes = [Route("/", self.page), Route("/{asset}", _asset), Route("/report/{training}/{number}", self.report)]
        routes += [Route(f"/api/{name}", respond, methods=["POST"]) for name, respond in posts.items()]
        return AccessGuard(Starlette(routes=routes, lifespan=self.lifespan), self.port, self.session)

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Have workers while the server runs; clear away what a save that was killed has left."""
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

    # What the page asks for.

    async def page(self, request: Request) -> Response:
        """Serve the page; to those who have the token, with the secret."""
        given = same(request.query_params.get("token", ""), self.token)
        text = _assets()["index.html"].read_text(encoding="utf-8")
        return HTMLResponse(text.replace("{{key}}", self.session.secret if given else ""))

    async def prove(self, body: Body) -> Data:
        """Prove to a page that this is its studio."""
        return dict(self.session.prove(_text(body, "nonce")[:LONGEST_NONCE]))

    async def hello(self, body: Body) -> Data:
        """Say which file to begin with."""
        return {"name": self.name, "folder": str(self.folder.root)}

    async def files(self, body: Body) -> Data:
        """List the files that can be opened."""
        return {"files": await run_in_threadpool(self.folder.files)}

    async def open(self, body: Body) -> Data:
        """Read a file; one that is not there yet begins as a new task, and one of another format is a start."""
        name = _text(body, "name")
        suffix = Path(name).suffix.lower()
        if not await run_in_threadpool(self.folder.has, name):
            self.folder.path(name)  # which can be written
            return {"name": name, "text": None, "mark": None}
        text, mark = await run_in_threadpool(self.folder.read, name)
        if suffix == SUFFIX:
            return {"name": name, "text": text, "mark": mark}
        answer = await self.workers[CHECKS].ask({"do": "import", "text": text, "suffix": suffix})
        return {"name": None, "mark": None, **answer}

    async def mark(self, body: Body) -> Data:
        """Tell whether a file is still the same."""
        return {"mark": await run_in_threadpool(self.folder.mark, _text(body, "name"))}

    async def save(self, body: Body) -> Data:
        """Write a file, unless somebody else has changed it: then the page is told what it has now."""
        name, text, expected = _text(body, "name"), _text(body, "text"), body.get("expected")
        try:
            known = expected if isinstance(expected, str) else None
            return {"mark": await run_in_threadpool(self.folder.save, name, text, known)}
        except ConflictError:
            return {"conflict": await self.open({"name": name})}

    async def start(self, body: Body) -> Data:
        """Give the text of a start."""
        return {"text": start_text(_text(body, "name"))}

    async def do(self, job: str, body: Body) -> Data:
        """Run a job in its worker."""
        return await self.workers[PAGE_JOBS[job]].ask({**self.checked(body), "do": job})

    def checked(self, body: Body) -> Body:
        """Check the text of a job, and say in which folder it belongs, and in which the studio is."""
        text = body.get("text", "")
        if not isinstance(text, str) or len(text.encode()) > LIMIT:
            raise FormatError(f"a text must have at most {LIMIT:,} bytes to be edited here")
        folder = self.folder.path(_text(body, "name")).parent if body.get("name") else ""
        return {**body, "text": text, "folder": str(folder), "root": str(self.folder.root)}

    # Games and training.

    async def play(self, body: Body) -> Data:
        """Play a game; teammates that have learnt are those of a training."""
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
        """Serve the report that a training has written; its address cannot be guessed."""
        path = self.trainings.report(request.path_params["training"], request.path_params["number"])
        return Response(status_code=404) if path is None else FileResponse(path, media_type="text/html")


def _endpoint(answer: Answer, gives_up: bool) -> Callable[[Request], Awaitable[Response]]:
    """Answer requests; `gives_up` stops the work when the page no longer waits."""

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
    """Work as long as the page waits; it hangs up when it is closed or has a newer request."""

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
        raise FormatError("the request is incomplete") from None  # which nobody hears
    try:
        data = json.loads(sent or b"{}")
        json.dumps(data, ensure_ascii=False).encode()  # fails where a text has half a character
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
    """Serve a file of the page's own."""
    name = request.path_params["asset"]
    kind = KINDS.get(Path(name).suffix)
    if kind is None or name not in _assets():
        return Response(status_code=404)
    return Response(_assets()[name].read_text(encoding="utf-8"), media_type=kind)


@cache
def _assets() -> dict[str, Traversable]:
    """List the files of the page, and those that it shares with reports."""
    folders = (resources.files("hocket.studio.page"), resources.files("hocket.draw") / "web")
    return {entry.name: entry for folder in folders for entry in folder.iterdir()}
