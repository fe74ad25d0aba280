"""Who may call the lab: the browser that opened the printed link, on this machine, from the lab's own pages.

Every request names a known host. The token of the printed link becomes a cookie that no script and no other site can
use, and leaves the address bar. Every POST comes from a page of the lab (`Origin` equals `Host`). Every response
forbids the page to load or call anything from elsewhere.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from html import escape
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "sandbox allow-scripts allow-popups; default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""A report is a file that may come from anybody: it runs its own scripts, without the rights of a page of the lab."""
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
CLOSED = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Gradlab</title>
<h1>This page needs its key</h1>
<p>Open the link that <code>gradlab lab</code> printed in its terminal. If you opened it in this browser before and came
here by a link from another site, <a href="{again}">go on</a>.</p></html>"""


class Guard:
    """Wraps the application; nothing behind it is reached without host, cookie and origin being right."""

    def __init__(self, app: ASGIApp, token: str, port: int, hosts: Collection[str] = ()) -> None:
        self._app, self._token = app, token
        self._cookie = f"gradlab-{port}"  # browsers share cookies between ports
        self._hosts = frozenset(host.lower() for host in (*LOOPBACK, *hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no other protocol is spoken here
        answer = self._judge(scope)
        if answer is not None:
            await answer(scope, receive, _with_headers(send))
            return
        await self._app(scope, receive, _with_headers(send))

    def _judge(self, scope: Scope) -> Response | None:
        """The refusal or redirect that a request gets; None if it may pass."""
        headers, method = Headers(scope=scope), scope["method"]
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or split_host(host) not in self._hosts:
            return PlainTextResponse("this server answers only to its own address\n", 403)
        if method not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("not a method of this server\n", 405)
        if method == "GET" and (answer := self._take_token(scope)) is not None:
            return answer
        if not self._has_cookie(headers):
            if method != "GET" or "text/html" not in headers.get("accept", ""):
                return PlainTextResponse("open the link that `gradlab lab` printed first\n", 403)
            return HTMLResponse(CLOSED.format(again=escape(scope["path"], quote=True)), 403)
        if method == "POST" and headers.get("origin", "") != f"http://{host}":
            return PlainTextResponse("only the lab's own pages may do this\n", 403)
        return None

    def _take_token(self, scope: Scope) -> Response | None:
        """Turn the token of the printed link into a cookie, and go to the same page without it."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        if not given:
            return None
        if not secrets.compare_digest(given[0].encode(), self._token.encode()):
            return PlainTextResponse("this link is from another start of `gradlab lab`\n", 403)
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        path = "/" + scope["path"].lstrip("/\\")  # two slashes would name another host
        answer = RedirectResponse(path + (f"?{rest}" if rest else ""), 303)
        answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path="/")
        return answer

    def _has_cookie(self, headers: Headers) -> bool:
        found = cookie_parser(headers.get("cookie", "")).get(self._cookie, "")
        return secrets.compare_digest(found.encode(), self._token.encode())


def split_host(host: str) -> str:
    """The name in a Host header, without the port, in lower case."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()


def _with_headers(send: Send) -> Send:
    """Send a response with the headers that every response has; its own policy stays."""

    async def send_guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.setdefault("content-security-policy", POLICY)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_guarded
