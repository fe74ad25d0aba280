"""What a result depends on besides its study: versions and machine."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

_PACKAGES = ("gradlab", "numpy", "scipy", "numba", "llvmlite", "pydantic", "pandas", "pyarrow", "matplotlib", "torch")
_DECIDES_BITS = ("numpy", "scipy", "numba", "llvmlite")
"""Packages whose versions can change the bits of a result."""


def environment() -> dict[str, Any]:
    """Versions, processor, BLAS: enough to know whether bits can be expected to agree."""
    from threadpoolctl import threadpool_info

    return {
        "python": sys.version.split()[0],
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "blas": [
            {key: pool.get(key) for key in ("internal_api", "version", "architecture")}
            for pool in threadpool_info()
            if pool.get("user_api") == "blas"
        ],
        "blas_threads": 1,
        "flush_to_zero": False,
    }


def other_numerics(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """In what two environments differ that can change bits, in words."""
    pairs = [(name, before.get(name), now.get(name)) for name in ("system", "processor")]
    pairs.append(("BLAS kernels", _kernels(before), _kernels(now)))
    old, new = (where.get("packages", {}) for where in (before, now))
    pairs += [(name, old.get(name), new.get(name)) for name in _DECIDES_BITS]
    return [f"{name} was {was}, is {now}" for name, was, now in pairs if was != now]


def mixed_note(environment: Mapping[str, Any]) -> str | None:
    """What a report has to say of a run that was continued in another environment."""
    others = [", ".join(other_numerics(environment, other)) for other in environment.get("also", ())]
    return f"Trials of different environments are mixed: {'; '.join(others)}." if others else None


def _kernels(environment: Mapping[str, Any]) -> str:
    """For which processors the loaded BLAS libraries chose their kernels; their versions come with the packages."""
    found = {str(pool.get("architecture")) for pool in environment.get("blas", ()) if pool.get("architecture")}
    return ", ".join(sorted(found))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
