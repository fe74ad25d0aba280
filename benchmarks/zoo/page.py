"""The page of the zoo, from the results that were kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alarms import STEPS
from healthy import HEALTHY

INTRO = f"""# The zoo: what the doctor names, and what it leaves alone

Made by `python benchmarks/zoo healthy`, `first`, `second` and `docs`: counts, lists and tables are written from the
kept results. Every network and every fault was run with one seed; what other seeds give is at the end.

- **A fault** is a training loop of 10 to 120 steps that is watched at about ten of them. It is *named* if one of the
  findings that name its cause is in the diagnosis, as a finding or as a note; *other* if only something else was
  found; *missed* if nothing was found, or only other notes. The second set was written down before the rules were
  changed and was first run when they were finished; its first result is kept as it was.
- **A healthy network** is probed once without an optimizer, then watched over {STEPS["AdamW"]} steps of AdamW at 1e-3
  and {STEPS["SGD"]} of SGD at 1e-2, every third step probed. Any finding at any of these times is a false alarm;
  notes are not counted. Networks come from their packages, in small configurations, with random weights and random
  data; where torchvision is missing, an empty stand-in takes the place of its image transforms, which these networks
  do not use.
"""
REMARKS = {
    "dla34 (timm)": "What is said is true of the network as it is built here: timm draws its classifier, a "
    "convolution, with a standard deviation of √(2 / classes), which is 0.45 for our 10 classes and 0.045 for the "
    "1,000 that it was made for, so that it starts far from an even guess. Under AdamW it learns all the same: the "
    "alarm counts as false.",
    "poolformer_s12 (timm)": "This network is examined on images of 64 × 64. On those of 32 × 32, which it had at "
    "first, its last stage has maps of a single pixel; pooling minus identity is exactly 0 there, and the doctor said, "
    "rightly, that six parameter tensors get no gradient.",
}
"""What we found out about alarms, now and before."""
SETS = (
    ("faults the rules were made with", "First set", "first"),
    ("faults written down before the rules, first run", "Second set, first run", "second_at_first"),
    ("the same faults, run again", "Second set, run again", "second"),
)


def write_page(results: Path, versions: Mapping[str, str], rules: str) -> str:
    """Return the page as Markdown; `rules` is the fingerprint of the doctor's code now."""
    kept = {name: _read(results / f"{name}.json") for name in ("healthy", "first", "second", "second_at_first")}
    again = _verdicts(kept["second"]) != _verdicts(kept["second_at_first"])
    lines = [INTRO, *_count(kept, rules), "", "## Faults", ""]
    for _, title, name in SETS:
        if name != "second" or again:
            lines += [f"### {title}", "", *_list_faults(kept[name], rules), ""]
        elif kept["second"]:
            lines += ["Run again, the second set gave the same findings for every fault.", ""]
    lines += ["Findings in brackets are notes; ° is a result of an earlier version of the doctor.", ""]
    lines += ["## Healthy networks", "", *_list_healthy(kept["healthy"], versions, rules)]
    lines += _list_unexamined(kept["healthy"], _read(results / "unexamined.json"))
    lines += _list_seeds(_read(results / "seeds.json"), rules)
    return "\n".join(lines) + "\n"


def _count(kept: Mapping[str, Mapping[str, Any]], rules: str) -> list[str]:
    """Return the table of counts; results of this version and of earlier ones are never added up."""
    lines = [
        "| | doctor | networks or faults | named | other | missed | false alarms |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for label, _, name in SETS:
        for version, entries in _split(kept[name], rules):
            counts = [sum(each["verdict"] == word for each in entries) for word in ("named", "other", "missed")]
            lines.append(f"| {label} | {version} | {len(entries)} | {counts[0]} | {counts[1]} | {counts[2]} | |")
    for version, entries in _split(kept["healthy"], rules):
        alarms = sum(bool(each["found"]) for each in entries)
        lines.append(f"| healthy networks | {version} | {len(entries)} | | | | {alarms} |")
    return lines


def _split(entries: Mapping[str, Any], rules: str) -> list[tuple[str, list[Any]]]:
    now = [each for each in entries.values() if each.get("rules") == rules]
    earlier = [each for each in entries.values() if each.get("rules") != rules]
    return [(f"this version ({rules})", now)] * bool(now) + [("earlier versions", earlier)] * bool(earlier)


def _mark(each: Mapping[str, Any], rules: str) -> str:
    return "" if each.get("rules") == rules else "°"


def _list_faults(faults: Mapping[str, Any], rules: str) -> list[str]:
    lines = ["| fault | | found |", "| --- | --- | --- |"]
    for fault, each in faults.items():
        found = ", ".join([*each["found"], *(f"({note})" for note in each["noted"])]) or "–"
        lines.append(f"| {fault}{_mark(each, rules)} | {each['verdict']} | {found} |")
    return lines


def _list_healthy(healthy: Mapping[str, Any], versions: Mapping[str, str], rules: str) -> list[str]:
    by_package: dict[str, list[str]] = {}
    for name, each in healthy.items():
        by_package.setdefault(each["package"], []).append(
            name + _mark(each, rules) + (" **(alarm)**" if each["found"] else "")
        )
    lines = [
        f"- {package} {versions.get(package, '')} ({len(names)}): {'; '.join(sorted(names))}"
        for package, names in sorted(by_package.items())
    ]
    for name, each in healthy.items():
        if each["found"]:
            lines += ["", f"**{name}**", "", *(f"- {when}: {said}" for when, said in each["found"].items())]
        if name in REMARKS:
            lines += ["", REMARKS[name] if each["found"] else f"**{name}** {REMARKS[name]}"]
    return lines


def _list_seeds(seeds: Mapping[str, Any], rules: str) -> list[str]:
    """List what came out with other seeds: faults that were not named, healthy networks with an alarm."""
    lines = [
        "",
        "## With other seeds",
        "",
        "Made by `python benchmarks/zoo seeds`; a few of the faults draw from a seed of their own whatever is asked.",
        "",
    ]
    lines += ["| | of | not named, or alarms |", "| --- | --- | --- |"]
    for what, each in seeds.items():
        lines.append(f"| {what}{_mark(each, rules)} | {each['of']} | {', '.join(each['failed']) or 'none'} |")
    return lines if seeds else []


def _list_unexamined(healthy: Mapping[str, Any], reasons: Mapping[str, str]) -> list[str]:
    """List the networks of the zoo that have no result, with the reason."""
    left = [name for name in HEALTHY if name not in healthy]
    if not left:
        return []
    lines = [
        "",
        "### Not examined",
        "",
        f"Networks of the list that have no result here and are not counted ({len(left)}):",
        "",
    ]
    return [*lines, *(f"- {name}: {reasons.get(name, 'not run yet')}" for name in left)]


def _verdicts(faults: Mapping[str, Any]) -> dict[str, Any]:
    """What was said of each fault, whatever the version."""
    return {name: {key: value for key, value in each.items() if key != "rules"} for name, each in faults.items()}


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}
