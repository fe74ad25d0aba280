"""The application of the lab: what the page offers, a page as a study file, and the routes behind both."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from gradlab.errors import DataError, GradlabError, InvalidInput, shortened
from gradlab.optim.optimizers import Optimizer
from gradlab.parts import BUILT_IN
from gradlab.report import page as report_page
from gradlab.runs.store.files import write_bytes
from gradlab.spec.base import plain_json
from gradlab.spec.messages import NAME_PATTERN, PATTERNS
from gradlab.spec.stored import read_json
from gradlab.spec.yaml_text import dump
from gradlab.web.guard import REPORT_POLICY
from gradlab.web.lessons import get_lesson, lessons, write_lesson
from gradlab.web.runs import Runs
from gradlab.web.session import Session, Sessions
from gradlab.web.settings import (
    BODY,
    PAGES,
    PARAMETERS,
    PATHS,
    TRAINING,
    UPLOAD,
    Refused,
    Settings,
    call_setting,
    read_settings,
    study_tree,
)
from gradlab.web.uploads import Uploads

KINDS = ("skip", "norm", "init", "activation", "optimizer")
SCALES = {
    "0.1": "0.1",
    "0.5": "0.5",
    "1": "1",
    "1.5": "1.5",
    "2": "2",
    "1/sqrt(depth)": "1/√depth",
    "1/depth": "1/depth",
}
TASK_NAMES = {
    "identity": "identity: copy 64 numbers",
    "circles": "circles: one class around the other",
    "moons": "moons: two half circles",
    "spirals": "spirals: two arms",
    "xor": "XOR: four squares",
    "mnist": "MNIST: 55,000 digits",
    "upload": "your own file…",
}


def offer_choices(own: Path | None = None) -> dict[str, Any]:
    """Everything that the page needs to build its forms; `own` is a folder of further lessons."""
    return {
        "fields": [{"name": name, "label": call_setting(name)} for name in PATHS],
        "parts": {kind: _parts(kind) for kind in KINDS},
        "scales": [{"value": value, "label": label} for value, label in SCALES.items()],
        "tasks": TASK_NAMES,
        "defaults": Settings().model_dump(mode="json"),
        "lessons": [lesson.model_dump(mode="json") for lesson in lessons(own).values()],
        "limits": {"pages": PAGES, "training": TRAINING, "parameters": PARAMETERS, "upload": UPLOAD},
    }


def _parts(kind: str) -> list[dict[str, str]]:
    """Parts of a kind that need no parameter, with the first line of their description."""
    found = []
    for name in BUILT_IN.names(kind):
        part = BUILT_IN.get(kind, name)
        if issubclass(part, Optimizer) and part.matrices_only:
            continue
        label = part.called or ("none" if name == "none" else name.replace("_", " "))
        found.append({"name": name, "label": label, "summary": part.summary()})
    return sorted(found, key=lambda part: part["name"] != "none")


# A page as a study file: `gradlab run` of it gives the bits that the page showed.


def write_study(settings: Settings, uploads: Uploads, data_file: str = "") -> str:
    """The study as YAML; an uploaded file is called `data_file` in it."""
    tree = study_tree(settings, uploads)
    del tree["name"]  # a file's name is the study's
    if settings.task == "upload":
        tree["base"]["data"]["path"] = data_file or uploads.get(settings.upload).name
    return f"# Saved from the live lab. More seeds: gradlab run FILE --seeds 10\n{dump(tree)}"


def save_study(settings: Settings, uploads: Uploads, folder: Path, name: Any) -> dict[str, str]:
    """Write NAME.yaml (and a copy of uploaded data) to the folder; never over another file."""
    if not isinstance(name, str) or re.fullmatch(NAME_PATTERN, name) is None or name.endswith((".yaml", ".yml")):
        raise InvalidInput(f"the name {shortened(name)} cannot be used; {PATTERNS[NAME_PATTERN]}")
    data_file, files = "", dict[str, bytes]()
    if settings.task == "upload":
        source = uploads.get(settings.upload).path
        data_file = f"{name}{source.suffix}"
        files[data_file] = source.read_bytes()
    text = write_study(settings, uploads, data_file)
    files[f"{name}.yaml"] = text.encode()
    for file, content in files.items():
        if (folder / file).exists() and (folder / file).read_bytes() != content:
            raise InvalidInput(f"{file} is already there with other content; choose another name")
    for file, content in files.items():
        write_bytes(folder / file, content)
    return {"file": f"{name}.yaml", "command": f"gradlab run {name}.yaml", "study": text}


def save_lesson(settings: Settings, folder: Path, name: Any) -> dict[str, str]:
    """Write lessons/NAME.yaml below the folder; never over another file."""
    if not isinstance(name, str) or re.fullmatch(NAME_PATTERN, name) is None or name.endswith((".yaml", ".yml")):
        raise InvalidInput(f"the name {shortened(name)} cannot be used; {PATTERNS[NAME_PATTERN]}")
    file = Path(OWN) / f"{name}.yaml"
    text = write_lesson(settings, name, OWN).encode()
    if (folder / file).exists() and (folder / file).read_bytes() != text:
        raise InvalidInput(f"{file} is already there with other content; choose another name")
    (folder / OWN).mkdir(exist_ok=True)
    write_bytes(folder / file, text)
    return {"file": str(file), "command": f"gradlab lab --lessons {OWN} --lesson {name}"}


OWN = "lessons"
"""The folder, below that of the lab, to which lessons are saved."""


# The routes of the lab: pages and their files, sessions, runs. Streams are server-sent events, orders small POSTs.

STATIC = Path(__file__).parent / "static"
FILES = {path.name: path for path in STATIC.iterdir() if path.suffix in (".js", ".css", ".svg")} | {
    report_page.ECHARTS: report_page.FOLDER / report_page.ECHARTS,
    "report.css": report_page.FOLDER / "style.css",
}
"""Every file that a page may ask for, by name; charts and style are the report's."""
GRACE, UNSEEN, HEARTBEAT, LISTING = 3.0, 15.0, 5.0, 1.0
"""Seconds: a page may be away, a session may wait for its page, a silent stream is, between two listings of runs."""
RETRY = 1000
"""Milliseconds after which a page whose stream broke asks for it again: sooner than `GRACE`."""
Handler = Callable[[Request], Awaitable[Response]]


def make_app(sessions: Sessions, runs: Runs, own: Path | None = None) -> Starlette:
    """The application, unguarded (see `guard.py`); `own` is a folder of further lessons."""

    @asynccontextmanager
    async def live(app: Starlette) -> AsyncIterator[None]:
        yield
        sessions.close_all()
        runs.close()

    lab = Lab(sessions, runs, own)
    routes = [
        Route("/", partial(send_page, "lab.html")),
        Route("/lesson/{name}", lab.lesson),
        Route("/runs", partial(send_page, "runs.html")),
        Route("/static/{name}", send_file),
        Route("/api/choices", lab.choices),
        Route("/api/sessions", answering(lab.open), methods=["POST"]),
        Route("/api/sessions/{id}/events", lab.events),
        Route("/api/sessions/{id}/{action}", answering(lab.act), methods=["POST"]),
        Route("/api/upload", answering(lab.upload), methods=["POST"]),
        Route("/api/study", answering(lab.study), methods=["POST"]),
        Route("/api/lesson", answering(lab.save_lesson), methods=["POST"]),
        Route("/api/studies", lab.studies),
        Route("/api/runs/events", lab.run_events),
        Route("/api/runs/report", lab.report),
        Route("/api/runs/{action}", answering(lab.act_on_run), methods=["POST"]),
    ]
    handlers = {GradlabError: refuse, ClientDisconnect: forget}
    return Starlette(routes=routes, lifespan=live, exception_handlers=handlers)


async def send_page(name: str, request: Request) -> Response:
    """A page as it is in the package."""
    return FileResponse(STATIC / name, media_type="text/html")


async def send_file(request: Request) -> Response:
    """A file of the pages; only names that are known."""
    path = FILES.get(request.path_params["name"])
    return PlainTextResponse("there is no such file\n", 404) if path is None else FileResponse(path)


async def refuse(request: Request, error: Exception) -> Response:
    """An error as a sentence."""
    code = 409 if isinstance(error, Refused) else 422 if isinstance(error, InvalidInput) else 500
    return JSONResponse({"error": str(error)}, code)


async def forget(request: Request, error: Exception) -> Response:
    """The page went away in the middle of its message: nobody hears the answer, and nothing is to be said."""
    return Response(status_code=400)


def answering(work: Callable[[Request, Any], Awaitable[Any]]) -> Handler:
    """A POST with a body within its limit; the answer is JSON."""

    async def handle(request: Request) -> Response:
        return JSONResponse(await work(request, await read_body(request)))

    return handle


async def read_body(request: Request) -> Any:
    """The body: JSON, or bytes of an upload; refused as soon as it is longer than allowed."""
    is_upload = request.url.path == "/api/upload"
    most, content = UPLOAD if is_upload else BODY, bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > most:
            size = f"{most // 2**20} MiB" if is_upload else f"{most:,} bytes"
            raise Refused(f"this is larger than {size}, which is what the page takes")
    if is_upload:
        return bytes(content)
    try:
        return read_json(content or b"{}")
    except ValueError as error:
        raise InvalidInput(f"the request is not JSON: {error}") from None


class Lab:
    """What the routes do."""

    def __init__(self, sessions: Sessions, runs: Runs, own: Path | None) -> None:
        self._sessions, self._runs, self._own = sessions, runs, own

    async def choices(self, request: Request) -> Response:
        """What the page offers."""
        return JSONResponse(await run_in_threadpool(offer_choices, self._own))

    async def lesson(self, request: Request) -> Response:
        """A lesson is the playground with a preset."""
        try:
            get_lesson(request.path_params["name"], self._own)
        except InvalidInput as error:
            return PlainTextResponse(f"{error}\n", 404)
        return await send_page("lab.html", request)

    # ------------------------------------------------------------------ sessions

    async def open(self, request: Request, body: Any) -> Any:
        """A new session for a page."""
        tree = _mapping(body)
        settings = read_settings(tree.get("settings", {}))
        at = tree.get("at", 0)
        make = partial(
            self._sessions.open,
            settings,
            playing=tree.get("playing") is True,
            at=at if isinstance(at, int) and not isinstance(at, bool) and at > 0 else 0,
            speed=read_speed(tree.get("speed")),
        )
        session = await run_in_threadpool(make)
        asyncio.get_running_loop().call_later(UNSEEN, self._sessions.close_unwatched, session.id)
        return {"id": session.id}

    async def act(self, request: Request, body: Any) -> Any:
        """Play, pause, step, rewind, speed, change."""
        session = self._sessions.get(request.path_params["id"])
        tree, action, sessions = _mapping(body), request.path_params["action"], self._sessions
        works: Mapping[str, Callable[[], dict[str, Any] | None]] = {
            "play": lambda: sessions.play(session),
            "pause": session.pause,
            "step": session.make_step,
            "speed": lambda: session.set_speed(read_speed(tree.get("speed"))),
            "rewind": lambda: sessions.rewind(session),
            "change": lambda: sessions.change(session, read_settings(tree.get("settings"))),
        }
        if action not in works:
            raise InvalidInput(f"{shortened(action)} is not something that a page can do")
        # a change is planned first, which takes too long for the server's own thread; orders keep their order there
        answer = await run_in_threadpool(works[action]) if action == "change" else works[action]()
        return {**(answer or {}), "told": session.told}

    async def events(self, request: Request) -> Response:
        """The stream of a session: the newest message of every kind, never a queue."""
        session = self._sessions.get(request.path_params["id"])
        self._sessions.check_room()
        return StreamingResponse(self._stream(session), media_type="text/event-stream")

    async def _stream(self, session: Session) -> AsyncIterator[str]:
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        leave = session.messages.listen(lambda: _call(loop, news.set))
        sent: dict[str, int] = {}
        self._sessions.connected += 1
        try:
            yield f"retry: {RETRY}\n\n"
            while True:
                news.clear()
                for kind, (number, content) in list(session.messages.newest.items()):
                    if sent.get(kind) != number:
                        sent[kind] = number
                        yield f"event: {kind}\ndata: {content.decode()}\n\n"
                try:
                    await asyncio.wait_for(news.wait(), HEARTBEAT)
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            leave()
            self._sessions.connected -= 1
            loop.call_later(GRACE, self._sessions.close_unwatched, session.id)

    async def upload(self, request: Request, body: Any) -> Any:
        """A data file of the user's own."""
        name = request.query_params.get("name", "")
        if not name:
            raise DataError("the file has no name")
        return (await run_in_threadpool(self._sessions.uploads.add, name, body)).to_json()

    async def save_lesson(self, request: Request, body: Any) -> Any:
        """The page's networks as a lesson."""
        tree = _mapping(body)
        settings = read_settings(tree.get("settings", {}))
        return await run_in_threadpool(save_lesson, settings, self._runs.folder, tree.get("name"))

    async def study(self, request: Request, body: Any) -> Any:
        """The study of a page: its text, and with a name the file."""
        tree = _mapping(body)
        settings: Settings = read_settings(tree.get("settings"))
        if tree.get("name") is None:
            return {"study": write_study(settings, self._sessions.uploads)}
        return save_study(settings, self._sessions.uploads, self._runs.folder, tree["name"])

    # ------------------------------------------------------------------ runs

    async def studies(self, request: Request) -> Response:
        """What can be started."""
        return JSONResponse(await run_in_threadpool(self._runs.studies))

    async def run_events(self, request: Request) -> Response:
        """The stream of all runs: sent when something changes."""
        self._sessions.check_room()
        return StreamingResponse(self._stream_runs(), media_type="text/event-stream")

    async def _stream_runs(self) -> AsyncIterator[str]:
        last = ""
        self._sessions.connected += 1
        try:
            while True:
                text = json.dumps(plain_json(await run_in_threadpool(self._runs.listing)))
                yield ": still here\n\n" if text == last else f"event: runs\ndata: {text}\n\n"
                last = text
                await asyncio.sleep(LISTING)
        finally:
            self._sessions.connected -= 1

    async def report(self, request: Request) -> Response:
        """The report of a run, without the rights of a page of the lab."""
        path = await run_in_threadpool(self._runs.find_report, request.query_params.get("run"))
        return FileResponse(path, media_type="text/html", headers={"content-security-policy": REPORT_POLICY})

    async def act_on_run(self, request: Request, body: Any) -> Any:
        """Check, start, stop, move aside, compare."""
        tree, action, runs = _mapping(body), request.path_params["action"], self._runs
        works: Mapping[str, Callable[[], Any]] = {
            "check": lambda: runs.check(tree.get("study")),
            "start": lambda: runs.start(tree.get("study"), tree.get("seeds"), tree.get("quick")),
            "stop": lambda: runs.stop(tree.get("run")),
            "aside": lambda: runs.move_aside(tree.get("run")),
            "compare": lambda: runs.compare(tree.get("first"), tree.get("second")),
        }
        if action not in works:
            raise InvalidInput(f"{shortened(action)} is not something that can be done with a run")
        return plain_json(await run_in_threadpool(works[action]))


def read_speed(value: Any) -> float | None:
    """Steps per second; None: as fast as they come."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.1 <= value <= 1e6:
        raise InvalidInput("speed: steps per second from 0.1 to 1,000,000 were expected, or nothing for all")
    return float(value)


def _mapping(body: Any) -> Mapping[str, Any]:
    if not isinstance(body, Mapping):
        raise InvalidInput("an object was expected")
    return body


def _call(loop: asyncio.AbstractEventLoop, work: Callable[[], None]) -> None:
    """Call from another thread; a loop that has ended needs no news."""
    try:
        loop.call_soon_threadsafe(work)
    except RuntimeError:
        return
