"""Write the table of docs/cluster.md that says how far a run scales: a model, computed from measured costs.

python scripts/make_scaling.py             # write
python scripts/make_scaling.py --check     # exit 1 if it is out of date
"""

from __future__ import annotations

import sys
from pathlib import Path

from gradlab.cli.output import duration
from gradlab.parts import BUILT_IN
from gradlab.runs.executors.base import Executor, forecast

PAGE = Path(__file__).parent.parent / "docs" / "cluster.md"
START, END = "<!-- generated: scaling -->", "<!-- end of generated -->"
CASES = [
    ("20,000 trials of 5 ms", 20_000, 0.005, (2, 16)),
    ("20,000 trials of 1 s", 20_000, 1.0, (16, 256, 1000)),
    ("10⁶ trials of 5 ms", 10**6, 0.005, (16, 64, 1000)),
    ("10⁶ trials of 0.1 s", 10**6, 0.1, (64, 256, 1000)),
    ("10⁶ trials of 1 s", 10**6, 1.0, (256, 1000)),
]


def make_table() -> str:
    """Compute every case on Ray."""
    part = BUILT_IN.get("executor", "ray")
    assert issubclass(part, Executor)
    lines = [
        START,
        "",
        "| what | cores | bundles | time (model) | cores that train | coordinator busy | the limit |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for name, trials, seconds, sizes in CASES:
        for cores in sizes:
            found = forecast(trials, seconds, cores, part.costs, part.bundle_seconds)
            lines.append(
                f"| {name} | {cores:,} | {found.bundles:,} | {duration(found.seconds)} | {found.efficiency:.0%} | "
                f"{found.coordinator:.0%} | {found.limit} |"
            )
    return "\n".join([*lines, "", END])


def main() -> int:
    """Write the table, or check it."""
    text = PAGE.read_text(encoding="utf8")
    wanted = text.split(START)[0] + make_table() + text.split(END)[1]
    if "--check" in sys.argv:
        return int(wanted != text)
    if wanted != text:
        PAGE.write_text(wanted, encoding="utf8")
        print(f"wrote {PAGE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
