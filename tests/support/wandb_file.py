"""Read an offline file of W&B: its records are W&B's own messages in the framing of LevelDB's log.

W&B has had no reader in Python since its sync moved into a program of its own, so the framing is read here: a header of
7 bytes, then blocks of 32 KiB with records of (checksum 4, length 2, kind 1, data).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

HEADER, BLOCK, HEAD = 7, 32 * 1024, 7
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


def read_records(path: Path) -> Iterator[Any]:
    """Yield every record of a file, parsed by W&B's own classes."""
    from wandb.proto.wandb_internal_pb2 import Record

    for data in _frames(path.read_bytes()):
        record = Record()
        record.ParseFromString(data)
        yield record


def _frames(content: bytes) -> Iterator[bytes]:
    assert content[:4] == b":W&B"
    at, pending = HEADER, b""
    while at + HEAD <= len(content):
        if BLOCK - at % BLOCK < HEAD:  # the rest of a block is too small for a record
            at += BLOCK - at % BLOCK
            continue
        length, kind = int.from_bytes(content[at + 4 : at + 6], "little"), content[at + 6]
        data = content[at + HEAD : at + HEAD + length]
        at += HEAD + length
        if kind in (FULL, FIRST):
            pending = b""
        assert kind in (FULL, FIRST, MIDDLE, LAST)
        pending += data
        if kind in (FULL, LAST):
            yield pending
