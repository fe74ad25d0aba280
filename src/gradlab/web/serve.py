"""Serve the lab on this machine until Ctrl-C."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from gradlab.errors import EnvironmentFault, GradlabError, InvalidInput
from gradlab.web.settings import read_settings
from gradlab.words import join

if TYPE_CHECKING:
    import uvicorn

    from gradlab.web.session import Sessions

PORT, TRIED = 8765, 20
"""Where the lab is unless told otherwise, and how many ports after it are tried."""
SWITCH = 0.0005
"""Seconds after which a thread that looks gives way to one that trains, between two calls of its kernels."""


@dataclass(frozen=True)
class Address:
    """Where a server listens."""

    host: str
    port: int
    token: str

    @property
    def url(self) -> str:
        """The link that lets a browser in."""
        return self.link()

    def link(self, page: str = "") -> str:
        """The link to a page, such as `lesson/skip`."""
        name = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "::1": "[::1]"}.get(self.host, self.host)
        return f"http://{name}:{self.port}/{page}?token={self.token}"


def require_web() -> None:
    """Raise if the extra is not installed."""
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise EnvironmentFault(f"the lab needs {join(missing)}: pip install 'gradlab[web]'")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host."""
    return host in ("localhost", "::1") or host.startswith("127.")


def bind(host: str, port: int | None) -> socket.socket:
    """A listening socket: on the port that was asked for, or on the first free one from `PORT` on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    tried = [port] if port is not None else range(PORT, PORT + TRIED)
    for number in tried:
        found = socket.socket(family, socket.SOCK_STREAM)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind((host, number))
            found.listen(128)
        except (OSError, OverflowError) as error:
            found.close()
            reason = getattr(error, "strerror", None) or str(error)
            if port is not None or isinstance(error, socket.gaierror):
                raise InvalidInput(f"cannot listen on {host}, port {number}: {reason}") from None
        else:
            return found
    raise InvalidInput(f"ports {PORT} to {PORT + TRIED - 1} of {host} are all in use; choose one with --port")


def make_server(folder: Path, address: Address, own: Path | None = None) -> tuple[uvicorn.Server, Sessions]:
    """A server for a folder, and the sessions that it holds."""
    import uvicorn

    from gradlab.web.app import make_app
    from gradlab.web.guard import Guard
    from gradlab.web.runs import Runs
    from gradlab.web.session import Sessions

    sessions = Sessions()
    app = Guard(make_app(sessions, Runs(folder), own), address.token, address.port, _other_hosts(address.host))
    options = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=1, ws="none"
    )
    return uvicorn.Server(options), sessions


def serve(folder: Path, host: str, port: int | None, tell: Callable[[Address], None], own: Path | None = None) -> None:
    """Serve until Ctrl-C; `tell` is called with the address once the server listens; `own`: further lessons."""
    require_web()
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder")
    listening = bind(host, port)
    from gradlab.arithmetic import one_blas_thread

    address = Address(host, listening.getsockname()[1], secrets.token_urlsafe(24))
    server, sessions = make_server(folder, address, own)
    sys.setswitchinterval(SWITCH)
    with one_blas_thread():  # for as long as the server runs: the number of threads changes bits
        threading.Thread(target=warm_up, name="gradlab-lab-warm", daemon=True).start()
        tell(address)
        try:
            server.run(sockets=[listening])
        except KeyboardInterrupt:
            pass
        finally:
            sessions.close_all()


def end_with_input() -> None:
    """Read standard input to its end, then stop the server as Ctrl-C does: whoever holds the pipe is gone."""
    with suppress(OSError, ValueError):
        while os.read(sys.stdin.fileno(), 4096):
            pass
    os.kill(os.getpid(), signal.SIGINT)


def warm_up() -> None:
    """Compile or load the kernels, and unpack MNIST, before a page needs them."""
    from gradlab.web.pair import Pair
    from gradlab.web.settings import plan_settings
    from gradlab.web.uploads import Uploads

    uploads = Uploads()
    small = {"depth": 2, "width": 8}
    for task, batch in (("identity", 8), ("xor", "full"), ("mnist", 8)):
        arm = {**small, "batch": batch}
        try:
            settings = read_settings({"task": task, "steps": 1, "a": arm, "b": arm})
            Pair(plan_settings(settings, uploads)).advance(1)
        except GradlabError:
            continue  # the page will say it
    uploads.remove_all()


def _other_hosts(host: str) -> tuple[str, ...]:
    """Names by which a server that others may reach is called, besides those of loopback."""
    if is_loopback(host):
        return ()
    if host not in ("0.0.0.0", "::"):
        return (f"[{host}]" if ":" in host else host,)
    name = socket.gethostname()
    found = {name, socket.getfqdn()}
    with suppress(OSError):
        found |= {f"[{a[4][0]}]" if ":" in str(a[4][0]) else str(a[4][0]) for a in socket.getaddrinfo(name, None)}
    return tuple(found)
