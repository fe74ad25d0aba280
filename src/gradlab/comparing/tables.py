"""Verdicts on results that exist: rows of a table, logs, event files or a store become the trials of a plan."""

from __future__ import annotations

import glob
import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gradlab.analysis.measured import Measured
from gradlab.analysis.rules.paired import smallest_effect
from gradlab.analysis.tasks import TASK
from gradlab.comparing.channel import STEPS
from gradlab.comparing.claims import Frozen, default_claims, parse_claim
from gradlab.comparing.planning import plan_arms
from gradlab.comparing.readings import MetricRule, Output, read_events, read_mlflow, read_source, to_number
from gradlab.errors import InvalidInput, described, nearest
from gradlab.facts import Fact, Severity
from gradlab.plans.plan import Plan
from gradlab.report.result import Result
from gradlab.running.start import RunOptions, finish
from gradlab.runs.store.environment import environment
from gradlab.runs.store.folder import RunFolder
from gradlab.runs.store.records import MemoryChunk, Records
from gradlab.spec.metric import infer
from gradlab.spec.study import Code
from gradlab.trials.outcome import Curve, LayerTable, Outcome, TrialResult, digest
from gradlab.words import counted, listed, written

TABLES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson", ".npz")
ARMS = ("arm", "method", "algorithm", "algo", "optimizer", "model", "variant", "group", "config", "name")
SEEDS = ("seed", "run", "trial", "replicate", "repeat", "fold")
TASKS = (TASK, "dataset", "game", "env", "environment", "benchmark", "problem")
"""What columns are usually called."""
NOT_FROZEN = "Claims on results that exist are not frozen: whoever made them may have seen the numbers."
MISSING = "no number in the table"
MOST_CLAIMED_TASKS, MOST_ARMS = 8, 40
FINE = 5
"""Digits from which on two equal numbers are suspicious."""
BY_CHANCE = 10.0
"""Times as many as chance would give, from which on equal numbers are remarked on."""
NOTHING = ["", "NA", "N/A", "n/a", "#N/A", "null", "NULL", "None", "-", "–"]
"""What a cell without a number holds."""
HINTS = {"arm": ". If every arm is a column of its own, name these columns: --arm adamw,muon"}
Columns = dict[str, list[Any]]
NO_LAYERS = LayerTable(np.empty(0, np.int64), np.empty(0, np.int64), (), np.empty(0))


@dataclass
class Reading:
    """One number of one training: which arm, seed and task it says it is of, and its curve where there is one."""

    arm: str
    seed: Any
    task: str
    value: float | None
    curve: dict[int, float] = field(default_factory=dict)
    order: float | None = None
    """The step of a row."""
    of_path: bool = False
    """Whether a path says whose it is, and no column."""


@dataclass(frozen=True)
class Judged:
    """The result, and what was found in the table."""

    result: Result
    facts: tuple[Fact, ...]

    def to_json(self) -> dict[str, Any]:
        """The result as ever, and the facts."""
        facts = [
            {"code": f.code, "words": f.words, "severity": f.severity, "numbers": dict(f.numbers)} for f in self.facts
        ]
        return {**self.result.to_json(), "table": facts}


@dataclass(frozen=True)
class Selection:
    """Which columns, or which parts of a path, say what."""

    arm: str | None = None
    seed: str | None = None
    task: str | None = None
    metric: str | None = None
    arm_from: str | None = None
    seed_from: str | None = None
    task_from: str | None = None
    take: str = "last"

    def of_path(self, path: str, place: int) -> tuple[str, Any, str]:
        """Arm, seed and task that a path says by these expressions."""
        arm = _search(self.arm_from, path, "--arm-from") or Path(path).parent.name or "results"
        seed = _search(self.seed_from, path, "--seed-from")
        return arm, place if seed is None else seed, _search(self.task_from, path, "--task-from") or ""


def _search(expression: str | None, path: str, option: str) -> str | None:
    if expression is None:
        return None
    try:
        found = re.search(expression, path)
    except re.error as error:
        raise InvalidInput(f"{option}: {expression!r} is not a regular expression: {error}") from None
    if found is None:
        raise InvalidInput(f"{option}: {expression!r} is not found in {path}")
    return found.group(1) if found.groups() else found.group(0)


def judge(
    source: str | Path | Sequence[str | Path],
    *,
    metric: str | None = None,
    arm: str | None = None,
    seed: str | None = None,
    task: str | None = None,
    arm_from: str | None = None,
    seed_from: str | None = None,
    task_from: str | None = None,
    take: Literal["last", "min", "max"] = "last",
    claims: Sequence[str | Mapping[str, Any]] = (),
    better: Literal["higher", "lower"] | None = None,
    matters: float | None = None,
    question: str | None = None,
    out: str | Path | None = None,
) -> Result:
    r"""Judge results that exist, made by anything: nothing is trained.

        >>> gradlab.judge("results.csv", arm="optimizer", metric="val_loss", claims=["muon < adamw"])
        >>> gradlab.judge("logs/*.txt", arm_from=r"(\w+)_s\d+", seed_from=r"_s(\d+)", metric=r"val_loss:(\S+)")

    `source` is a table (CSV, TSV, Parquet, JSON lines, NPZ), logs, folders of TensorBoard event files or an MLflow
    store; patterns are allowed. `arm`, `seed`, `task` and `metric` name columns; for logs and folders, `arm_from`,
    `seed_from` and `task_from` are regular expressions on the path. A claim is `"a < b"`, `"a > 3.2"`, or as in a
    study; `matters` is the smallest difference that matters. With `out`, a run folder with its page is written.
    """
    selection = Selection(arm, seed, task, metric, arm_from, seed_from, task_from, take)
    return judge_table(
        source, selection, claims=claims, better=better, matters=matters, question=question, out=out
    ).result


def judge_table(
    source: str | Path | Sequence[str | Path],
    selection: Selection,
    *,
    claims: Sequence[str | Mapping[str, Any]] = (),
    frozen: Frozen | None = None,
    better: Literal["higher", "lower"] | None = None,
    matters: float | None = None,
    question: str | None = None,
    out: str | Path | None = None,
    figures: bool = True,
    command: str = "",
) -> Judged:
    """Read, look at what was given, plan one trial per arm, task and seed, and judge; see `judge`."""
    paths = _find(source)
    metric, readings = _read(paths, selection)
    if not readings:
        raise InvalidInput(f"{paths[0]}: there are no rows")
    facts: list[Fact] = []
    by_path = any(one.of_path for one in readings) and selection.arm_from is None
    if by_path and len(readings) > 1 and len({one.arm for one in readings}) == 1:
        words = (
            f"All {len(readings)} files count as one arm, {readings[0].arm}: say where a path names its arm, such as "
            r"--arm-from '(\w+)_s\d+'."
        )
        _add(facts, "one_arm_of_paths", words, len(readings))
    rows = _one_per_seed(readings, selection, facts)
    arms = list(dict.fromkeys(arm for arm, _, _ in rows))
    tasks = list(dict.fromkeys(task for _, task, _ in rows))
    if len(arms) > MOST_ARMS:
        raise InvalidInput(f"{len(arms)} arms are more than {MOST_ARMS}: is {arms[0]!r} really the name of an arm?")
    numbered = _number_seeds(rows, arms, tasks, facts)
    _look(numbered, arms, tasks, facts)
    when = min(path.stat().st_mtime for path in paths)
    facts.append(frozen.compare(when) if frozen else Fact("claims_not_frozen", NOT_FROZEN, severity="note"))
    seeds = sorted({seed for _, _, seed in numbered})
    paired = len(arms) > 1 and not {"no_seeds", "unpaired_seeds"} & {fact.code for fact in facts}
    given = _say_given(len(readings), arms, tasks, seeds, paired)
    content = sha256(repr(sorted((k, r.value) for k, r in numbered.items())).encode()).hexdigest()
    code = Code(function=Path(paths[0]).name, sha256=content, text=_as_text(numbered, metric), kind="table")
    settings = {
        _group(arm, task): {"arm": arm, **({TASK: task} if task else {})}
        for task in tasks
        for arm in arms
        if any((arm, task, seed) in numbered for seed in seeds)
    }
    asked = [parse_claim(claim, metric, arms, tasks) if isinstance(claim, str) else dict(claim) for claim in claims]
    asked += [dict(claim) for claim in frozen.claims] if frozen else []
    options = {
        "name": "judged",
        "question": question or f"What do the results in {Path(paths[0]).name} show?",
        "metric": {k: v for k, v in (("metric", metric), ("better", better)) if v is not None},
        "claims": asked or default_claims(metric, better, arms, tasks, MOST_CLAIMED_TASKS),
        "notes": (given, *(fact.words for fact in facts)),
        "matters": matters,
    }
    plan = plan_arms(settings, code, seeds, options)
    results = list(_results(plan, numbered, metric))
    measured = Measured(plan, Records([MemoryChunk.of(results)]))
    pairs = [(arms[0], arm) for arm in arms[1:4]] if len(tasks) == 1 else []
    study = plan.study.model_copy(update={"notes": (*plan.study.notes, *say_smallest(measured, pairs))})
    plan = replace(plan, resolved=replace(plan.resolved, study=study))
    done = RunOptions(out, command=command or f"gradlab judge {paths[0]}", force=True, figures=figures)
    if out is None:
        return Judged(Result(Measured(plan, measured.records), environment(), done.command), tuple(facts))
    with RunFolder.start(Path(out), plan, environment(), done.command, force=True) as folder:
        folder.commit(results)
        return Judged(finish(folder, Measured(plan, folder.records), done), tuple(facts))


def _group(arm: str, task: str) -> str:
    return f"{arm} on {task}" if task else arm


def _results(plan: Plan, rows: Mapping[tuple[str, str, int], Reading], metric: str) -> Iterator[TrialResult]:
    of = {planned.group.name: planned.group.settings for planned in plan.groups}
    for trial in plan.trials:
        row = rows.get((of[trial.group]["arm"], of[trial.group].get(TASK, ""), trial.seed))
        outcome, error = (None, MISSING) if row is None or row.value is None else (_outcome(row, metric), None)
        yield TrialResult(trial, outcome, error, 0.0, digest(trial.id, outcome, error))


def _outcome(row: Reading, metric: str) -> Outcome:
    curves: tuple[Curve, ...] = ()
    if len(row.curve) > 1:
        steps = sorted(row.curve)
        curves = (Curve(metric, np.array(steps, np.int64), np.array([row.curve[step] for step in steps])),)
    lost = infer(metric).kind == "loss" and not math.isfinite(row.value or 0.0)
    return Outcome("diverged" if lost else "done", {metric: row.value}, curves, NO_LAYERS, np.empty(0))


# ---------------------------------------------------------------------- reading


def _find(source: str | Path | Sequence[str | Path]) -> list[Path]:
    """The files and folders that are meant; patterns are expanded."""
    given = [source] if isinstance(source, str | Path) else list(source)
    paths = [Path(name) for one in given for name in (sorted(glob.glob(str(one), recursive=True)) or [str(one)])]
    for path in paths:
        if not path.exists():
            raise InvalidInput(f"{path}: there is no such file or folder")
    return paths


def _read(paths: Sequence[Path], selection: Selection) -> tuple[str, list[Reading]]:
    """The name of the metric, and every number of it."""
    first = paths[0]
    try:
        if first.suffix == ".db" or (
            first.is_dir() and any(first.rglob("metrics")) and not any(first.rglob("*tfevents*"))
        ):
            return _read_runs([run for path in paths for run in read_mlflow(path)], selection)
        if first.is_dir():
            folders = sorted({file.parent for path in paths for file in path.rglob("*tfevents*")})
            if not folders:
                raise InvalidInput(
                    f"{first}: the folder holds no event files and no MLflow runs; give files, such as '{first}/*.csv'"
                )
            return _read_paths(folders, selection, lambda path, rule: read_events(path))
        if selection.arm_from is None and (first.suffix in TABLES or _is_json_table(first)):
            columns = _join([_columns(path) for path in paths])
            return _read_rows(columns, selection)
        if first.suffix in (*TABLES, ".json"):
            return _read_paths(paths, selection, lambda path, rule: read_source(path))
        return _read_paths(paths, selection, _read_log)
    except (OSError, ValueError, KeyError) as error:
        raise InvalidInput(f"{first}: {getattr(error, 'strerror', None) or described(error)}") from None


def _read_log(path: Path, rule: MetricRule) -> dict[str, dict[int, float]]:
    output = Output(rule)
    output.feed(path.read_bytes())
    output.close()
    return output.curves


def _read_paths(paths: Sequence[Path], selection: Selection, read: Any) -> tuple[str, list[Reading]]:
    """One reading per file or folder; its path says which arm and seed it is."""
    rule, found = MetricRule.parse(selection.metric, selection.take), []
    names: dict[str, None] = {}
    for place, path in enumerate(paths):
        arm, seed, task = selection.of_path(str(path), place)
        curves = read(path, rule)
        names |= dict.fromkeys(curves)
        curve = curves.get(rule.name, {})
        found.append(Reading(arm, seed, task, rule.chosen(curve.values()) if curve else None, curve, of_path=True))
    _check_found(found, rule.name, names, f"the {counted(len(paths), 'file')}, such as {paths[0]}")
    return rule.name, found


def _check_found(found: Sequence[Reading], metric: str, names: Iterable[str], where: str) -> None:
    if found and all(one.value is None for one in found):
        there = list(names)
        others = f"; there are {listed(there, 8)}{nearest(metric, there)}" if there else ""
        raise InvalidInput(f"--metric: {metric} is in none of {where}{others}")


def _read_runs(
    runs: Sequence[tuple[dict[str, str], dict[str, dict[int, float]]]], selection: Selection
) -> tuple[str, list[Reading]]:
    """The runs of an MLflow store: parameters say which arm and seed they are."""
    rule, names = (
        MetricRule.parse(selection.metric, selection.take),
        {key for parameters, _ in runs for key in parameters},
    )
    arm, seed = _choose("arm", selection.arm, names, ARMS), _choose("seed", selection.seed, names, SEEDS, needed=False)
    task = _choose("task", selection.task, names, TASKS, needed=False)
    found = []
    for place, (parameters, curves) in enumerate(runs):
        curve = curves.get(rule.name, {})
        own = str(parameters.get(arm or "", "")), parameters.get(seed or "", place), str(parameters.get(task or "", ""))
        found.append(Reading(*own, rule.chosen(curve.values()) if curve else None, curve))
    _check_found(found, rule.name, dict.fromkeys(name for _, curves in runs for name in curves), "the runs")
    return rule.name, found


def _is_json_table(path: Path) -> bool:
    """A list of rows, or columns with their data; other JSON files are of one training each."""
    if path.suffix != ".json":
        return False
    tree = json.loads(path.read_text(encoding="utf8"))
    rows = isinstance(tree, list) and all(isinstance(row, dict) for row in tree)
    return rows or (isinstance(tree, dict) and {"columns", "data"} <= set(tree))


def _columns(path: Path) -> Columns:
    """A table by columns. The arrays of an NPZ file are columns, or numbers by arm (seeds, or seeds × tasks)."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
        if any(name.lower() in (*ARMS, *SEEDS) for name in found):
            return {name: values.tolist() for name, values in found.items()}
        columns: Columns = {"arm": [], "seed": [], TASK: [], "value": []}
        for name, values in found.items():
            for place, value in np.ndenumerate(np.atleast_2d(values.T).T):
                for key, item in zip(columns, (name, place[0], f"task {place[1]}", float(value)), strict=True):
                    columns[key].append(item)
        return columns if len(set(columns[TASK])) > 1 else {k: v for k, v in columns.items() if k != TASK}
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        return dict(pq.read_table(path).to_pydict())
    if path.suffix in (".csv", ".tsv"):
        return _read_csv(path)
    text = path.read_text(encoding="utf8")
    if path.suffix == ".json":
        tree = json.loads(text)
        if isinstance(tree, dict):  # as W&B exports a table
            return {str(name): [row[i] for row in tree["data"]] for i, name in enumerate(tree["columns"])}
        rows = tree
    else:
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    return {name: [row.get(name) for row in rows] for name in dict.fromkeys(key for row in rows for key in row)}


def _read_csv(path: Path) -> Columns:
    """Also as spreadsheets write it: semicolons with decimal commas, and not in UTF-8. A written `nan` is a number."""
    import pyarrow.csv as pc

    raw = path.read_bytes()
    try:
        text, encoding = raw.decode("utf8"), "utf8"
    except UnicodeDecodeError:
        text, encoding = raw.decode("cp1252", "replace"), "cp1252"
    first = text.partition("\n")[0]
    other = path.suffix == ".csv" and ";" in first and "," not in first
    table = pc.read_csv(
        io.BytesIO(raw),
        read_options=pc.ReadOptions(encoding=encoding),
        parse_options=pc.ParseOptions(delimiter="\t" if path.suffix == ".tsv" else ";" if other else ","),
        convert_options=pc.ConvertOptions(
            null_values=NOTHING, decimal_point="," if other and re.search(r"\d,\d", text) else "."
        ),
    )
    return dict(table.to_pydict())


def _join(tables: Sequence[Columns]) -> Columns:
    names = dict.fromkeys(name for table in tables for name in table)
    sizes = [len(next(iter(table.values()), [])) for table in tables]
    return {
        name: [value for table, size in zip(tables, sizes, strict=True) for value in table.get(name, [None] * size)]
        for name in names
    }


def _choose(
    what: str, given: str | None, names: Iterable[str], usual: Sequence[str], *, needed: bool = True
) -> str | None:
    """The column of this kind: as given, or called as usual."""
    columns = list(names)
    if given is not None:
        if given not in columns:
            raise InvalidInput(
                f"--{what} {given!r}: there is no such column; there are {', '.join(columns)}{nearest(given, columns)}"
            )
        return given
    found = next((name for word in usual for name in columns if name.lower() == word), None)
    if found is None and needed:
        raise InvalidInput(f"--{what}: say which column it is; there are {', '.join(columns)}{HINTS.get(what, '')}")
    return found


def _stack(columns: Columns, arms: Sequence[str], metric: str | None) -> tuple[Columns, str]:
    """A column per arm as rows of arm and number; the number gets a name that no column has."""
    others = [name for name in columns if name not in arms]
    value = metric or "value"
    if value in others:
        raise InvalidInput(f"--metric {value!r} is a column, while the numbers stand in {', '.join(arms)}: omit it")
    rows = range(len(columns[arms[0]]))
    stacked = {name: [columns[name][i] for _ in arms for i in rows] for name in others}
    numbers = [columns[arm][i] for arm in arms for i in rows]
    return {**stacked, "arm": [arm for arm in arms for _ in rows], value: numbers}, value


def _read_rows(columns: Columns, selection: Selection) -> tuple[str, list[Reading]]:
    several = [name.strip() for name in (selection.arm or "").split(",")]
    if selection.arm not in columns and len(several) > 1:
        for name in several:
            _choose("arm", name, columns, ())
        columns, called = _stack(columns, several, selection.metric)
        selection = replace(selection, arm="arm", metric=called)
    names = list(columns)
    arm = _choose("arm", selection.arm, names, ARMS)
    seed = _choose("seed", selection.seed, names, [word for word in SEEDS if word != arm], needed=False)
    task = _choose("task", selection.task, [n for n in names if n != arm], TASKS, needed=False)
    step = next((name for name in names if name.lower() in STEPS and name not in (arm, seed, task)), None)
    numeric = [n for n in names if n not in (arm, seed, task, step) and all(map(_numeric, columns[n]))]
    metric = _choose("metric", selection.metric or (numeric[0] if len(numeric) == 1 else None), names, ())
    assert arm is not None
    assert metric is not None
    rows = len(columns[arm])
    found = []
    for i in range(rows):
        raw = columns[metric][i]
        value = to_number(raw) if isinstance(raw, str) else None if raw is None else float(raw)
        when = to_number(str(columns[step][i])) if step else None
        own = str(columns[arm][i]), columns[seed][i] if seed else None, str(columns[task][i]) if task else ""
        found.append(Reading(*own, value, order=when))
    return metric.replace("/", "."), found


def _numeric(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


# ---------------------------------------------------------------------- what was given

Rows = dict[tuple[str, str, Any], Reading]


def _one_per_seed(readings: Sequence[Reading], selection: Selection, facts: list[Fact]) -> Rows:
    """One reading per arm, task and seed: a curve where rows have steps, else the mean of rows that differ."""
    rule = MetricRule("value", take=selection.take)  # type: ignore[arg-type]
    groups: dict[tuple[str, str, Any], list[Reading]] = {}
    counts: Counter[tuple[str, str]] = Counter()
    nameless = all(one.seed is None for one in readings)
    for one in readings:
        cell = one.arm, one.task
        groups.setdefault((*cell, counts[cell] if nameless else one.seed), []).append(one)
        counts[cell] += 1
    if nameless:
        words = (
            "There is no column of seeds: rows are numbered as they stand, so that pairs share nothing but a number."
        )
        _add(facts, "no_seeds", words)
    rows: Rows = {}
    same = several = 0
    for key, group in groups.items():
        values = [one.value for one in group if one.value is not None]
        if len(group) > 1 and len({one.order for one in group}) == len(group) and group[0].order is not None:
            curve = {int(one.order or 0): one.value for one in group if one.value is not None}
            last = rule.chosen([curve[step] for step in sorted(curve)]) if curve else None
            rows[key] = Reading(key[0], key[2], key[1], last, curve)
            continue
        same += len(values) > 1 and len(set(values)) == 1
        several += len(set(values)) > 1
        rows[key] = group[0] if len(values) < 2 else Reading(key[0], key[2], key[1], float(np.mean(values)))
    if same:
        _add(facts, "duplicate_rows", f"{counted(same, 'seed')} in several equal rows, which count once.", same)
    if several:
        rows_of = f"{counted(several, 'seed')} with several rows of different numbers"
        words = f"{rows_of}: their mean counts (no column is a step)."
        _add(facts, "several_rows_per_seed", words, several)
    return rows


def _number_seeds(rows: Rows, arms: Sequence[str], tasks: Sequence[str], facts: list[Fact]) -> dict[Any, Reading]:
    """Rows by arm, task and a number of the seed; seeds that arms do not share are paired in their order."""
    order = sorted({seed for _, _, seed in rows}, key=lambda seed: (to_number(str(seed)) is None, _sortable(seed)))
    whole = all(
        isinstance(n := to_number(str(s)), float) and n == n and n.is_integer() and 0 <= n < 2**62 for s in order
    )
    of = {arm: {seed for a, _, seed in rows if a == arm} for arm in arms}
    shared = len(arms) < 2 or any(of[a] & of[b] for a, b in combinations(arms, 2))
    if shared:
        number = {seed: int(to_number(str(seed)) or 0) if whole else place for place, seed in enumerate(order)}
        numbered = {(arm, task, number[seed]): row for (arm, task, seed), row in rows.items()}
    else:
        words = "No two arms share a seed: rows are paired in their order, which is valid but gains nothing."
        _add(facts, "unpaired_seeds", words)
        numbered = {}
        for arm in arms:
            place = {seed: index for index, seed in enumerate(seed for seed in order if seed in of[arm])}
            numbered |= {(a, t, place[s]): row for (a, t, s), row in rows.items() if a == arm}
    if any(
        fact.code in ("no_seeds", "unpaired_seeds") for fact in facts
    ):  # no seed is missing, there are only more rows
        fewest = {task: min(sum(k[:2] == (arm, task) for k in numbered) for arm in arms) for task in tasks}
        kept = {key: row for key, row in numbered.items() if key[2] < (fewest[key[1]] or len(numbered))}
        if left := len(numbered) - len(kept):
            words = f"{counted(left, 'row')} without a partner in another arm, the last of its arm, left out."
            _add(facts, "rows_without_partner", words, left)
        numbered = kept
    seeds = {seed for _, _, seed in numbered}
    cells = {(arm, task) for arm, task, _ in numbered}
    missing = sum((arm, task, seed) not in numbered for arm, task in cells for seed in seeds)
    if missing:
        some = f"{counted(missing, 'row')} of {len(cells) * len(seeds):,}"
        words = f"Missing: {some} that arms and seeds ask for. What is missing counts against every answer."
        _add(facts, "missing_rows", words, missing)
    absent = len(arms) * len(tasks) - len(cells)
    if absent:
        _add(facts, "missing_cells", f"{counted(absent, 'pair')} of arm and task without any row.", absent)
    return numbered


def _sortable(seed: Any) -> Any:
    number = to_number(str(seed))
    return str(seed) if number is None else f"{number:030.6f}"


def _look(rows: Mapping[Any, Reading], arms: Sequence[str], tasks: Sequence[str], facts: list[Fact]) -> None:
    """Numbers that are none, ties, and numbers that are equal where trainings are not."""
    without = sum(row.value is None for row in rows.values())
    if without:
        _add(
            facts,
            "not_numbers",
            f"{counted(without, 'row')} without a number, which counts against every answer.",
            without,
        )
    by_arm = {arm: {key[1:]: row.value for key, row in rows.items() if key[0] == arm} for arm in arms}
    known = [row.value for row in rows.values() if row.value is not None and math.isfinite(row.value)]
    ties, spread = 0, float(np.std(known)) if known else 0.0
    for a, b in combinations(arms, 2):
        both = [key for key in by_arm[a] if key in by_arm[b] and by_arm[a][key] is not None]
        equal = [key for key in both if by_arm[a][key] == by_arm[b][key]]
        if len(both) > 1 and len(equal) == len(both):
            words = f"{a} and {b} are identical to every digit in all {len(both)} rows: one is probably a copy."
            _add(facts, "identical_arms", words, len(both), severity="problem", subject=f"{a}, {b}")
        else:
            ties += len(equal)
    if ties:
        _add(
            facts,
            "tied_pairs",
            f"{counted(ties, 'pair')} of equal rows: numbers are rounded, or rows are copied.",
            ties,
        )
    identical = {name for fact in facts if fact.code == "identical_arms" for name in fact.subject.split(", ")}
    for arm in arms:
        fine = [v for v in by_arm[arm].values() if v is not None and math.isfinite(v) and _digits(v) >= FINE]
        repeated = sum(count - 1 for count in Counter(fine).values() if count > 1)
        if repeated > BY_CHANCE * _coincidences(fine, spread):
            many = f"{counted(repeated, 'number')} of {FINE} digits and more"
            words = f"{arm}: {many} under several seeds: copies, or a seed that is not used."
            _add(facts, "repeated_numbers", words, repeated, subject=arm)
    seen: dict[float, str] = {}
    moved = 0
    for arm in (arm for arm in arms if arm not in identical):
        for value in {v for v in by_arm[arm].values() if v is not None and math.isfinite(v) and _digits(v) > FINE}:
            moved += value in seen
            seen.setdefault(value, arm)
    if moved - ties > BY_CHANCE * _coincidences(list(seen), spread):
        _add(
            facts,
            "shared_numbers",
            f"{counted(moved - ties, 'number')} of many digits in more than one arm.",
            moved - ties,
        )


def _coincidences(values: Sequence[float], spread: float) -> float:
    """How many of these numbers would be equal by chance, rounded as they are: n²/2 over the places they may take."""
    decimals = max((len(repr(value).partition(".")[2].partition("e")[0]) for value in values), default=0)
    return len(values) ** 2 / 2 / max(3.5 * spread * 10.0**decimals, 1.0) if values else 0.0


def _digits(value: float) -> int:
    return len(repr(abs(value)).split("e")[0].replace(".", "").strip("0"))


def _add(
    facts: list[Fact], code: str, words: str, count: int = 0, *, severity: Severity = "caution", subject: str = ""
) -> None:
    facts.append(Fact(code, words, subject, severity, {"count": float(count)} if count else {}))


def _say_given(rows: int, arms: Sequence[str], tasks: Sequence[str], seeds: Sequence[int], paired: bool) -> str:
    named = ", ".join(arms[:6]) + (f" and {len(arms) - 6} more" if len(arms) > 6 else "")
    on = f", {counted(len(tasks), 'task')}" if len(tasks) > 1 else ""
    span = f" ({seeds[0]} to {seeds[-1]})" if len(seeds) > 1 and seeds[-1] - seeds[0] == len(seeds) - 1 else ""
    of = f"{counted(len(arms), 'arm')} ({named}){on}, {counted(len(seeds), 'seed')}{span}"
    return f"Given: {counted(rows, 'row')}: {of}{', paired by seed' if paired else ''}."


def _as_text(rows: Mapping[Any, Reading], metric: str) -> str:
    lines = [f"{arm}\t{task}\t{seed}\t{row.value!r}" for (arm, task, seed), row in list(rows.items())[:20_000]]
    return "\n".join([f"arm\ttask\tseed\t{metric}", *lines]) + "\n"


def say_smallest(measured: Measured, arms: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """The smallest difference that the seeds of a result could have shown, from how pairs of each two arms differ."""
    headline = measured.study.headline
    if headline is None:
        return ()
    metric, told = measured.metric(headline.metric), []
    for a, b in arms:
        x, y = (measured.values(headline.metric, name) for name in (a, b))
        pairs = [(float(x[s] or 0), float(y[s] or 0)) for s in x if x[s] is not None and y.get(s) is not None]
        pairs = [pair for pair in pairs if all(map(math.isfinite, pair))]
        effect = smallest_effect(len(pairs))
        if effect is None:
            told.append(f"{counted(len(pairs), 'pair')} of {a} and {b} can settle no difference: 5 are the fewest.")
            continue
        logs = metric.on_logs and min(min(pair) for pair in pairs) > 0
        gaps = [math.log(two / one) if logs else two - one for one, two in pairs]
        least = effect * float(np.std(gaps, ddof=1))
        if not least:
            continue  # the arms are one, or differ by the same number everywhere
        said = f"{written(100 * math.expm1(least), 2)} %" if logs else written(least, 2)
        told.append(f"The smallest difference that {len(pairs)} pairs like these can show: about {said} ({a}, {b}).")
    return tuple(told)
