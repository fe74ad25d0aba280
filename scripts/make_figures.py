"""Make the README's figures from real runs at their full budget (about half a minute).

python scripts/make_figures.py
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import gradlab

FIGURES = Path(__file__).parent.parent / "docs/figures"


def main() -> None:
    """One overview per study."""
    for study in ("identity", "gradflow"):
        with TemporaryDirectory() as folder:
            result = gradlab.run(study, out=Path(folder) / study)
            shutil.copy(Path(folder) / study / "figures/overview.png", FIGURES / f"{study}.png")
        print(f"{FIGURES / study}.png: {result.answer}")


if __name__ == "__main__":
    main()
