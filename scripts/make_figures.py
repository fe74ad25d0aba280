"""Make the figures of the README and the docs from real runs at their full budget (about two minutes).

python scripts/make_figures.py

The screenshot of the report needs Chromium and `pip install '.[browser]'`; without them it is not updated.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

import gradlab
from gradlab.report.draw import draw_overview, render_image

EXAMPLES = Path(__file__).parent.parent / "examples"
FIGURES = Path(__file__).parent.parent / "docs/figures"


def screenshot(page: Path, picture: Path) -> None:
    """Save a screenshot of a report's micro-world."""
    program = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        program = None
    if program is None:
        print("no screenshot: Chromium or playwright is not installed")
        return
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        shown = browser.new_page(viewport={"width": 1200, "height": 1000})
        shown.goto(page.resolve().as_uri())
        shown.wait_for_function("document.documentElement.dataset.ready === 'true'")
        shown.add_style_tag(content=".sticky { position: static !important } body { padding: 0 1rem }")
        shown.locator("#inside").screenshot(path=str(picture))
        browser.close()
    with Image.open(picture) as image:
        top = image.convert("RGB").crop((0, 0, image.width, min(image.height, 1560)))
        top.quantize(128).save(picture, optimize=True)


def main() -> None:
    """Draw one overview per study."""
    for study in ("identity", "gradflow"):
        with TemporaryDirectory() as folder:
            result = gradlab.run(study, out=Path(folder) / study)
            shutil.copy(Path(folder) / study / "figures/overview.png", FIGURES / f"{study}.png")
            if study == "identity":
                screenshot(Path(folder) / study / "report.html", FIGURES / "report.png")
        print(f"{FIGURES / study}.png: {result.answer}")
    hand_written()


def hand_written() -> None:
    """Draw the comparison of examples/compare_identity.py: seed by seed, and layer by layer."""
    sys.path.insert(0, str(EXAMPLES))
    import compare_identity as example

    result = gradlab.compare(example.train, example.ARMS, audit=example.CORRECTED)
    chosen = ("training_loss", "by_seed", "gradient_at_start_by_layer", "gradient_heat_map")
    picture = draw_overview({name: result.charts[name] for name in chosen}, result.study.question)
    (FIGURES / "compare.png").write_bytes(render_image(picture, "png"))
    print(f"{FIGURES / 'compare'}.png: {result.answer}")


if __name__ == "__main__":
    main()
