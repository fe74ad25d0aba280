"""Would a trial have the same bits on another machine? The fingerprints of two machines, compared."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from gradlab.runs.store.environment import environment, other_numerics

SOURCE = "source"
"""Hash of Gradlab's own source files: two machines of a cluster have to run the same Gradlab."""
ROOMS = ("data", "engines", "network", "optim", "parts", "probes", "spec", "trials", "streams.py")
"""Where the bits of a trial are made."""


def take_fingerprint() -> dict[str, Any]:
    """Return versions, processor, instruction set, BLAS and the hash of Gradlab's sources, of this process."""
    import scipy.linalg.blas  # noqa: F401 - loads its BLAS, so that every process reports the same libraries

    return {**environment(), "node": platform.node(), SOURCE: hash_sources()}


def compare_fingerprints(run: Mapping[str, Any], worker: Mapping[str, Any]) -> list[str]:
    """Describe the differences that can change bits; none if the worker gives the bits of the run."""
    found = other_numerics(run, worker)
    if run.get(SOURCE) != worker.get(SOURCE):
        versions = [(each.get("packages") or {}).get("gradlab") for each in (run, worker)]
        found.append(f"gradlab was {versions[0]}, is {versions[1]} with different source files")
    return found


def describe_refusal(worker: Mapping[str, Any], differences: list[str]) -> str:
    """Return the sentence with which a worker is refused."""
    machine = worker.get("node") or "an unknown machine"
    return (
        f"the worker on {machine} is refused, because the same trial may give different "
        f"bits there ({'; '.join(differences)}); --mixed accepts such workers and notes it in the report"
    )


@cache
def hash_sources() -> str:
    """Return a hash of the Python files that decide the bits of a trial, by name and content."""
    root = Path(__file__).resolve().parents[1]
    digest = sha256()
    for path in sorted(path for room in ROOMS for path in _files(root / room)):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _files(place: Path) -> list[Path]:
    return [place] if place.is_file() else list(place.rglob("*.py"))
