"""What a result depends on besides its study: versions and machine."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

_PACKAGES = ("gradlab", "numpy", "scipy", "pydantic", "pandas", "pyarrow", "matplotlib")


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
