"""Make the picture of the live lab for the README and the docs: a real page in Chromium, at the end of its training.

python scripts/make_lab_figure.py

Needs the extras [web] and [browser], and Chromium.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep

from PIL import Image
from playwright.sync_api import sync_playwright

from gradlab.web.serve import Address, bind, make_server

PICTURE = Path(__file__).parent.parent / "docs/figures/lab.png"
SCENE = (
    "task=spirals&factor=skip&seed=1&steps=1500&a.depth=20&b.depth=20&a.width=32&b.width=32&b.skip=identity"
    "&a.lr=0.002&b.lr=0.002"
)


def main() -> None:
    """Train the scene to its end, and keep what the page shows."""
    listening = bind("127.0.0.1", None)
    address = Address("127.0.0.1", listening.getsockname()[1], "picture")
    with TemporaryDirectory() as folder:
        server, _ = make_server(Path(folder), address)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            sleep(0.05)
        with sync_playwright() as play:
            program = shutil.which("chromium")
            browser = play.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": 1440, "height": 1130}, color_scheme="light")
            page.set_default_timeout(120_000)
            page.goto(f"{address.url}#{SCENE}")
            page.wait_for_selector("html[data-ready='true']", state="attached")
            page.locator("#speed").fill("6")
            page.locator("#play").click()
            page.wait_for_selector("body[data-ended='true']", state="attached")
            page.wait_for_timeout(500)
            page.screenshot(path=str(PICTURE))
            browser.close()
        server.should_exit = True
        thread.join(10)
    with Image.open(PICTURE) as image:
        image.convert("RGB").quantize(192).save(PICTURE, optimize=True)
    print(f"{PICTURE}: {PICTURE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
