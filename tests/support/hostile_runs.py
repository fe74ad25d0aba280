"""Run folders as somebody else might have written them: tables and JSON mutated, every checksum made to fit again."""

from __future__ import annotations

import copy
import io
import json
import random
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import gradlab
from gradlab.comparing.saving import save_live
from gradlab.errors import GradlabError
from gradlab.runs.store import tables
from gradlab.runs.store.files import KEY, checksum, sealed
from gradlab.runs.store.ledger import GENESIS, _line
from gradlab.runs.store.records import MANIFEST
from gradlab.runs.store.tables import NAMES
from gradlab.spec.base import plain_json
from gradlab.testing.base import small_tree
from gradlab.web.runs import Runs

HUGE = 123456789012345678901234
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 3, 10**9, HUGE, -HUGE, 1.5, "nan", "inf", "-inf", "", "residual", "1e400", [], [1], {}, {"a": 1},
    [[]], ["x", "y"], "\ud800", "a" * 5000,
)  # fmt: skip
"""What a field of a JSON file is replaced by."""
JSON_FILES = (
    "plan.json", "environment.json", "audit.json", "microworld.json", "layers.json", "ledger.jsonl", "ledger.json",
    "results/000001/chunk.json",
)  # fmt: skip


KINDS = ("deep", "tuned", "code", "watched", "judged")


def make_runs(folder: Path) -> dict[str, Path]:
    """Small runs of every kind: with a micro-world, tuned, of a user's function, watched, and of a table."""
    deep = small_tree(depth=5) | {"measure": {"layers": ["start", "log", "end"], "weights": ["end"]}}
    deep["claims"] = [{"text": "The skip ends lower", "metric": "final_loss", "arms": ["residual", "plain"], "op": "<"}]
    tuned = small_tree() | {"tune": {"train.lr": [1e-3, 1e-2], "seeds": 2, "by": "final_loss"}}
    gradlab.run(deep, out=folder / "deep", executor="inline")
    gradlab.run(tuned, out=folder / "tuned", executor="inline", figures=False)
    gradlab.compare(_train, {"slow": {"rate": 0.1}, "fast": {"rate": 0.3}}, 2, metric="miss", out=folder / "code")
    write_watch(folder / "watch")
    save_live(folder / "watch", folder / "watched")
    rows = [f"{arm},{seed},{3.3 - 0.1 * (arm == 'new') + 0.01 * seed}" for arm in ("old", "new") for seed in range(4)]
    (folder / "results.csv").write_text("\n".join(["arm,seed,val_loss", *rows, ""]))
    gradlab.judge(folder / "results.csv", arm="arm", metric="val_loss", claims=["new < old"], out=folder / "judged")
    return {name: folder / name for name in KINDS}


def write_watch(folder: Path, steps: int = 3, *, pid: int = 2**22 + 1) -> Path:
    """The file that a watch on the disk leaves when its process (of this number) is killed."""
    folder.mkdir()
    header = {"format": 1, "pid": pid, "model": "Net", "every": 1, "sha256": "0" * 64, "code": "class Net: ..."}
    rows = [[layer, measure, 0.5 * layer] for layer in (1, 2) for measure in ("grad_l2", "delta_rms")]
    moments = [
        {"step": step, "loss": 1 / (step + 1), "names": ["a", "b"], "layers": rows, "findings": [],
         "scalars": {"loss": {str(step): 1 / (step + 1)}}}
        for step in range(steps)
    ]  # fmt: skip
    lines = [json.dumps(line) for line in (header, *moments)]
    (folder / "watch.jsonl").write_text("\n".join([*lines, '{"step": 3, "lo']))
    return folder


def _train(rate: float, seed: int) -> dict[str, Any]:
    return {"loss": [float(np.exp(-rate * step)) for step in range(5)], "miss": rate + seed / 10}


# ---------------------------------------------------------------------- tables


def rewrite_table(chunk: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Replace a table of a chunk by what `change` makes of it; the manifest fits the new bytes."""
    buffer = io.BytesIO()
    table = change(pq.read_table(io.BytesIO((chunk / f"{name}.parquet").read_bytes())))
    pq.write_table(table, buffer, store_schema=False)
    rewrite_file(chunk, f"{name}.parquet", buffer.getvalue(), table.num_rows)


def rewrite_file(chunk: Path, name: str, content: bytes, rows: int | None = None) -> None:
    """Replace a file of a chunk; the manifest fits the new bytes."""
    manifest = json.loads((chunk / MANIFEST).read_bytes())
    manifest["files"][name] = {"rows": rows, "bytes": len(content), "sha256": sha256(content).hexdigest()}
    manifest[KEY] = checksum(manifest)
    (chunk / name).write_bytes(content)
    (chunk / MANIFEST).write_text(json.dumps(manifest))


def harm_table(run: Path, rng: random.Random) -> str:
    """Drop, rename, retype or overwrite something in one table of a run; says what was done."""
    chunk = rng.choice(sorted((run / "results").iterdir()))
    if rng.random() < 0.1 and (chunk / "weights.safetensors").exists():
        return _harm_weights(chunk, rng)
    name = rng.choice(NAMES)
    told = ""

    def change(table: Any) -> Any:
        nonlocal told
        column = rng.choice(table.column_names)
        index = table.column_names.index(column)
        how = rng.choice(("drop", "rename", "retype", "values", "values", "values", "double", "rows", "order"))
        told = f"{name}.{column}: {how}"
        if how == "drop":
            return table.drop_columns([column])
        if how == "rename":
            other = rng.choice((*table.column_names, "x", "", "final_loss", "value"))
            told += f" to {other}"
            return table.rename_columns([other if each == column else each for each in table.column_names])
        if how == "order":
            return table.select(rng.sample(table.column_names, len(table.column_names)))
        if how == "double":
            return table.append_column(column, table[column])
        if how == "rows":
            rows = [rng.randrange(max(1, table.num_rows)) for _ in range(rng.choice((0, 1, table.num_rows, 40)))]
            return table.take(pa.array(rows if table.num_rows else [], pa.int64()))
        values = table[column].to_pylist()
        if how == "retype":
            kind = rng.choice((pa.string(), pa.int32(), pa.float32(), pa.bool_(), pa.list_(pa.int64()), pa.binary(),
                               pa.timestamp("s"), pa.null(), pa.decimal128(38, 0)))  # fmt: skip
            told += f" {kind}"
            return table.set_column(index, column, _as_kind(values, kind))
        new = [_odd_value(table.schema.field(column).type, rng) if rng.random() < 0.5 else v for v in values]
        told += f" {sorted({str(v) for v in new} - {str(v) for v in values})[:3]}"
        return table.set_column(index, column, pa.array(new, table.schema.field(column).type, from_pandas=False))

    rewrite_table(chunk, name, change)
    return f"{chunk.name}/{told}"


def _as_kind(values: list[Any], kind: Any) -> Any:
    filler: dict[Any, Any] = {
        pa.string(): "x", pa.int32(): 7, pa.float32(): 0.5, pa.bool_(): True, pa.list_(pa.int64()): [1, 2],
        pa.binary(): b"\xff", pa.timestamp("s"): 5, pa.null(): None, pa.decimal128(38, 0): HUGE,
    }  # fmt: skip
    return pa.array([filler[kind]] * len(values), kind)


def _odd_value(kind: Any, rng: random.Random) -> Any:
    if pa.types.is_integer(kind):
        return rng.choice((None, -1, 0, 10**6, 2**31, 2**62, -(2**63), 2**63 - 1))
    if pa.types.is_floating(kind):
        return rng.choice((None, float("nan"), float("inf"), float("-inf"), -1.0, 1.5, 1e300, 5e-324, 2.0**60))
    return rng.choice((None, "", "x", "done", "failed", "loss", "x" * 3000, "é\n\x00", "../../x", "<b>"))


def _harm_weights(chunk: Path, rng: random.Random) -> str:
    packed = tables.unpack((chunk / "weights.safetensors").read_bytes())
    trial = rng.choice(sorted(packed))
    tensors = {f"{trial}/{step}/{name}": t for step, named in packed[trial].items() for name, t in named.items()}
    key = rng.choice(sorted(tensors))
    tensor = tensors.pop(key)
    new = rng.choice(("x", "x/y/z", f"{trial}/one/layer1.weight", f"{trial}/{HUGE}/w", f"{trial}/-3/w", key))
    from safetensors.numpy import save

    content = save({**tensors, new: rng.choice((tensor, tensor[:0], tensor.astype(np.int8), np.zeros((), np.float64)))})
    rewrite_file(chunk, "weights.safetensors", content)
    return f"{chunk.name}/weights: {key} is {new}"


# ---------------------------------------------------------------------- JSON


def harm_json(run: Path, rng: random.Random) -> str:
    """Replace, remove, add or rename something in one JSON file of a run; says what was done."""
    name = rng.choice([name for name in JSON_FILES if (run / name).exists()])
    path = run / name
    if name == "ledger.jsonl":
        entries = [json.loads(line) for line in path.read_bytes().splitlines()]
        told = harm_tree(rng.choice(entries)["data"], rng)
        write_entries(path, entries)
        return f"{name}: {told}"
    tree = json.loads(path.read_bytes() or b"{}")
    tree.pop(KEY, None)
    told = harm_tree(tree, rng)
    path.write_bytes(sealed_any(tree))
    return f"{name}: {told}"


def write_entries(path: Path, entries: list[dict[str, Any]]) -> None:
    """A ledger of these entries, chained anew, and the file that names the last."""
    last, lines = GENESIS, []
    for number, entry in enumerate(entries, 1):
        line, last = _line(
            {"n": number, "at": entry["at"], "kind": entry["kind"], "data": entry["data"], "previous": last}
        )
        lines.append(line)
    path.write_bytes(b"".join(lines))
    path.with_name("ledger.json").write_bytes(sealed({"entries": len(entries), "last": last}))


def sealed_any(tree: Any) -> bytes:
    """The bytes of a file with the checksum that a forger would compute."""
    return json.dumps({**tree, KEY: checksum(tree)}).encode()


def harm_tree(tree: Any, rng: random.Random) -> str:
    """Change one to three places of a tree."""
    told = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        parents = [path for path in _places(tree) if _at(tree, path)]
        if not parents:
            break
        path = _near_top(parents, rng)
        parent = _at(tree, path)
        key = rng.choice(sorted(parent)) if isinstance(parent, dict) else rng.randrange(len(parent))
        match rng.choice(("replace", "replace", "replace", "remove", "rename", "double", "wrap")):
            case "replace":
                parent[key] = copy.deepcopy(rng.choice(ODD))
            case "remove":
                del parent[key]
            case "rename" if isinstance(parent, dict):
                parent[rng.choice(("x", "", "sha256x", "nan", "1"))] = parent.pop(key)
            case "double" if isinstance(parent, list):
                parent.append(copy.deepcopy(parent[key]))
            case _:
                parent[key] = [parent[key]]
        told.append(f"{'.'.join(map(str, (*path, key)))} = {str(_get(parent, key))[:40]}")
    return "; ".join(told)


def _near_top(parents: list[tuple[Any, ...]], rng: random.Random) -> tuple[Any, ...]:
    """Any place, those with few like them as often as those of long lists."""
    depth = rng.choice(sorted({len(path) for path in parents}))
    return rng.choice([path for path in parents if len(path) == depth])


def _places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else None
    if items is None:
        return []
    return [path, *(place for key, value in items for place in _places(value, (*path, key)))]


def _at(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _get(parent: Any, key: Any) -> Any:
    try:
        return parent[key]
    except (KeyError, IndexError):
        return "removed"


# ---------------------------------------------------------------------- readers


def read_all(run: Path) -> Iterator[tuple[str, GradlabError | None]]:
    """Let everything read a run that reads one: gives how each reader ended, with a result or with a typed error."""
    opened: list[Any] = []
    for name, read in _readers(run, opened).items():
        if name in ("report", "figures", "export", "weights") and not opened:
            continue
        try:
            json.dumps(str(read()))
        except GradlabError as error:
            assert str(error)
            yield name, error
        else:
            yield name, None


def _readers(run: Path, opened: list[Any]) -> dict[str, Callable[[], Any]]:
    def report() -> Any:
        (result,) = opened
        told = result.answer, result.report(), result._repr_html_(), result.remarks, result.export("latex")
        return told, json.dumps(plain_json(result.to_json()), allow_nan=False)

    def figures() -> Any:
        return [opened[0].chart(name).table() for name in opened[0].figure_names()]

    def exports() -> Any:
        return [opened[0].export("csv", table) for table in ("summary", "trials", "curves", "layers")]

    def kept() -> Any:
        measured = opened[0].measured
        return [measured.records.weights(trial.id) for trial in measured.trials]

    def listing() -> Any:
        runs = Runs(run.parent)
        try:
            return runs.listing()
        finally:
            runs.close()

    alone = {
        "status": lambda: gradlab.status(run).to_json(),
        "verify": lambda: gradlab.verify(run, sample=0).to_json(),
        "listing": listing,
        "open": lambda: opened.append(gradlab.open_run(run)),
    }
    return {**alone, "report": report, "figures": figures, "export": exports, "weights": kept}
