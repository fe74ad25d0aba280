"""What this process may use: address space and memory."""

from __future__ import annotations

import os

from gradlab.errors import EnvironmentFault

LEAST_ADDRESSES = 1_300 * 2**20
"""Address space that compiler, NumPy and Arrow take before anything is trained; with less, they abort the process."""


def require_address_space() -> None:
    """Refuse a process whose address space is limited so far that libraries would end it without a word."""
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
    except (ImportError, OSError, ValueError):
        return
    if 0 <= most < LEAST_ADDRESSES:
        raise EnvironmentFault(
            f"this process may use {most / 2**20:,.0f} MiB of address space (ulimit -v), and a run needs at least "
            f"{LEAST_ADDRESSES / 2**20:,.0f} MiB; raise the limit"
        )


def available_bytes() -> int:
    """Memory that a new process could use now (0 where the system does not tell)."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return min(int(line.split()[1]) * 1024, _container_bytes())
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError, AttributeError):
        return 0


def _container_bytes() -> int:
    """What the container this runs in still allows; no limit where there is none."""
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as limit:
            most = int(limit.read())
        with open("/sys/fs/cgroup/memory.current", encoding="ascii") as used:
            return max(most - int(used.read()), 0)
    except (OSError, ValueError):  # no such file, or the word "max"
        return 2**63
