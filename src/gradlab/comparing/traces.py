"""The audit of scripts that nobody edited: what their traces saw of the first steps, arm beside arm.

`hook/sitecustomize.py` writes the traces, inside the training; here they are read and compared like the objects of
factories (`audits.side_by_side`).
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradlab.audits.audit import Audit
from gradlab.audits.compare import BY_FACTOR, Comparison, Trait, compare, hash_together
from gradlab.audits.side_by_side import (
    PairResult,
    collect_sentences,
    find_statuses,
    find_undeclared,
    named_factors,
    pair_hashes,
    pair_rows,
)
from gradlab.facts import Fact
from gradlab.plans.plan import Plan
from gradlab.words import join, listed

Tree = Mapping[str, Any]
TRACES = "traces"
"""Folder of a run with the traces of its first seeds."""
STEPS = "steps"
"""A factor that only a whole training has: how long it is."""
CALLED = {
    "lr": "lr learning_rate rate peak_lr max_lr", "optimizer": "opt optim optimizer", "norm": "norm normalization",
    "weight_decay": "wd weight_decay decay", "activation": "act activation nonlinearity", "dropout": "dropout drop",
    "init": "init init_scale initialization", "batch": "batch batch_size bs", "schedule": "schedule scheduler warmup",
    "clip": "clip grad_clip max_norm", "loss": "loss criterion", "data": "data dataset augment aug task",
    "order": "shuffle order", "precision": "dtype precision amp bf16 fp16", "seed": "seed",
    "skip": "skip residual shortcut", "frozen": "freeze frozen", STEPS: "steps epochs iters max_steps num_epochs",
    "model": "model arch depth layers width hidden dim heads channels n_layer n_head n_embd",
}  # fmt: skip
"""Factor -> settings that change it, by what people call them."""
BUILT = frozenset({"model", "norm", "skip", "activation", "dropout"})
LAYERS, PARAMETERS, WEIGHTS, SCALE = "layers", "parameters", "initial weights", "scale of initial weights"
OPTIMIZER, GROUPS, RATE, DECAY = "optimizer", "parameter groups", "learning rate", "weight decay"
HELD, FROZEN, DATA, BATCH, ORDER = (
    "parameters in no optimizer",
    "frozen parameters",
    "data",
    "batch size",
    "first batches",
)
LENGTH, SEEDED, SWITCHES, VERSIONS, LOSSES = "steps", "seed of torch", "switches of torch", "versions", "first losses"
MOST_STEPS = 100_000
FAR = 1.25
"""Ratio of root mean squares beyond which initial weights of other draws are of another scale, of many numbers."""
UNSEEN = (
    "What the trace does not follow: the forward pass and the loss function themselves, gradient clipping, weight "
    "averaging, evaluation; after the first steps only learning rates and the number of steps.",
    "Batches that do not come from a DataLoader of PyTorch.",
)
NO_STEP = "No optimizer step of PyTorch was seen."
UNDECLARED_NOTE = Fact(
    "no_factor_declared",
    "What may differ was not declared (--factor): every difference that the traces show is listed, and none is judged.",
)


def read_trace(place: Path) -> bytes:
    """The trace of a trial: of several processes, of the one with the most steps."""
    found = []
    for path in place.glob("trace*.json"):
        try:
            tree = json.loads(path.read_text(encoding="utf8"))
            found.append((tree.get("steps", 0), path.name, tree))
        except (OSError, ValueError, AttributeError):
            continue
    if not found:
        return b"{}"
    *_, (_, _, tree) = sorted(found, key=lambda one: one[:2])
    return json.dumps({**tree, "processes": sum(steps > 0 for steps, *_ in found)}).encode()


def declared_factors(plan: Plan, given: Sequence[str] | None) -> tuple[str, ...] | None:
    """What the arms are meant to differ in: as given, or by the names of their settings; None if nobody knows."""
    if given is not None:
        return named_factors(given, (STEPS,))
    names: list[str] = []
    for path in plan.study.factor:
        values = [str(planned.group.settings.get(path, "")) for planned in plan.groups]
        names += _options(values) if path == "arguments" else [path]
    known = {name: factor for factor, words in CALLED.items() for name in words.split()}
    found = [known.get(name.lower().replace("-", "_")) for name in names]
    return None if not found or None in found else tuple(dict.fromkeys(filter(None, found)))


def _options(arguments: Sequence[str]) -> list[str]:
    """Names of options that not all arms give the same way: `--norm pre`, `norm=pre`."""
    by_arm = []
    for text in arguments:
        words, options = shlex.split(text), []
        for place, word in enumerate(words):
            name = re.match(r"-{1,2}([A-Za-z][\w-]*)|([A-Za-z][\w.]*)=", word)
            if name:
                value = words[place + 1] if place + 1 < len(words) and "=" not in word else word
                options.append(((name[1] or name[2]).split(".")[-1], value))
        by_arm.append(set(options))
    return sorted({name for one in by_arm for name, _ in one ^ by_arm[0]})


def audit_traces(plan: Plan, traces: Mapping[str, bytes], given: Sequence[str] | None) -> Audit | None:
    """Compare what the first seed of every arm did; None where there is no trace of every arm with a step of torch."""
    seeds = plan.study.trial_seeds[:2]
    ids = {(trial.group, trial.seed): trial.id for trial in plan.trials}
    trees = {key: json.loads(traces[identity]) for key, identity in ids.items() if identity in traces}
    names = tuple(planned.group.name for planned in plan.groups)
    seed = next((s for s in seeds if all((name, s) in trees for name in names)), None)
    if seed is None or len(names) < 2:
        return None
    seen = {name: trees[name, seed] for name in names}
    astray = tuple(_find_astray(seen))
    if not any(tree.get("steps") for tree in seen.values()):
        return _audit_imports(plan, names, seed, astray) if astray else None
    declared = declared_factors(plan, given)
    results = [_compare((names[0], other), seen[names[0]], seen[other], declared) for other in names[1:]]
    undeclared = find_undeclared(results)
    differences = "; ".join(collect_sentences(results, BY_FACTOR).values())
    remarks = tuple(_remarks(seen, trees, seeds))
    unseen = [*UNSEEN, *(f"{name}: {words}" for name, tree in seen.items() for words in _failures(tree))]
    return Audit(
        plan.study.name,
        declared or plan.study.factor,
        f"what {len(names)} commands did in their first optimizer steps under seed {seed}, without editing them",
        names,
        pair_rows(results),
        (*undeclared, *astray, *remarks, *([UNDECLARED_NOTE] if declared is None else [])),
        None if undeclared else differences or "none, in anything that was seen",
        pair_hashes(names, results),
        cannot_see=tuple(unseen),
        identical=not differences and not undeclared,
        caveats=tuple(remark.words.rstrip(".") for remark in remarks),
    )


def _audit_imports(plan: Plan, names: tuple[str, ...], seed: int, astray: tuple[Fact, ...]) -> Audit:
    """Of scripts that made no step of PyTorch: only which modules they imported is known."""
    compared = f"which modules {len(names)} commands imported under seed {seed}"
    return Audit(plan.study.name, plan.study.factor, compared, names, (), astray, None, {}, cannot_see=(NO_STEP,))


def _find_astray(seen: Mapping[str, Tree]) -> Iterator[Fact]:
    """Commits that ran the checkout's code, because a package is installed from there."""
    names = [name for name, tree in seen.items() if tree.get("elsewhere")]
    files = list(dict.fromkeys(file for name in names for file in seen[name]["elsewhere"]))
    if files:
        words = (
            f"{join(names)} imported {listed(files, 3)} of your checkout and not of the commit, because the package is "
            "installed from there: put the commit's own folder first, such as env PYTHONPATH=src python …"
        )
        yield Fact("commit_not_run", words, names[0], "problem", {"files": len(files)})


def _compare(names: tuple[str, str], a: Tree, b: Tree, declared: Sequence[str] | None) -> PairResult:
    found: list[Comparison] = []

    def beside(make: Any, factors: set[str] | frozenset[str] = frozenset(), follows: tuple[str, ...] = ()) -> None:
        found.append(compare(make(a), make(b), names, factors, follows))

    beside(lambda t: Trait.of_items(LAYERS, t.get("modules", ())), BUILT)
    beside(_parameters, BUILT | {"precision"})
    beside(_weights, {"init", "seed"}, (PARAMETERS,))
    if found[1].differs:
        found.append(_compare_scales(a, b, names))
    beside(lambda t: Trait.of_items(FROZEN, (n for n, one in _parameters_of(t) if not one.get("trained"))), {"frozen"})
    beside(lambda t: Trait.of_items(HELD, t.get("in no optimizer", ())), {"frozen", "optimizer"}, (PARAMETERS,))
    beside(_optimizers, {"optimizer"})
    beside(_groups, {"optimizer", "weight_decay", "lr", *BUILT}, (PARAMETERS,))
    beside(_rates, {"lr", "schedule", "optimizer"})
    beside(lambda t: _of_groups(t, DECAY, "weight_decay"), {"weight_decay", "optimizer"})
    beside(lambda t: Trait.of_items(DATA, (f"{o['class']} of {o['length']}" for o in t.get("loaders", ()))), {"data"})
    beside(lambda t: Trait.of_words(BATCH, ", ".join(str(o["batch"]) for o in t.get("loaders", ())) or "–"), {"batch"})
    beside(_batches, {"data", "order", "batch", "seed"}, (PARAMETERS,))
    beside(lambda t: Trait.of_words(LENGTH, f"{t.get('steps', 0):,}"), {STEPS, "batch", "data"})
    beside(lambda t: Trait.of_words(SEEDED, str(t.get("seed", "–"))), {"seed"})
    beside(lambda t: Trait.of_items(SWITCHES, t.get("flags", ())), {"precision"})
    versions = ("python", "torch", "numpy")
    beside(lambda t: Trait.of_items(VERSIONS, (f"{name} {t[name]}" for name in versions if t.get(name))))
    earlier = tuple(one.trait for one in found)
    beside(_losses, {*BUILT, "loss", "data", "init", "precision", "seed", "order", "batch"}, earlier)
    comparisons = {one.trait: one for one in found}
    statuses = find_statuses(comparisons, declared or ())
    if declared is None:
        statuses = {trait: BY_FACTOR if one.differs else statuses[trait] for trait, one in comparisons.items()}
    return PairResult(names, comparisons, statuses, (), ())


def _parameters_of(tree: Tree) -> list[tuple[str, Tree]]:
    return [(name, one) for name, one in tree.get("tensors", {}).items() if not one.get("buffer")]


def _parameters(tree: Tree) -> Trait:
    own = _parameters_of(tree)
    listed = Trait.of_items(PARAMETERS, (f"{name} {tuple(one['shape'])} {one['dtype']}" for name, one in own))
    count = sum(math.prod(one["shape"]) for _, one in own)
    return Trait(PARAMETERS, listed.value, f"{count:,} in {len(own)} tensors", items=listed.items)


def _weights(tree: Tree) -> Trait:
    """Initial values: the hashes decide; the samples, with the root mean square behind them, say how they differ."""
    own = dict(_parameters_of(tree))
    tensors = {name: np.array(one["sample"], np.float32) for name, one in own.items()}
    sizes = [one["sample"][-1] for one in own.values()]
    words = f"root mean square {math.sqrt(sum(s * s for s in sizes) / len(sizes)):.4g}" if sizes else "not seen"
    return Trait(WEIGHTS, hash_together([one["hash"] for one in own.values()]), words, tensors)


def _compare_scales(a: Tree, b: Tree, names: tuple[str, str]) -> Comparison:
    """Root mean squares of tensors that both arms have: other draws differ little if there are many of them."""
    first, second, apart = dict(_parameters_of(a)), dict(_parameters_of(b)), {}
    for name, one in first.items():
        other = second.get(name)
        if other is None or other["shape"] != one["shape"] or math.prod(one["shape"]) < 64:
            continue
        x, y = one["sample"][-1], other["sample"][-1]
        if x > 0 and y > 0 and max(x / y, y / x) > FAR:
            apart[name] = y / x
    if not apart:
        return Comparison(SCALE, ("alike", "alike"), factors=frozenset({"init"}))
    low, high = min(apart.values()), max(apart.values())
    times = f"{low:.3g} to {high:.3g}" if high > 1.05 * low else f"{low:.3g}"
    words = f"those of {names[1]} are {times} × those of {names[0]} (root mean square), in {listed(apart)}"
    return Comparison(SCALE, ("–", f"{times} ×"), words, frozenset({"init"}))


def _optimizers(tree: Tree) -> Trait:
    hidden = ("lr", "weight_decay", "parameters", "tensors", "initial_lr", "foreach", "fused", "capturable")
    listed = []
    for one in tree.get("optimizers", ()):
        settings = {k: v for k, v in (one["groups"] or [{}])[0].items() if k not in hidden and v is not None}
        listed.append(f"{one['class']}({', '.join(f'{key}={value}' for key, value in settings.items())})")
    return Trait.of_items(OPTIMIZER, listed)


def _groups(tree: Tree) -> Trait:
    groups = [group for one in tree.get("optimizers", ()) for group in one["groups"]]
    return Trait.of_items(
        GROUPS, (f"{group['tensors']} tensors of {group['parameters']:,} numbers" for group in groups)
    )


def _of_groups(tree: Tree, trait: str, key: str) -> Trait:
    values = dict.fromkeys(str(group.get(key)) for one in tree.get("optimizers", ()) for group in one["groups"])
    return Trait.of_words(trait, ", ".join(values) or "–")


def _rates(tree: Tree) -> Trait:
    """The rate of the first group of every optimizer at every step."""
    pieces = []
    for one in tree.get("optimizers", ()):
        rates = np.zeros(min(one["steps"], MOST_STEPS))
        for step, values in one["rates"]:
            rates[step - 1 :] = values[0] if values else 0.0
        pieces.append(rates)
    sequence = pieces[0] if pieces else np.zeros(0)
    value = json.dumps([one["rates"] for one in tree.get("optimizers", ())])
    first = ", ".join(f"{piece[0]:.4g}" for piece in pieces if len(piece)) or "–"
    changes = max((len(one["rates"]) - 1 for one in tree.get("optimizers", ())), default=0)
    return Trait(RATE, value, first + (f" with {changes:,} changes" if changes else ""), sequence=sequence)


def _batches(tree: Tree) -> Trait:
    hashes = [batch for one in tree.get("loaders", ()) for batch in one["batches"]]
    words = f"{len(hashes)} batches, {hash_together(hashes)}" if hashes else "not seen"
    return Trait(ORDER, hash_together(hashes), words, sequence=np.array(hashes), unit="batch")


def _losses(tree: Tree) -> Trait:
    return Trait.of_words(LOSSES, ", ".join(f"{value:.7g}" for value in tree.get("losses", ())) or "not seen")


def _remarks(seen: Mapping[str, Tree], trees: Mapping[tuple[str, int], Tree], seeds: Sequence[int]) -> Iterator[Fact]:
    for name, tree in seen.items():
        if left := tree.get("in no optimizer"):
            words = f"{name}: no optimizer holds {listed(left)}, which are never trained."
            yield Fact("parameters_in_no_optimizer", words, name)
        if tree.get("evaluating"):
            yield Fact("evaluation_mode", f"{name}: the model is in evaluation mode at its first step.", name)
        others = [dict(_parameters_of(trees[name, s])) for s in seeds if (name, s) in trees]
        hashes = [{key: one["hash"] for key, one in other.items()} for other in others]
        if len(hashes) > 1 and hashes[0] and hashes[0] == hashes[1]:
            words = f"{name}: initial weights are the same under seeds {seeds[0]} and {seeds[1]}."
            yield Fact("seed_without_effect", words, name)


def _failures(tree: Tree) -> Iterator[str]:
    if not tree.get("steps"):
        yield NO_STEP[0].lower() + NO_STEP[1:]
    elif not tree.get("loaders"):
        yield "no batch was seen, because none came from a DataLoader."
    if tree.get("processes", 1) > 1:
        yield f"{tree['processes']} processes made steps; the one with the most was compared."
    yield from (f"the trace failed in part ({failure})." for failure in tree.get("failures", ()))
