"""A visit to the live lab by a real browser, for tests: waits for what it reads, notes what should not happen."""

from __future__ import annotations

from typing import Any

from lab_server import Lab

SMALL = "#steps=60&a.depth=8&b.depth=8&a.width=16&b.width=16&task=moons&factor=skip&b.skip=identity"
READY, ENDED = "html[data-ready='true']", "body[data-ended='true']"


class Visit:
    """A visit to the lab that notes everything that should not happen."""

    def __init__(self, browser: Any, lab: Lab, path: str, *, refusals: int = 0, **options: Any) -> None:
        """Open a page; `refusals` counts the answers 409 and 422 that the test asks for, which the browser notes."""
        self.lab, self.refusals = lab, refusals
        self.faults: list[str] = []
        self.context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
        self.page = self.context.new_page()
        self.page.set_default_timeout(180_000)  # a busy machine is no failure
        self.page.on("console", lambda message: self.faults.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("request", self._note)
        where, _, fragment = path.partition("#")
        self.page.goto(f"{lab.base}{where}?token={lab.address.token}" + (f"#{fragment}" if fragment else ""))
        assert "token" not in self.page.url

    def _note(self, request: Any) -> None:
        if not request.url.startswith((f"{self.lab.base}/", "data:", "blob:")):
            self.faults.append(f"request: {request.url}")

    def __enter__(self) -> Any:
        self.wait(READY)
        return self.page

    def wait(self, selector: str) -> None:
        self.page.wait_for_selector(selector, state="attached")

    def __exit__(self, kind: Any, *error: object) -> None:
        self.context.close()
        refused = [fault for fault in self.faults if "status of 422" in fault or "status of 409" in fault]
        if kind is None:
            assert [fault for fault in self.faults if fault not in refused] == []
            assert len(refused) == self.refusals


def wait(page: Any, selector: str) -> None:
    page.wait_for_selector(selector, state="attached")


def read(page: Any, selector: str, words: str) -> None:
    """Wait until an element says these words: what is sent comes on one connection, what is answered on another."""
    page.locator(selector).filter(has_text=words).wait_for()


def digests(page: Any) -> list[str]:
    wait(page, ".card[data-arm='1'][data-digest]:not([data-digest=''])")
    return [page.locator(f".card[data-arm='{arm}']").get_attribute("data-digest") for arm in (0, 1)]


def losses(page: Any) -> list[str]:
    return [page.locator(f".card[data-arm='{arm}'] .loss").inner_text() for arm in (0, 1)]


def play_to_the_end(page: Any) -> None:
    page.locator("#speed").fill("6")
    page.locator("#play").click()
    wait(page, ENDED)
