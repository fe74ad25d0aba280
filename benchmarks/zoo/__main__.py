"""The zoo: healthy networks that must raise no alarm, and faults whose cause must be named.

python benchmarks/zoo healthy [NAME …]     # examine them, and keep what was found (benchmarks/zoo/results)
python benchmarks/zoo first [NAME …]       # the faults that the rules were made with
python benchmarks/zoo second [NAME …]      # the faults written down before; the first result is kept
python benchmarks/zoo seeds                # all of it again with other seeds; kept apart
python benchmarks/zoo say NAME …           # print the whole diagnosis of faults by name; nothing is kept
python benchmarks/zoo doctor FOLDER [CASE …]  # gradlab doctor on a folder of set-ups; with CASE, print what it says
python benchmarks/zoo docs                 # write the zoo's section of docs/pytorch.md from what was kept
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "results", HERE.parents[1] / "docs" / "pytorch.md"
SEEDS = (1, 2, 3)
PACKAGES = {
    "timm": "timm", "transformers": "transformers", "peft": "peft", "torch_geometric": "torch_geometric",
    "diffusers": "diffusers", "x_transformers": "x-transformers",
    "segmentation_models_pytorch": "segmentation-models-pytorch", "torch": "torch",
}  # fmt: skip


def stamp_rules() -> str:
    """Return a fingerprint of the doctor's code, so that the page can say which version a result is of."""
    digest = hashlib.sha256()
    for path in sorted((HERE.parents[1] / "src" / "gradlab" / "torch").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def package_versions() -> dict[str, str]:
    """Return the version of each installed package that networks come from."""
    versions = {}
    for module, package in PACKAGES.items():
        try:
            versions[module] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def keep(name: str, found: dict[str, Any]) -> None:
    """Add entries to a file of results; an entry of the same name is replaced."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**kept, **found}, indent=1, ensure_ascii=False) + "\n")


def forget(*files: str) -> None:
    """Drop files of results: a whole run begins anew, so that nothing of an earlier version is left in it."""
    for name in files:
        (RESULTS / f"{name}.json").unlink(missing_ok=True)


def run_healthy(names: list[str]) -> None:
    """Examine healthy networks."""
    from alarms import examine
    from healthy import HEALTHY, PACKAGE, missing

    stamp = stamp_rules()
    if not names:
        forget("healthy", "unexamined", "versions")
    keep("versions", package_versions())
    for name in [each for each in HEALTHY if not names or any(part in each for part in names)]:
        if missing(name):
            print(f"{name}: {PACKAGE[name]} is not installed")
            keep("unexamined", {name: f"{PACKAGE[name]} is not installed"})
            continue
        start = perf_counter()
        try:
            found = examine(name)
        except Exception as error:  # of the package, not of the probe: the network does not run here
            reason = f"does not run here: {type(error).__name__}: {str(error)[:200]}"
            print(f"{name}: {reason}", flush=True)
            keep("unexamined", {name: reason})
            continue
        keep("healthy", {name: {"package": PACKAGE[name], "found": found.found, "rules": stamp}})
        words = "quiet" if found.quiet else f"ALARM {found.found}"
        print(f"{name}: {words} ({perf_counter() - start:.0f} s)", flush=True)


def run_set(which: str, names: list[str]) -> None:
    """Run a set of faults."""
    import first_set
    import second_set
    from faults import run_fault

    faults = {"first": first_set.FAULTS, "second": second_set.FAULTS}[which]
    fresh, stamp = not (RESULTS / "second_at_first.json").exists(), stamp_rules()
    if not names:
        forget(which)
    for name in [each for each in faults if not names or any(part in each for part in names)]:
        one = run_fault(name, faults)
        entry = {"verdict": one.verdict, "wanted": one.wanted, "found": one.found, "noted": one.noted, "rules": stamp}
        keep(which, {name: entry})
        if which == "second" and fresh:
            keep("second_at_first", {name: entry})
        print(f"{one.verdict:7} {name}: {', '.join(one.found) or '–'}", flush=True)


def run_seeds() -> None:
    """Run all faults with three other seeds and the healthy networks with one, to see how much hangs on the draw."""
    import first_set
    import second_set
    from alarms import examine
    from faults import run_fault
    from healthy import HEALTHY, missing

    forget("seeds")
    faults, stamp = {**first_set.FAULTS, **second_set.FAULTS}, stamp_rules()
    for seed in SEEDS:
        failed = [name for name in faults if run_fault(name, faults, seed).verdict != "named"]
        keep("seeds", {f"faults, seed {seed}": {"of": len(faults), "failed": failed, "rules": stamp}})
        print(f"seed {seed}: {len(faults) - len(failed)} of {len(faults)} named; not: {failed}", flush=True)
    seed, alarms, examined = SEEDS[0], [], 0
    for name in [each for each in HEALTHY if not missing(each)]:
        try:
            found = examine(name, seed)
        except Exception:  # of the package: `healthy` tells which networks do not run here
            continue
        examined += 1
        alarms += [] if found.quiet else [name]
    keep("seeds", {f"healthy networks, seed {seed}": {"of": examined, "failed": alarms, "rules": stamp}})
    print(f"seed {seed}: {len(alarms)} alarms in {examined} healthy networks: {alarms}", flush=True)


def say(names: list[str]) -> None:
    """Print what the doctor says of faults."""
    import first_set
    import second_set
    from faults import run_fault

    faults = {**first_set.FAULTS, **second_set.FAULTS}
    for name in [each for each in faults if any(part in each for part in names)]:
        print(f"# {name}\n{run_fault(name, faults).said}\n", flush=True)


def write_docs() -> None:
    """Write the zoo's section of the page."""
    from page import END, START, write_section

    text = PAGE.read_text(encoding="utf8")
    PAGE.write_text(text.split(START)[0] + write_section(RESULTS) + text.split(END)[1], encoding="utf8")


def main() -> None:
    """Do what the first argument says."""
    what, names = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    known = ("healthy", "first", "second", "seeds", "say", "doctor", "docs")
    if what not in known or (what in ("say", "doctor") and not names):
        print(__doc__)
        sys.exit(2)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if what == "docs":
        write_docs()
    elif what == "doctor":
        from visits import run_folder

        run_folder(Path(names[0]), names[1:], RESULTS)
    elif what == "say":
        say(names)
    elif what == "seeds":
        run_seeds()
    elif what == "healthy":
        run_healthy(names)
    else:
        run_set(what, names)


if __name__ == "__main__":
    main()
