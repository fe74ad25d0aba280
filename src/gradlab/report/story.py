"""The story of a result: everything that a report tells, computed once, whoever tells it.

Terminal, Markdown, HTML page, notebook, LaTeX and JSON read this object and compute nothing themselves. Each item is
computed when it is first asked for: the answer alone needs no figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from gradlab.analysis.answer import Answer, answer, headline_of, verdicts_of
from gradlab.analysis.claims.numbers import Comparison, compare_numbers
from gradlab.analysis.claims.verdict import Verdict
from gradlab.analysis.findings import findings
from gradlab.analysis.formatting import where
from gradlab.analysis.measured import Measured
from gradlab.analysis.tuning import Tuning, tuning_of
from gradlab.audits.audit import Audit
from gradlab.report.brief import count_claims, describe_caveats, describe_fairness
from gradlab.report.design import Design, Rerun, describe_design, describe_rerun
from gradlab.report.evidence import link_figures
from gradlab.report.explorer import make_explorer
from gradlab.report.fairness import list_resampling, tabulate_audit, tabulate_claims
from gradlab.report.history import History, unfinished_remarks
from gradlab.report.inside.recording import Recording
from gradlab.report.layer_names import common_names
from gradlab.report.pictures import Pictures, make_pictures
from gradlab.report.tables import Table, list_failures, make_tables, tabulate_layer_names
from gradlab.report.tuning import describe_choice, describe_edges, describe_method, tabulate_tuning, tuning_json
from gradlab.report.words import describe_methods
from gradlab.runs.store.environment import mixed_note

QUICK_NOTE = "Reduced budget (--quick): a look at the machinery, not a test of the claims."
UNAUDITED_NOTE = (
    "Not audited: that the arms differ in nothing else is for their code to keep; gradlab.audit compares what "
    "they build."
)
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
    def events(self) -> tuple[str, ...]:
        """What happened to claims, seeds and results since they were frozen; nothing if all went as planned."""
        return (*(self.history.remarks if self.history is not None else ()), *unfinished_remarks(self.measured))

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
        """What else could explain the result, in one line."""
        return describe_caveats(self.audit, self.measured.study.sequel)

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
            notes.append(UNAUDITED_NOTE)
        notes += describe_edges(self.tuning) if self.tuning is not None else []
        notes += [UNFINISHED_NOTE] if self.unfinished else []
        mixed = mixed_note(self.environment)
        notes += [mixed] if mixed else []
        return (*notes, *self.folder_notes)

    @cached_property
    def findings(self) -> str:
        """What else the numbers show; empty if nothing."""
        return findings(self.measured)

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
        for named in (headline_of(measured), *study.claims, *study.published):
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
            "fairness": self.fairness or None,
            "caveats": list(self.audit.caveats) if self.audit is not None else [],
            "tally": self.tally or None,
            "run": run,
            "quick": self.measured.plan.quick,
            "unfinished": self.unfinished,
            "audit": None if self.audit is None else self.audit.to_json(),
            "notes": list(self.folder_notes),
            "history": None if self.history is None else self.history.to_json(),
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
