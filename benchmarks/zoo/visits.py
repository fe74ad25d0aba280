"""Run the doctor on a folder of set-ups: files with `make()` and a docstring that begins with BROKEN: or HEALTHY:.

The docstring says what an expert would want to hear, and was written without sight of the checks. Whether a visit names
the cause is judged by a reader, who writes it into `results/judged_FOLDER.json` (case -> named or not); alarms on
healthy set-ups are counted by themselves.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from gradlab.checks.training import read_training
from gradlab.checks.visit import Visit, visit
from gradlab.errors import described

SECONDS = 120.0
"""More than the default, so that what is found does not depend on how busy the machine is."""


def visit_case(path: Path) -> tuple[str, Visit]:
    """Return what an expert would say of a set-up, and what the doctor says."""
    name = f"case_of_{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return module.__doc__ or "", visit(read_training(module.make()), SECONDS)


def run_folder(folder: Path, names: list[str], results: Path) -> None:
    """Visit every case of a folder, or those named; keep what was said, and count."""
    cases = [path for path in sorted(folder.glob("*.py")) if not names or any(part in path.stem for part in names)]
    kept: dict[str, Any] = {}
    for path in cases:
        start = perf_counter()
        try:
            wanted, made = visit_case(path)
        except Exception as error:
            print(f"{path.stem}: FAILED {described(error)}", flush=True)
            kept[path.stem] = {"wanted": "", "broken": None, "codes": [], "titles": [], "said": described(error)}
            continue
        broken = wanted.lstrip().startswith("BROKEN")
        entry = {"wanted": wanted.strip(), "broken": broken, "codes": list(made.codes), "said": str(made)}
        kept[path.stem] = {**entry, "titles": [cause.title for cause in made.found]}
        kind = "broken " if broken else "healthy"
        print(f"{path.stem} {kind} {perf_counter() - start:3.0f} s: {', '.join(made.codes) or '–'}", flush=True)
        if names:
            print(f"{wanted}\n{made}\n", flush=True)
    if not names:
        results.mkdir(exist_ok=True)
        text = json.dumps(kept, indent=1, ensure_ascii=False)
        (results / f"visits_{folder.name}.json").write_text(text + "\n", encoding="utf8")
    print(count(kept, results / f"judged_{folder.name}.json"))


def count(kept: dict[str, Any], judged: Path) -> str:
    """Say how many faults were found and named, and how many healthy set-ups raised an alarm."""
    broken = {name: entry for name, entry in kept.items() if entry["broken"]}
    healthy = {name: entry for name, entry in kept.items() if entry["broken"] is False}
    alarms = [name for name, entry in healthy.items() if entry["codes"]]
    silent = [name for name, entry in broken.items() if not entry["codes"]]
    lines = [
        f"{len(broken)} broken: {len(broken) - len(silent)} with a finding, silent: {', '.join(silent) or 'none'}",
        f"{len(healthy)} healthy: {len(alarms)} with an alarm: {', '.join(alarms) or 'none'}",
    ]
    if judged.exists():
        named = json.loads(judged.read_text(encoding="utf8"))
        said = [name for name in broken if named.get(name)]
        lines.append(f"named, as judged by a reader ({judged.name}): {len(said)} of {len(broken)}")
    return "\n".join(lines)
