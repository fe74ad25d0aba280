"""The tools of the server, on one project: what may be asked and done, in which order, and what is entered where.

explore ─▶ numbers, no verdict                     entered before it begins
freeze_claims ─▶ ids ─▶ start_run ─▶ get_run        audited, seeds drawn here, entered before the first trial
"""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Annotated, Any, TypeVar

from pydantic import Field

from gradlab import api, studies
from gradlab.agents import answers
from gradlab.agents.answers import Row, quoted
from gradlab.agents.asking import Question, ask
from gradlab.agents.jobs import GRACE, Jobs
from gradlab.agents.report import FOLDER as REPORTS
from gradlab.agents.report import write_project_report
from gradlab.agents.studies import Refused, StudyReader, inside, text_of
from gradlab.agents.tables import claim_rows, differing_row, table_rows
from gradlab.analysis.claims.power import describe_shortfalls
from gradlab.analysis.online import seeds_over_project
from gradlab.audits.audit import Audit
from gradlab.audits.compare import Status
from gradlab.audits.study import audit_plan
from gradlab.errors import GradlabError, InvalidInput, offer, shortened
from gradlab.plans.plan import Plan
from gradlab.report.draw import render_chart
from gradlab.report.result import Result, open_run
from gradlab.running.start import say_audit
from gradlab.runs.store.project import (
    Batch,
    Project,
    ProjectRun,
    ProjectState,
    design_of,
    project_of,
    same_question,
    topic_of,
)
from gradlab.runs.store.status import is_run, status
from gradlab.spec.yaml_text import dump, parse
from gradlab.tell.project import OUTCOMES, say_claims
from gradlab.words import counted

MOST_RUNNING, LONGEST_WAIT, LONGEST_RUN, LONGEST_EXPLORATION = 2, 50, 86_400, 600
PAUSE = 0.2
A = TypeVar("A", bound=answers.Answer)
Text = Annotated[str, Field(min_length=1, max_length=100_000)]
Short = Annotated[str, Field(max_length=500)]
Limit = Annotated[int, Field(ge=1, le=100)]
Overrides = Annotated[dict[str, Any], Field(max_length=50)]
Where = Annotated[dict[str, str | int | float], Field(max_length=10)]
ExploreSeconds = Annotated[int, Field(ge=1, le=LONGEST_EXPLORATION)]
SomeSeeds = Annotated[int, Field(ge=1, le=100)]
Claims = Annotated[list[dict[str, Any]], Field(max_length=40)]
RunId = Annotated[str, Field(max_length=20)]
Arms = Annotated[dict[str, str], Field(max_length=20)]
TABLES = ("claims", "summary", "trials", "curves", "layers", "tuning")


class Lab:
    """One project's folder, and the tools on it. Every method may be called from any thread."""

    def __init__(self, folder: Path, allow_code: bool = False) -> None:
        self.root = folder.resolve()
        self.project, self.jobs = Project(self.root), Jobs(self.root)
        self.reader, self.allow_code = StudyReader(self.root, allow_code), allow_code
        self._heavy = threading.Lock()
        """Held by what realizes networks: one at a time, so that memory is bounded."""

    # ------------------------------------------------------------------ looking

    def list_studies(self, query: Short = "", limit: Limit = 15) -> answers.Listing:
        """Built-in studies and study files of the project, with question and seconds. `query`: a word to look for."""
        times, found = studies.run_times(), []
        for name in (*self.reader.files(), *studies.names()):
            try:
                question = self.reader.load(name, {}).study.question
            except GradlabError as error:
                question = f"cannot be read: {error}"
            if query.lower() in f"{name} {question}".lower():
                found.append({"name": name, "question": quoted(question, 160), "seconds": times.get(name)})
        return self._listing(found, limit)

    def list_runs(self, query: Short = "", limit: Limit = 15) -> answers.Listing:
        """Runs of this project with their state, newest first. `query`: a word to look for."""
        self.project.note_deleted()
        state, found = self.project.read(), []
        for run in reversed(state.runs.values()):
            where, percent, _ = self._progress(run)
            outcomes = say_claims(state, run.batch.claims)
            row: Row = {
                "run_id": run.id,
                "about": quoted(run.batch.topic),
                "state": where,
                "percent": percent,
                "claims": outcomes,
            }
            if query.lower() in json.dumps(row).lower():
                found.append(row)
        return self._listing(found, limit)

    def ledger(self, since: Annotated[int, Field(ge=0)] = 0, limit: Limit = 20) -> answers.Listing:
        """Everything explored, frozen, run and deleted in this project, with its outcome, after entry `since`."""
        self.project.note_deleted()
        entries = [entry for entry in self.project.read().entries if entry.number > since]
        found: list[Row] = []
        for entry in entries:
            data = entry.data
            row: Row = {
                "entry": entry.number,
                "at": entry.at,
                "kind": entry.kind,
                "id": data.get("id") or data.get("run"),
            }
            if entry.kind in ("explored", "frozen"):
                row["about"] = quoted(data["topic"])
            if entry.kind == "frozen":
                row["claims"] = "; ".join(f"c{c['number']}: {quoted(c['text'], 120)}" for c in data["claims"])
                row |= {"reason": quoted(data["reason"], 120)} if data.get("reason") else {}
            if entry.kind == "run":
                row |= {"claims_of": data["frozen"], "audit": data["audit"], "seed_drawn": data["drawn"]}
                row |= {"declared": quoted(data["declared"])} if data["declared"] else {}
            if entry.kind == "outcome":
                judged = [
                    (c["number"], OUTCOMES.get(c["outcome"], c["outcome"]), c.get("settled")) for c in data["claims"]
                ]
                row["claims"] = "; ".join(f"c{n} {how}{', settled over the project' * bool(s)}" for n, how, s in judged)
            found.append(row)
        return self._listing(found, limit)

    # ------------------------------------------------------------------ before a run

    def check_study(self, study: Text, overrides: Overrides = {}) -> answers.Checked:  # noqa: B006 - read only
        """Is a study valid? Errors with line and nearest name; groups, cost, claims that its seeds cannot settle.

        `study`: a name, a .yaml file of the project, or YAML text. `overrides`: {"train.lr": 0.001}.
        """
        try:
            plan = self.reader.plan(study, overrides)
        except Refused:
            raise
        except InvalidInput as error:
            return self._seal(answers.Checked(valid=False, problems=str(error)))
        topic, explored = topic_of(plan), self.project.read().explored
        before = sum(same_question(one["topic"], topic) for one in explored)
        return self._seal(
            answers.Checked(
                valid=True,
                question=quoted(plan.study.question),
                groups=[planned.group.name for planned in plan.groups],
                trials=len(plan.all_trials),
                seconds=plan.seconds(),
                unsettleable=describe_shortfalls(plan.study),
                explored_before=before,
            )
        )

    def predict(self, study: Text, overrides: Overrides = {}) -> answers.Predicted:  # noqa: B006 - read only
        """What mean-field theory expects of a study before training, by group. Nothing is trained."""
        plan = self.reader.plan(study, overrides)
        with self._heavy:
            found = api.predict(plan)
        return self._seal(answers.Predicted(expects={group: found.sentences(group) for group in found.groups}))

    def audit(self, study: Text, overrides: Overrides = {}, limit: Limit = 20) -> answers.Audited:  # noqa: B006
        """Is the comparison fair: do the arms differ in nothing but the declared factor? What can it not attribute?

        `study` as for check_study; or file.py:ARMS, functions that build PyTorch arms (only with --allow-code).
        """
        if _is_target(study):
            audited = Audit.from_json(self._command("audit", self._target(study), "--json"))
        else:
            audited = self._audit(self.reader.plan(study, overrides))
        rows = [differing_row(audited, row) for row in audited.rows if row.status is not Status.SAME]
        found = answers.Audited(
            fair=audited.fair,
            passed=audited.passed,
            answer=audited.answer,
            differs=rows[:limit],
            cannot_attribute=list(audited.limits[:limit]),
            cannot_see=list(audited.cannot_see[:limit]),
        )
        found.truncated = len(rows) > limit
        return self._seal(found)

    def explore(
        self, study: Short | Text = "", overrides: Overrides = {}, max_seconds: ExploreSeconds = 60,  # noqa: B006
        command: Short = "", arms: Arms = {}, metric: Short = "", seeds: SomeSeeds = 3, limit: Limit = 20,  # noqa: B006
    ) -> answers.Explored:  # fmt: skip
        """Try something out: numbers and figures, no verdict, whatever comes out. Entered in the ledger.

        `study` as for check_study; its claims are left out. Or `command` with {seed} in it and `arms`
        {"name": "further words"} (only with --allow-code); `metric` is what it prints, `seeds` are for commands.
        """
        if bool(study) == bool(command):
            raise Refused("bad_arguments", "explore: give a study or a command", "give exactly one of the two")
        self._refuse_busy()
        if command:
            self._require_code("explore: a command")
            topic, question, text = f"command: {', '.join(sorted(arms))}", command, ""
        else:
            plan = self.reader.plan(study, overrides, claims=())
            topic, question, text = topic_of(plan), plan.study.question, text_of(plan.resolved)
        given = {"overrides": dict(overrides), **({"command": command, "arms": dict(arms)} if command else {})}
        name = self.project.explore({"topic": topic, "question": question, **given})
        process = self.jobs.start(
            name, text, kind="explore", max_seconds=max_seconds, command=command, arms=arms, metric=metric, seeds=seeds
        )
        try:
            process.wait(timeout=max_seconds + GRACE + 10)
        except subprocess.TimeoutExpired:
            process.kill()
        found = self.jobs.numbers(name)
        rows = found.get("numbers", [])
        state = "failed" if not found else "stopped" if found["unfinished"] else "finished"
        figures = [
            f"{self.jobs.folder(name).relative_to(self.root).as_posix()}/{figure}"
            for figure in found.get("figures", ())
        ]
        return self._seal(
            answers.Explored(
                exploration_id=name, state=state, numbers=rows[:limit], figures=figures, truncated=len(rows) > limit,
                error="" if found else self.jobs.said(name),
            )
        )  # fmt: skip

    # ------------------------------------------------------------------ claims and runs

    def freeze_claims(
        self, study: Text, claims: Claims = [], reason: Short = "",  # noqa: B006
        overrides: Overrides = {},  # noqa: B006
    ) -> answers.FrozenClaims:  # fmt: skip
        """Freeze claims with their study, before any result. Their numbers in this project cannot be taken back.

        `claims` as in a study file: {"text": "...", "metric": "final_loss", "arms": ["plain", "residual"], "op": ">"};
        default: those of the study. `reason`: why these. Seeds are a number, or {from: 10, to: 100, until: settled}.
        """
        plan = self.reader.plan(study, overrides, claims or None)
        if not any(claim.metric for claim in plan.study.claims):
            do = 'give claims such as {"text": "…", "metric": "final_loss", "arms": ["a", "b"], "op": ">"}'
            raise Refused("no_claims", "there is no claim with a metric to freeze", do)
        if isinstance(plan.study.seeds, tuple):
            do = "give their number (seeds: 10), or {from: 10, to: 100, until: settled}"
            raise Refused("seeds_are_drawn", "the study lists its seeds; here the server draws them", do)
        batch = self.project.freeze(plan, text_of(plan.resolved), reason)
        state = self.project.read()
        batch = state.batches[batch.id]
        rows: list[Row] = [
            {
                "claim_id": claim.id,
                "text": quoted(claim.text),
                "seeds_needed_over_project": seeds_over_project(own, claim.number, state.settled),
            }
            for claim, own in zip(batch.claims, plan.study.claims, strict=True)
        ]
        return self._seal(
            answers.FrozenClaims(
                claims=rows, claim_ids=[claim.id for claim in batch.claims], hash=batch.design,
                question=quoted(plan.study.question), standing=self._standing(state, batch),
            )
        )  # fmt: skip

    def start_run(
        self, claim_ids: Annotated[list[Short], Field(min_length=1, max_length=40)],
        max_seconds: Annotated[int, Field(ge=1, le=LONGEST_RUN)] = 3600, declare_unfair: Short = "",
    ) -> answers.Run:  # fmt: skip
        """Start the run of frozen claims, or resume it. All claims that were frozen together are run together.

        The server draws the seeds. A study that fails its audit is refused; `declare_unfair` says why it is run all the
        same, and the report repeats that.
        """
        state = self.project.read()
        batch = self._batch_of(state, claim_ids)
        plan = self.reader.plan_frozen(batch.study or "")
        if design_of(plan) != batch.design:
            raise Refused("changed", "the frozen study means something else now (another version?)", "freeze it again")
        run = next((run for run in state.runs.values() if run.batch.id == batch.id), None)
        if run is None:
            audited = self._audit(plan)
            if not audited.passed and not declare_unfair:
                do = "change the study and freeze it again, or say in declare_unfair why it is run all the same"
                raise Refused("unfair", f"{audited.mark}: {'; '.join(audited.faults)[:600]}", do)
            self._refuse_busy()
            declared = "" if audited.passed else declare_unfair
            run = self.project.begin(batch.id, plan.study.name, secrets.randbits(53), say_audit(audited), declared)
        where, percent, _ = self._progress(run)
        if where in ("interrupted", "starting") and not self.jobs.alive(run.id):
            self._refuse_busy()
            seeded = dump({**parse(batch.study or "", "study"), "seed": run.seed})
            self.jobs.start(run.id, seeded, kind="run", folder=run.folder, max_seconds=max_seconds)
            where = "running"
        return self._seal(
            answers.Run(
                run_id=run.id, state=where, percent=percent, claim_ids=[claim.id for claim in batch.claims],
                folder=run.folder, next=f"get_run(run_id={run.id!r}, wait_seconds={LONGEST_WAIT})",
            )
        )  # fmt: skip

    def get_run(
        self, run_id: RunId, wait_seconds: Annotated[float, Field(ge=0, le=LONGEST_WAIT)] = 0, limit: Limit = 12
    ) -> answers.Run:
        """State of a run, progress, verdicts so far (valid at every look). Waits up to `wait_seconds` for its end."""
        end = monotonic() + wait_seconds
        while True:
            over = not self.jobs.alive(run_id)  # asked before the ledger: its process records the outcome, then ends
            run = self._run(run_id)
            where, percent, left = self._progress(run)
            if (over and where not in ("starting", "running")) or monotonic() >= end:
                break
            sleep(PAUSE)
        found = answers.Run(
            run_id=run.id, state=where, percent=percent, seconds_left=left, folder=run.folder,
            claim_ids=[claim.id for claim in run.batch.claims],
        )  # fmt: skip
        result = self._result(run) if is_run(self.root / run.folder) else None
        if result is not None:
            rows = claim_rows(run, result)
            kept = ("claim_id", "text", "verdict", "reason", "measured", "settled_over_project")
            found.verdicts = [{key: row[key] for key in kept} for row in rows[:limit]]
            found.facts = [quoted(fact, 500) for fact in (result.story.fairness, *result.story.notes) if fact][:limit]
            found.truncated = len(rows) > limit
        if where == "interrupted":
            found.error, found.next = self.jobs.said(run.id), f"start_run(claim_ids={found.claim_ids}) resumes it"
        return self._seal(found)

    # ------------------------------------------------------------------ results

    def get_table(
        self, run_id: RunId, name: Short = "summary", where: Where = {}, limit: Limit = 20,  # noqa: B006
    ) -> answers.Table:  # fmt: skip
        """Rows of a run's table: claims, summary, trials, curves, layers, tuning. `where`: {"metric": "final_loss"}."""
        if name not in TABLES:
            raise Refused("no_table", f"{shortened(name)} is no table{offer(name, TABLES)}", "name one of them")
        run = self._run(run_id)
        rows, total = table_rows(run, self._result(run), name, where, limit)
        return self._seal(answers.Table(rows=rows, total=total, truncated=total > len(rows)))

    def get_figure(self, run_id: RunId, name: Short = "") -> tuple[bytes, str]:
        """A figure of a run as PNG; without a name, the first. An unknown name is answered with all names."""
        result = self._result(self._run(run_id))
        names = result.figure_names()
        wanted = name or next(iter(names), "")
        if wanted not in names:
            raise Refused("no_figure", f"there is no figure {shortened(name)}", f"name one of {', '.join(names)}")
        with self._heavy:
            return render_chart(result.chart(wanted), "png"), wanted

    def ask(self, run_id: RunId, question: Question, limit: Limit = 20) -> answers.Told:
        """Answer a question about a run from stored facts, with the place it comes from.

        same_setup (do the arms have the same normalization, init, …?), rerun (was it run again, or are these old
        results?), progress, why, what_differs, which_numbers_changed (since the last run of the same question).
        """
        run = self._run(run_id)
        result = self._result(run) if is_run(self.root / run.folder) else None
        if result is None and question != "progress":
            raise Refused(
                "no_results", f"{run.id} has no results: it is {self._progress(run)[0]}", f"get_run({run.id!r})"
            )
        told, source, rows = ask(question, run, result, self.project, self._progress(run))
        return self._seal(answers.Told(answer=told, source=source, rows=rows[:limit], truncated=len(rows) > limit))

    def write_report(self, run_ids: Annotated[list[RunId], Field(min_length=1, max_length=20)]) -> answers.Report:
        """Write a report in which every number cites run, table and cell, and nothing of the project is left out."""
        self.project.note_deleted()
        inside(self.root, REPORTS)
        runs = [self._run(name) for name in dict.fromkeys(run_ids)]
        results = [(run, self._result(run) if is_run(self.root / run.folder) else None) for run in runs]
        path, text = write_project_report(self.project, [(self._run(run.id), result) for run, result in results])
        return self._seal(answers.Report(path=path.relative_to(self.root).as_posix(), text=text))

    def diagnose(self, target: Annotated[str, Field(max_length=300)], limit: Limit = 20) -> answers.Diagnosed:
        """Look into a PyTorch model: file.py:factory returns (model, (input, target), loss). Needs --allow-code."""
        tree = self._command("probe", self._target(target), "--json")
        rows: list[Row] = [
            {
                "code": found.get("code"),
                "severity": found.get("severity"),
                "where": found.get("subject"),
                "says": found.get("words"),
            }
            for found in (*tree["diagnosis"], *tree["noted"])
        ]
        return self._seal(answers.Diagnosed(findings=rows[:limit], truncated=len(rows) > limit))

    # ------------------------------------------------------------------ beneath

    def _seal(self, answer: A) -> A:
        """An answer with the state of the ledger in it."""
        state = self.project.read()
        answer.ledger = (
            f"{state.head[:12]}: {counted(len(state.claims), 'claim')} frozen, {state.settled} settled over all, "
            f"{counted(len(state.explored), 'exploration')}, {counted(len(state.runs), 'run')}"
            + "; ALTERED"
            * bool(state.problems or state.lost)
        )
        return answer

    def _listing(self, found: Sequence[Row], limit: int) -> answers.Listing:
        return self._seal(answers.Listing(items=list(found[:limit]), total=len(found), truncated=len(found) > limit))

    def _standing(self, state: ProjectState, batch: Batch) -> str:
        numbers = [claim.number for claim in batch.claims]
        first = f"claims {numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"claim {numbers[0]}"
        explored = counted(batch.explored_before, "exploration")
        words = f"{first} of {len(state.claims)} frozen in this project; {explored} of this question before it"
        earlier = state.earlier(batch)
        return words + (f"; claimed before: {say_claims(state, earlier)}" if earlier else "")

    def _audit(self, plan: Plan) -> Audit:
        with self._heavy:
            return audit_plan(plan, seeds=api.AUDITED_SEEDS, pairs=api.AUDITED_PAIRS)

    def _batch_of(self, state: ProjectState, claim_ids: Sequence[str]) -> Batch:
        known = {claim.id: claim for claim in state.claims}
        for name in claim_ids:
            if name not in known:
                raise Refused("no_claim", f"there is no claim {shortened(name)}", "freeze_claims gives claim ids")
        names = {known[name].batch for name in claim_ids}
        batch = state.batches[names.pop()]
        together = [claim.id for claim in batch.claims]
        if names or set(claim_ids) != set(together):
            raise Refused("not_together", "claims that were frozen together are run together", f"give {together}")
        if batch.study is None:
            raise Refused("not_here", "these claims were frozen by `gradlab run --project`", "run them there")
        return batch

    def _run(self, name: str) -> ProjectRun:
        runs = self.project.read().runs
        if name not in runs:
            raise Refused("no_run", f"there is no run {shortened(name)}{offer(name, list(runs)[-10:])}", "list_runs()")
        return runs[name]

    def _progress(self, run: ProjectRun) -> tuple[Any, float, float | None]:
        """State, per cent and seconds left."""
        folder, alive = self.root / run.folder, self.jobs.alive(run.id)
        if not is_run(folder):
            gone = run.deleted or run.outcome is not None
            return "starting" if alive or self.jobs.fresh(run.id) else "deleted" if gone else "interrupted", 0.0, None
        seen = status(folder)
        percent = round(100 * (seen.done + seen.failed) / max(seen.planned, 1), 1)
        if alive or seen.alive:
            return "running", percent, seen.seconds_left
        return ("finished" if seen.finished and run.outcome is not None else "interrupted"), percent, None

    def _result(self, run: ProjectRun) -> Result:
        """The results of a run, if they are those of what was frozen."""
        folder = self.root / run.folder
        result, found = open_run(folder), project_of(folder)
        plan = result.measured.plan
        if found is None or found[1] != run.id or (design_of(plan), plan.study.seed) != (run.batch.design, run.seed):
            do = "freeze the claims again; nobody may edit runs/ or .gradlab/"
            raise Refused("altered", f"{run.folder} does not hold the run of these claims: it was altered", do)
        return result

    def _refuse_busy(self) -> None:
        running = self.jobs.running()
        if len(running) >= MOST_RUNNING:
            do = f"wait: get_run({running[0]!r}, wait_seconds={LONGEST_WAIT})"
            raise Refused("busy", f"{', '.join(running)} are running; {MOST_RUNNING} at a time", do)

    def _require_code(self, what: str) -> None:
        if not self.allow_code:
            do = "explore a study instead; only a person can start the server with --allow-code"
            raise Refused("code_not_allowed", f"{what} executes code, and this server was started without", do)

    def _target(self, target: str) -> str:
        """`file.py:name` inside the project, where code is allowed."""
        self._require_code(shortened(target))
        file, colon, name = target.rpartition(":")
        if (
            not colon
            or not re.fullmatch(r"\w+", name)
            or not file.endswith(".py")
            or not inside(self.root, file).is_file()
        ):
            raise Refused("no_target", f"{shortened(target)} is no function of a file", "write file.py:function")
        return f"{inside(self.root, file)}:{name}"

    def _command(self, *words: str) -> Mapping[str, Any]:
        """The JSON of a gradlab command in a process of its own, which may execute the user's code."""
        command = [sys.executable, "-m", "gradlab", *words]
        try:
            done = subprocess.run(
                command, cwd=self.root, stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=False
            )
            found: Mapping[str, Any] = json.loads(done.stdout)
            return found
        except subprocess.TimeoutExpired:
            raise Refused("too_slow", f"gradlab {words[0]}: no answer within 300 s", "run it in a terminal") from None
        except ValueError:
            said = done.stderr.decode("utf8", "replace").strip()[-600:]
            raise Refused("failed", f"gradlab {words[0]}: {quoted(said, 600)}", "mend the file") from None


def _is_target(study: str) -> bool:
    return re.fullmatch(r"[^\n:]+\.py:\w+", study.strip()) is not None


TOOLS: tuple[Callable[..., Any], ...] = (
    *(Lab.list_studies, Lab.list_runs, Lab.check_study, Lab.predict, Lab.audit),
    *(Lab.explore, Lab.freeze_claims, Lab.start_run, Lab.get_run),
    *(Lab.get_table, Lab.get_figure, Lab.ask, Lab.diagnose, Lab.ledger, Lab.write_report),
)
"""In the order in which they are listed."""
