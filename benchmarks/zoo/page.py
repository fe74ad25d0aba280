"""The zoo's section of docs/pytorch.md, from the results that were kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alarms import STEPS
from healthy import HEALTHY

START, END = "<!-- generated: zoo -->", "<!-- end of generated -->"
INTRO = """\
The doctor names {named} of {all} faults. **Both sets of faults were written by the authors of the rules**: this says
how much it names of what its authors thought of, not how often it would name the cause in somebody else's code. A set
that others collected has not been tried. It raises {alarms} in {healthy} healthy networks; those listed under torch
we wrote ourselves, all others come from public packages.
"""
METHOD = f"""\
- **A fault** is a training loop of 10 to 120 steps that is watched at about ten of them. It is *named* if one of the
  findings that name its cause is in the diagnosis, as a finding or as a note; *other* if only something else was
  found; *missed* if nothing was found, or only other notes. The second set was written down before the rules were
  changed and was first run when they were finished; its first result is kept as it was.
- **A healthy network** is probed once without an optimizer, then watched over {STEPS["AdamW"]} steps of AdamW at 1e-3
  and {STEPS["SGD"]} of SGD at 1e-2, every third step probed. Any finding at any of these times is a false alarm;
  notes are not counted. Networks come from their packages, in small configurations, with random weights and random
  data; where torchvision is missing, an empty stand-in takes the place of its image transforms, which these networks
  do not use.
- Made by `python benchmarks/zoo healthy`, `first`, `second` and `docs`, with one seed each. The third column is a
  fingerprint of the doctor's code.
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
    ("faults the rules were made with", "first"),
    ("faults written down before the rules, first run", "second_at_first"),
    ("the same faults, run again", "second"),
)


def write_section(results: Path) -> str:
    """Return the section as Markdown, between its marks."""
    names = ("healthy", "first", "second", "second_at_first", "seeds", "versions", "unexamined")
    kept = {name: _read(results / f"{name}.json") for name in names}
    faults = [
        "**First set**",
        "",
        "| fault | | found |",
        "| --- | --- | --- |",
        *(f"| {fault} | {each['verdict']} | {_findings(each)} |" for fault, each in kept["first"].items()),
        "",
        "**Second set**",
        "",
        "| fault | first run | now | found now |",
        "| --- | --- | --- | --- |",
        *(
            f"| {fault} | {kept['second_at_first'][fault]['verdict']} | {each['verdict']} | {_findings(each)} |"
            for fault, each in kept["second"].items()
        ),
        "",
        "Findings in brackets are notes.",
    ]
    healthy = [
        *_list_healthy(kept["healthy"], kept["versions"]),
        *_list_unexamined(kept["healthy"], kept["unexamined"]),
    ]
    lines = [START, "", _introduce(kept), *_count(kept), "", METHOD, *_list_seeds(kept["seeds"]), ""]
    lines += [*_folded("Every fault, and what was found", faults), "", *_folded("Every healthy network", healthy)]
    return "\n".join([*lines, "", END])


def _introduce(kept: Mapping[str, Mapping[str, Any]]) -> str:
    faults = [*kept["first"].values(), *kept["second"].values()]
    alarms = sum(bool(each["found"]) for each in kept["healthy"].values())
    return INTRO.format(
        named=sum(each["verdict"] == "named" for each in faults),
        all=len(faults),
        alarms="one false alarm" if alarms == 1 else f"{alarms} false alarms",
        healthy=len(kept["healthy"]),
    )


def _count(kept: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the table of counts; results of different versions of the doctor are never added up."""
    lines = [
        "| | networks or faults | doctor | named | other | missed | false alarms |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for label, name in SETS:
        for version, entries in _by_version(kept[name]).items():
            counts = " | ".join(
                str(sum(each["verdict"] == word for each in entries)) for word in ("named", "other", "missed")
            )
            lines.append(f"| {label} | {len(entries)} | {version} | {counts} | |")
    for version, entries in _by_version(kept["healthy"]).items():
        alarms = sum(bool(each["found"]) for each in entries)
        lines.append(f"| healthy networks | {len(entries)} | {version} | | | | {alarms} |")
    return lines


def _by_version(entries: Mapping[str, Any]) -> dict[str, list[Any]]:
    versions: dict[str, list[Any]] = {}
    for each in entries.values():
        versions.setdefault(each.get("rules", "earlier"), []).append(each)
    return versions


def _findings(fault: Mapping[str, Any]) -> str:
    return ", ".join([*fault["found"], *(f"({note})" for note in fault["noted"])]) or "–"


def _list_healthy(healthy: Mapping[str, Any], versions: Mapping[str, str]) -> list[str]:
    by_package: dict[str, list[str]] = {}
    for name, each in healthy.items():
        by_package.setdefault(each["package"], []).append(name + (" **(alarm)**" if each["found"] else ""))
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


def _list_seeds(seeds: Mapping[str, Any]) -> list[str]:
    """List what came out with other seeds: faults that were not named, healthy networks with an alarm."""
    if not seeds:
        return []
    lines = [
        "With other seeds (`python benchmarks/zoo seeds`; a few of the faults draw from a seed of their own):",
        "",
        "| | of | not named, or alarms |",
        "| --- | --- | --- |",
    ]
    for what, each in seeds.items():
        lines.append(f"| {what} | {each['of']} | {', '.join(each['failed']) or 'none'} |")
    return lines


def _list_unexamined(healthy: Mapping[str, Any], reasons: Mapping[str, str]) -> list[str]:
    """List the networks of the zoo that have no result, with the reason."""
    left = [name for name in HEALTHY if name not in healthy]
    if not left:
        return []
    lines = ["", f"Not examined, and not counted ({len(left)}):", ""]
    return [*lines, *(f"- {name}: {reasons.get(name, 'not run yet')}" for name in left)]


def _folded(title: str, lines: list[str]) -> list[str]:
    return ['<details markdown="1">', f"<summary>{title}</summary>", "", *lines, "", "</details>"]


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}
