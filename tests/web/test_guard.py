"""The lab is private: who may call it, what a page may load, what a request may be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from lab_server import Lab, open_session, served

from gradlab.web.app import FILES
from gradlab.web.guard import split_host


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with served(tmp_path_factory.mktemp("lab")) as found:
        yield found


def test_the_printed_link_becomes_a_cookie_that_scripts_and_other_sites_cannot_use(lab: Lab) -> None:
    answer = httpx.get(f"{lab.base}/lesson/skip", params={"token": lab.address.token, "x": "1"})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/lesson/skip?x=1"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert lab.address.token not in answer.text


def test_a_link_with_two_slashes_does_not_redirect_to_another_host(lab: Lab) -> None:
    with httpx.Client() as client:
        answer = client.send(
            httpx.Request("GET", f"{lab.base}//evil.example/?token={lab.address.token}"), follow_redirects=False
        )
    assert answer.headers["location"] == "/evil.example/"


@pytest.mark.parametrize(
    "path", ["/", "/runs", "/lesson/skip", "/static/lab.js", "/api/choices", "/api/runs/events", "/api/studies"]
)
def test_without_the_key_nothing_is_answered(lab: Lab, path: str) -> None:
    assert httpx.get(f"{lab.base}{path}").status_code == 403
    assert httpx.get(f"{lab.base}{path}", cookies={f"gradlab-{lab.address.port}": "wrong"}).status_code == 403
    assert httpx.get(f"{lab.base}{path}", params={"token": "wrong"}).status_code == 403


def test_a_person_without_the_key_is_told_where_it_is(lab: Lab) -> None:
    answer = httpx.get(f'{lab.base}/lesson/"><script>', headers={"accept": "text/html"})
    assert answer.status_code == 403
    assert "gradlab lab" in answer.text
    assert "<script>" not in answer.text


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:{port}", 200),
        ("127.0.0.1:{port}", 200),
        ("[::1]:{port}", 200),
        ("LOCALHOST:1", 200),
        ("evil.example", 403),
        ("evil.example:{port}", 403),
        ("localhost.evil.example:{port}", 403),
        ("127.0.0.1.evil.example", 403),
        ("127.0.0.2:{port}", 403),
        ("", 403),
    ],
)
def test_only_a_request_to_this_machine_by_name_is_answered(lab: Lab, host: str, status: int) -> None:
    with lab.page() as page:
        answer = page.get("/api/choices", headers={"host": host.format(port=lab.address.port)})
    assert answer.status_code == status


def test_the_host_of_a_request_is_read_without_its_port() -> None:
    assert [split_host(host) for host in ("a:1", "[::1]:80", "[::1]", "A.b", "a:b")] == [
        "a",
        "[::1]",
        "[::1]",
        "a.b",
        "a:b",
    ]


@pytest.mark.parametrize(
    "origin",
    [None, "null", "http://evil.example", "https://127.0.0.1:{port}", "http://localhost:{port}", "http://127.0.0.1"],
)
def test_a_post_from_anywhere_but_the_labs_own_pages_is_refused(lab: Lab, origin: str | None) -> None:
    with lab.page() as page:
        request = page.build_request("POST", "/api/sessions", json={"settings": {}})
        del request.headers["origin"]
        if origin is not None:
            request.headers["origin"] = origin.format(port=lab.address.port)
        assert page.send(request).status_code == 403
    assert len(lab.sessions) == 0


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_not_spoken(lab: Lab, method: str) -> None:
    with lab.page() as page:
        assert page.request(method, "/api/choices").status_code == 405


@pytest.mark.parametrize("path", ["/", "/runs", "/static/lab.js", "/api/choices", "/nothing", "/api/sessions/x/events"])
def test_every_response_forbids_the_page_to_reach_anything_else(lab: Lab, path: str) -> None:
    with lab.page() as page:
        headers = page.get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers


def test_the_pages_name_nothing_from_elsewhere_and_hold_no_inline_script_or_style() -> None:
    static = Path(FILES["lab.js"]).parent
    for page in static.glob("*.html"):
        text = page.read_text()
        assert "http" not in text.replace("http-equiv", "")
        assert "<style" not in text
        assert "style=" not in text
        assert text.count("<script") == text.count('script src="/static/') + text.count(
            '<script type="module" src="/static/'
        )
    for name, path in FILES.items():
        text = path.read_text(encoding="utf8")
        if name not in ("echarts.min.js", "icon.svg"):
            assert "http://" not in text.replace("http://${", "")
            assert "https://" not in text
        if name.endswith(".js") and name != "echarts.min.js":
            assert "innerHTML" not in text
            assert "eval(" not in text


@pytest.mark.parametrize(
    "path",
    ["/static/../guard.py", "/static/..%2f..%2fguard.py", "/static/lab.html", "/static/%2e%2e/app.py", "/static/"],
)
def test_only_the_files_of_the_pages_are_sent(lab: Lab, path: str) -> None:
    with lab.page() as page:
        assert page.get(path).status_code == 404


def test_a_body_that_is_too_long_or_not_json_is_refused_with_a_sentence(lab: Lab) -> None:
    with lab.page() as page:
        long = page.post("/api/sessions", content=b"x" * 200_000)
        assert (long.status_code, "larger than" in long.json()["error"]) == (409, True)
        for content in (b"{", b"[1]", b"[" * 90_000, b"\xff"):
            answer = page.post("/api/sessions", content=content)
            assert answer.status_code == 422
            assert answer.json()["error"]


def test_another_lab_on_this_machine_has_a_cookie_of_its_own(lab: Lab, tmp_path: Path) -> None:
    with served(tmp_path) as other, lab.page() as page, other.page() as second:
        assert set(page.cookies) != set(second.cookies)
        open_session(page)
