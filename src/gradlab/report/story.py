"""How the study was designed, and what it takes to run it again, as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from gradlab.analysis.claims.numbers import Comparison, compare_numbers
from gradlab.analysis.claims.verdict import Verdict
from gradlab.analysis.estimate import where
from gradlab.analysis.measured import Measured
from gradlab.analysis.theory import predictions_of
from gradlab.analysis.tuning import Tuning, tuning_of
from gradlab.audits.audit import STARTS, UNDECLARED_CODE, Audit
from gradlab.facts import Fact
from gradlab.parts import Catalog
from gradlab.report.charts.base import common_names, shorten_names
from gradlab.report.figures.base import Figure
from gradlab.report.inside.recording import Recording
from gradlab.report.look import DASHES, MARKERS, Stroke, dark_colors
from gradlab.report.pictures import Pictures, make_pictures
from gradlab.report.scheme import Scheme, make_scheme
from gradlab.report.tables import (
    Table,
    list_failures,
    list_resampling,
    make_tables,
    tabulate_audit,
    tabulate_claims,
    tabulate_layer_names,
    tabulate_tuning,
    tuning_json,
)
from gradlab.runs.store.environment import mixed_note
from gradlab.runs.store.history import History
from gradlab.runs.store.project import Standing
from gradlab.spec.claims import Claim
from gradlab.spec.naming import Names, say_settings
from gradlab.spec.paths import label
from gradlab.tell.answers import Answer, answer, verdicts_of
from gradlab.tell.findings import MOST
from gradlab.tell.findings import list_findings as findings
from gradlab.tell.history import history_json, tell_history, tell_unfinished
from gradlab.tell.methods import describe_choice, describe_edges, describe_method, describe_methods
from gradlab.tell.project import tell_project
from gradlab.tell.why import Explanation, explanation
from gradlab.words import counted


@dataclass(frozen=True)
class Design:
    """In what the arms are allowed to differ, and what each of them is."""

    factor: tuple[str, ...]
    seeds: str
    sharing: str
    """What the seeds have in common across groups, in words."""
    groups: Table
    data: tuple[str, ...]
    """What was inferred from the data, in words."""


@dataclass(frozen=True)
class Rerun:
    """What makes the same results again."""

    command: str
    machine: str | None
    """Versions and processor in words; None if they were not recorded."""
    code: str | None
    """The file that holds the user's code; None of networks of the lab."""
    hash: str
    """Of the results: equal hashes, equal bits."""


def describe_design(measured: Measured) -> Design:
    """The design of the study that was run."""
    plan, study = measured.plan, measured.study
    known = any(planned.known_cost is not None for planned in plan.groups)
    header = ("group", "settings", *(("parameters", "steps", "GFLOP per trial") if known else ()))
    rows = []
    for planned in plan.groups:
        settings = ", ".join(f"{path} = {label(value)}" for path, value in planned.group.settings.items()) or "the base"
        cost = planned.known_cost
        sizes = () if cost is None else (f"{cost.parameters:,}", f"{cost.steps:,}", f"{cost.flops / 1e9:,.3g}")
        rows.append((planned.group.name, settings, *sizes))
    return Design(
        study.factor,
        measured.seed_words,
        "shared by all groups (common random numbers)" if known else "the same for all groups",
        Table("Design", header, tuple(rows), numbers=(2, 3, 4) if known else ()),
        tuple(dict.fromkeys(planned.stated for planned in plan.groups if planned.stated)),
    )


def describe_rerun(measured: Measured, environment: Mapping[str, Any], command: str) -> Rerun:
    """The command, the environment and the hash of the results."""
    packages = ", ".join(f"{name} {version}" for name, version in environment.get("packages", {}).items() if version)
    machine = None
    if packages:
        python, processor, system = (environment.get(key, "unknown") for key in ("python", "processor", "system"))
        machine = f"Python {python}, {packages}; {processor} ({system})."
    return Rerun(command, machine, measured.study.code_file if measured.plan.own_code else None, measured.hash)


# Which figure shows what a claim is about.


def link_figures(verdicts: Iterable[Verdict], drawn: Sequence[str], catalog: Catalog) -> tuple[Verdict, ...]:
    """The verdicts, each with the figure of the report that shows it."""
    return tuple(replace(verdict, figure=find_figure(verdict.claim, drawn, catalog)) for verdict in verdicts)


def find_figure(claim: Claim, drawn: Sequence[str], catalog: Catalog) -> str | None:
    """The figure that the claim names, or the first drawn one that shows its metric at the claim's step."""
    if claim.figure in drawn:
        return claim.figure
    if claim.metric is None:
        return None
    metrics = [metric.strip() for metric in claim.metric.split("/")]
    wanted = [f"{metric}@{claim.at.step or 'end'}" for metric in metrics] + metrics
    for metric in wanted:
        for name in drawn:
            figure: type[Figure] = catalog.get("figure", name)  # type: ignore[assignment]
            if metric in figure.shows:
                return name
    return None


# A result in a few lines: what it rests on, what could explain it otherwise, how its claims came out.

MOST_CAVEATS = 3
"""Caveats that one line names; the report has all."""
NAMED, MOST_NAMED = ("direction only", "not reproduced", "no difference"), 2
"""Outcomes whose claims the tally names, if they are few."""
OUTCOMES = (
    ("direction only", "in direction only"),
    ("not reproduced", "refuted"),
    ("no difference", "without a difference that matters"),
    ("not settled", "not settled"),
    ("not tested", "not tested"),
)
APART = (
    ("says little", "says little", "say little"),
    ("not comparable", "is not comparable", "are not comparable"),
)
"""Answers for published numbers that neither match nor fail to, with their verbs."""


def describe_fairness(audit: Audit | None, names: Names) -> str:
    """Whether the arms differ in nothing but the factor; empty if that was not audited."""
    groups = len(names.groups)
    if audit is None or groups < 2:
        return ""
    if not audit.fair:
        return f"Not a controlled comparison: {'; '.join(audit.undeclared)}."
    if audit.identical:
        return "Nothing varies: the arms are identical in everything that was compared."
    which = "The two" if groups == 2 else f"The {groups} groups"
    varied = [path.partition(" ")[0] for path in audit.varied or audit.factor]  # a scale is named with its value
    within = {path for path in names.axes if any(each == path or each.startswith(f"{path}.") for each in varied)}
    blocks = [path for path in names.axes if path not in within]
    if blocks and within:  # the audit of a command names what it saw, and not the places of its settings
        shared = say_settings(blocks).removeprefix("the ")
        return f"{groups} groups: at the same {shared} they differ only in {say_settings(varied)}."
    only = f" ({audit.only_difference})" if groups == 2 and audit.only_difference else ""
    return f"{which} differ only in {say_settings(varied)}{only}."


def describe_caveats(caveats: Sequence[str], sequel: str | None) -> str:
    """What else could explain the result, in one line; empty if the audit knows of nothing."""
    if not caveats:
        return ""
    shown = "; ".join(caveats[:MOST_CAVEATS])
    rest = len(caveats) - MOST_CAVEATS
    more = f"; {rest} more in the report" if rest > 0 else ""
    controlled = f" The controlled study: `gradlab run {sequel}`." if sequel else ""
    return f"{'Caveat' if len(caveats) == 1 else 'Caveats'}: {shown}{more}.{controlled}"


def _name_claims(verdicts: Sequence[Verdict], outcome: str) -> str:
    """The claims that do not hold, by their texts, if they are few."""
    texts = [f"“{verdict.claim.text}”" for verdict in verdicts if verdict.outcome == outcome]
    return f" ({'; '.join(texts)})" if outcome in NAMED and len(texts) <= MOST_NAMED else ""


def count_claims(verdicts: Sequence[Verdict], numbers: Sequence[Comparison]) -> str:
    """`8 of 9 claims hold, 1 is not settled; 16 of 17 published numbers match.`"""
    parts = []
    tested = [verdict for verdict in verdicts if verdict.outcome != "not tested"]
    if verdicts and not tested:
        parts.append(f"{counted(len(verdicts), 'claim')} not tested")
    elif verdicts:
        counts: Counter[str] = Counter(verdict.outcome for verdict in verdicts)
        others = [
            f"{counts[outcome]} {words}{_name_claims(verdicts, outcome)}"
            for outcome, words in OUTCOMES
            if counts[outcome]
        ]
        holds = f"{counts['reproduced']} of {counted(len(verdicts), 'claim')} hold{'s' * (len(verdicts) == 1)}"
        parts.append(", ".join([holds, *others]))
    compared = [row for row in numbers if row.outcome in ("consistent", "not consistent")]
    if compared:
        same = sum(row.outcome == "consistent" for row in compared)
        match = f"match{'es' * (len(compared) == 1)}"
        parts.append(f"{same} of {counted(len(compared), 'published number')} {match}")
    for outcome, one, many in APART:
        if count := sum(row.outcome == outcome for row in numbers):
            noun = f"{count} more" if compared else counted(count, "published number")
            parts.append(f"{noun} {one if count == 1 else many}")
    return f"{'; '.join(parts)}." if parts else ""


# Every layer measure of every group at every moment, for the reader to browse.

MOST_NUMBERS, MOST_MOMENTS, MOST_LAYERS = 300_000, 24, 256
"""Of all groups together, so that the page stays small."""
FIRST = "grad_l2"
"""What is shown before the reader chooses, if it was measured."""
EDGES = ("center", "low", "high")
"""What the page gets of theory, which speaks of step 0 only."""


def make_explorer(measured: Measured, layers: Sequence[str] = ()) -> dict[str, Any] | None:
    """Medians over seeds by measure, group, moment and layer; None if the inside was not measured.

    Beside them, what theory expects before training: a line by layer with the band that holds 95 % of the seeds.
    Groups are named and drawn as in the figures; where these have panels, the reader chooses one.
    """
    names = sorted(measured.measures, key=lambda name: name != FIRST)
    if not names or max(measured.layer_count(group) for group in measured.group_names) > MOST_LAYERS:
        return None
    scheme = make_scheme(measured)
    groups = [group for group in measured.group_names if group in scheme]
    steps = sorted({step for group in groups for step in measured.moments(group)})[:MOST_MOMENTS]
    each = len(names) * (len(steps) + len(EDGES) * (0 in steps))
    while len(groups) > 2 and each * sum(measured.layer_count(group) for group in groups) > MOST_NUMBERS:
        groups = groups[::2]  # every second one, along every axis
    measures: list[dict[str, Any]] = [
        {
            "name": name,
            "label": measured.metric(name).label,
            "log": measured.metric(name).kind not in ("signed", "share"),
            "values": [[_medians(measured, name, group, step) for step in steps] for group in groups],
            "theory": [_theory(measured, name, group) if 0 in steps else None for group in groups],
        }
        for name in names
    ]
    return {
        "groups": [measured.names.group(group) for group in groups],
        "strokes": [_describe_stroke(scheme.strokes[group]) for group in groups],
        "tips": [scheme.tip(group) for group in groups],
        "panels": _panels(scheme, groups),
        "left_out": len(measured.group_names) - len(groups),
        "layers": list(layers),
        "short": list(shorten_names(layers)),
        "steps": steps,
        "measures": measures,
        "has_theory": any(any(measure["theory"]) for measure in measures),
    }


def _panels(scheme: Scheme, groups: list[str]) -> list[dict[str, Any]]:
    """The panels of the figures, each with the places of its groups; none where each would have one curve."""
    if scheme.ghosts or not scheme.facets:
        return []
    titles = list(dict.fromkeys(scheme.panel(group) for group in groups))
    return [
        {"title": title, "groups": [place for place, group in enumerate(groups) if scheme.panel(group) == title]}
        for title in titles
    ]


def _describe_stroke(stroke: Stroke) -> dict[str, Any]:
    """Colors for light and dark, and the place of dash and marker in the page's own lists."""
    return {
        "light": stroke.color,
        "dark": dark_colors()[stroke.color],
        "dash": DASHES.index(stroke.dashes),
        "marker": MARKERS.index(stroke.marker),
    }


def _medians(measured: Measured, name: str, group: str, step: int) -> list[float | None] | None:
    values = measured.profile(name, group, step).values
    if values.size == 0 or not np.isfinite(values).any():
        return None
    finite = np.where(np.isfinite(values), values, np.nan)
    there = np.isfinite(finite).any(0)
    medians = np.full(values.shape[1], np.nan)
    medians[there] = np.nanmedian(finite[:, there], axis=0)
    return [float(f"{v:.4g}") if np.isfinite(v) else None for v in medians]


def _theory(measured: Measured, name: str, group: str) -> dict[str, list[float | None]] | None:
    """Center and band by layer, from the first; None if theory says nothing of this measure."""
    prediction = predictions_of(measured).get(group)
    forecasts = {} if prediction is None else dict(prediction.forecasts.get(name, {}))
    shown = {layer: one for layer, one in forecasts.items() if one.signed or one.center > 0}
    if not shown:
        return None
    rows = [shown.get(layer) for layer in range(1, measured.layer_count(group) + 1)]
    return {edge: [None if one is None else float(f"{getattr(one, edge):.4g}") for one in rows] for edge in EDGES}


# The story of a result: everything that a report tells, computed once, whoever tells it.
#
# Terminal, Markdown, HTML page, notebook, LaTeX and JSON read this object and compute nothing themselves. Each item is
# computed when it is first asked for: the answer alone needs no figures.

QUICK_NOTE = "Reduced budget (--quick): a look at the machinery, not a test of the claims."
UNAUDITED_NOTES = {
    "function": "Not audited: that the arms differ in nothing else is for their code to keep; gradlab.audit compares "
    "what they build.",
    "command": "Not audited: no optimizer step of PyTorch was seen, so that the arms differ in nothing else is for the "
    "commands to keep.",
    "table": "Not audited: whether the arms differ in anything else, these numbers cannot say.",
}
UNFINISHED_NOTE = "Unfinished: only the trials that are done so far are in this report."


@dataclass(frozen=True)
class Story:
    """Everything that a report tells, as data and finished sentences."""

    measured: Measured
    audit: Audit | None
    environment: Mapping[str, Any]
    command: str
    folder_notes: tuple[str, ...] = ()
    """What happened to the run's folder: a run moved aside, a damaged chunk."""
    recording: Recording | None = None
    layer_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Group -> the modules that are its layers 1, 2, …, if they have names."""
    history: History | None = None
    """What was frozen, changed and looked at, by the run's ledger; None of a run in memory."""
    project: Standing | None = None
    """Where its claims stand among all of the project; None of a run that belongs to none."""

    @property
    def name(self) -> str:
        """The study's name."""
        return self.measured.study.name

    @property
    def question(self) -> str:
        """The study's question."""
        return self.measured.study.question

    @property
    def source(self) -> str | None:
        """The write-up that makes the claims."""
        return self.measured.study.source

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """What the reader has to know first: from the study, and what happened to the run."""
        return (*self.measured.study.remarks, *self.events)

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """What happened to claims, seeds and results since they were frozen; nothing if all went as planned."""
        project = () if self.project is None else tell_project(self.project)
        history = () if self.history is None else tell_history(self.history)
        return (*project, *history, *tell_unfinished(self.measured))

    @property
    def events(self) -> tuple[str, ...]:
        """The same in sentences."""
        return tuple(fact.words for fact in self.facts)

    @cached_property
    def answered(self) -> Answer:
        """The answer to the question: a word, and sentences from the numbers."""
        found = answer(self.measured)
        chosen = describe_choice(self.tuning, self.measured) if self.tuning is not None else ""
        return replace(found, sentences=(*found.sentences, chosen)) if chosen else found

    @property
    def answer(self) -> str:
        """The answer in words."""
        return str(self.answered)

    @cached_property
    def numbers(self) -> tuple[Comparison, ...]:
        """Every published number against the measured one."""
        return compare_numbers(self.measured)

    @property
    def fairness(self) -> str:
        """Whether the arms differ only in the factor, in one sentence."""
        return describe_fairness(self.audit, self.measured.names)

    @property
    def caveats(self) -> str:
        """What else could explain the result, in one line: what is told as the mechanism is no rival of it."""
        named = self.measured.study.sequel if "gradlab run" not in self.because else None
        return describe_caveats(self.rivals, named)

    @property
    def rivals(self) -> tuple[str, ...]:
        """The caveats of the audit, but for those that say what is told as the mechanism."""
        if self.audit is None:
            return ()
        return self.audit.rivals if self.has_mechanism else self.audit.caveats

    @property
    def has_mechanism(self) -> bool:
        """Whether the numbers show why."""
        return self.why is not None and self.why.why.found

    @property
    def limits(self) -> tuple[str, ...]:
        """What the design cannot attribute, without what is told as the mechanism."""
        facts = () if self.audit is None else self.audit.facts
        told = (UNDECLARED_CODE, *(STARTS if self.has_mechanism else ()))
        return tuple(fact.words for fact in facts if fact.code not in told)

    @cached_property
    def why(self) -> Explanation | None:
        """Why the groups that the answer hangs on end apart; None of a single group, of no results, and of commands and
        tables, into which nobody looks.
        """
        plan = self.measured.plan
        closed = plan.own_code and plan.code.kind != "function"
        return explanation(self.measured) if self.counts["done"] and not closed else None

    @property
    def because(self) -> str:
        """The mechanism in a sentence, or that the numbers show none."""
        return "" if self.why is None else self.why.because

    @property
    def tally(self) -> str:
        """How claims and published numbers came out, in one sentence."""
        return count_claims(verdicts_of(self.measured), self.numbers)

    @property
    def unfinished(self) -> bool:
        """Whether trials of the plan have no result yet."""
        there = set(self.measured.records.trials["trial"].to_pylist())
        return any(trial.id not in there for trial in self.measured.plan.all_trials)

    @cached_property
    def tuning(self) -> Tuning | None:
        """What the tuning of the arms found; None if the study tunes nothing."""
        return tuning_of(self.measured.plan, self.measured.records)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Everything that limits how far the results can be trusted."""
        plan = self.measured.plan
        notes = [*self.remarks, *([QUICK_NOTE] if plan.quick else [])]
        if self.audit is None and len(self.measured.group_names) > 1 and plan.own_code:
            notes.append(UNAUDITED_NOTES[plan.code.kind])
        notes += describe_edges(self.tuning) if self.tuning is not None else []
        notes += [UNFINISHED_NOTE] if self.unfinished else []
        mixed = mixed_note(self.environment)
        notes += [mixed] if mixed else []
        return (*notes, *self.folder_notes)

    @cached_property
    def all_findings(self) -> tuple[str, ...]:
        """What else the numbers show, the most telling first."""
        return findings(self.measured)

    @property
    def findings(self) -> str:
        """The three that say most to a reader; empty if there are none."""
        return " ".join(self.all_findings[:MOST])

    @property
    def further(self) -> tuple[str, ...]:
        """The others, which stand with the tables."""
        return self.all_findings[MOST:]

    @cached_property
    def pictures(self) -> Pictures:
        """Charts and micro-world, as data."""
        return make_pictures(self.measured, self.audit, self.recording, common_names(self.layer_names))

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What became of every claim, each with the figure that shows it."""
        return link_figures(verdicts_of(self.measured), tuple(self.pictures.charts), self.measured.plan.catalog)

    @cached_property
    def claims(self) -> Table | None:
        """The verdicts as a table; None if the study makes no claims."""
        return tabulate_claims(self.verdicts)

    @cached_property
    def resampling(self) -> tuple[str, ...]:
        """Permutation test and bootstrap of every claim that has them; they do not decide."""
        return tuple(list_resampling(self.verdicts))

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The tables of results, those of a tuning after the first."""
        first, *others = make_tables(self.measured)
        return (first, *(tabulate_tuning(self.tuning, self.measured) if self.tuning is not None else ()), *others)

    @cached_property
    def layer_table(self) -> Table | None:
        """Which module is which layer, if user code was watched."""
        return tabulate_layer_names(self.layer_names)

    @cached_property
    def audit_table(self) -> Table | None:
        """What every arm is, side by side."""
        return None if self.audit is None else tabulate_audit(self.audit)

    @cached_property
    def failures(self) -> tuple[str, ...]:
        """One line per distinct error of a trial."""
        tuning = self.tuning.errors if self.tuning is not None else {}
        return (*list_failures(self.measured), *(f"{count} × {error} (tuning)" for error, count in tuning.items()))

    @cached_property
    def explorer(self) -> dict[str, Any] | None:
        """Every layer measure of every group at every moment; None if the inside was not measured."""
        return make_explorer(self.measured, common_names(self.layer_names))

    @cached_property
    def methods(self) -> str:
        """How it was done, in one paragraph."""
        tuned = [describe_method(self.tuning)] if self.tuning is not None else []
        return " ".join([describe_methods(self.measured, self.audit, self.environment), *tuned])

    @cached_property
    def design(self) -> Design:
        """In what the arms are allowed to differ, and what each of them is."""
        return describe_design(self.measured)

    @cached_property
    def rerun(self) -> Rerun:
        """What makes the same results again."""
        return describe_rerun(self.measured, self.environment, self.command)

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many trials are done, failed and diverged."""
        return self.measured.counts()

    @cached_property
    def metrics(self) -> Mapping[str, Mapping[str, Any]]:
        """Group -> metric -> mean, interval, n and more over seeds, as plain data.

        Trial metrics, and the layer measures that the headline, claims and published numbers name.
        """
        return {group: self._summarize_group(group) for group in self.measured.group_names}

    def _summarize_group(self, group: str) -> dict[str, Any]:
        measured, study = self.measured, self.measured.study
        found = {metric: measured.summary(metric, group).to_json() for metric in measured.metrics}
        for named in (measured.headline, *study.claims, *study.published):
            if named is None or named.metric is None or named.at.layer is None or "/" in named.metric:
                continue
            for at in measured.places(named.at, group):
                found[where(named.metric, at)] = measured.summary(named.metric, group, at).to_json()
        return found

    def to_json(self, run: str | None = None) -> dict[str, Any]:
        """Study, audit, trials, groups with their metrics, and claims, as plain data; `run` is the run's folder."""
        return {
            "study": self.name,
            "question": self.question,
            "answer": self.answer,
            "answer_word": self.answered.word or None,
            "because": None if self.why is None else self.why.to_json(),
            "fairness": self.fairness or None,
            "caveats": list(self.audit.caveats) if self.audit is not None else [],
            "tally": self.tally or None,
            "run": run,
            "quick": self.measured.plan.quick,
            "unfinished": self.unfinished,
            "audit": None if self.audit is None else self.audit.to_json(),
            "notes": list(self.folder_notes),
            "facts": [fact.to_json() for fact in self.facts],
            "history": None if self.history is None else history_json(self.history),
            "trials": self.counts,
            "hash": self.rerun.hash,
            "groups": [
                {
                    "name": planned.group.name,
                    "settings": dict(planned.group.settings),
                    "metrics": self.metrics[planned.group.name],
                }
                for planned in self.measured.plan.groups
            ],
            "claims": [verdict.to_json() for verdict in self.verdicts],
            **({"tuning": tuning_json(self.tuning, self.measured)} if self.tuning is not None else {}),
        }
