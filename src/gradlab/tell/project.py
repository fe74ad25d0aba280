"""Where the claims of a run stand in their project, as facts: what was explored, frozen and run besides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradlab.facts import Fact
from gradlab.runs.store.project import Batch, FrozenClaim, ProjectRun, ProjectState, Standing
from gradlab.words import counted, join, listed

OUTCOMES = {
    "reproduced": "holds", "not reproduced": "does not hold", "direction only": "holds in direction",
    "no difference": "no difference that matters",
}  # fmt: skip
SHOWN, LETTERS = 12, 10


def tell_project(standing: Standing) -> tuple[Fact, ...]:
    """The facts that a report of a run in a project says of it."""
    state, run = standing.state, standing.run
    if run is None:
        words = "The ledger of this run's project does not know it: it was removed or rewritten."
        return (Fact("project_ledger_missing", words, severity="problem"),)
    return (
        _standing(state, run),
        *_about_problems(state),
        *_about_earlier(state, run.batch),
        *_about_run(run),
        *_about_settled(state, run),
    )


def _standing(state: ProjectState, run: ProjectRun) -> Fact:
    """`Claims 3 to 5 of 41 frozen in this project; 7 explorations of this question before.`"""
    numbers, total, before = [c.number for c in run.batch.claims], len(state.claims), run.batch.explored_before
    named = f"No claim, and {total} are" if not numbers else f"{_numbered(numbers)} of {total}"
    explored = counted(before, "exploration") if before else "no exploration"
    words = f"{named} frozen in this project; {explored} of this question before (ledger {state.head[:LETTERS]}…)."
    counts = {"first": min(numbers, default=0), "claims": total, "explorations_before": before}
    return Fact("project_claims", words, run.id, "note", counts)


def _numbered(numbers: Sequence[int]) -> str:
    ends = sorted({min(numbers), max(numbers)})
    return f"Claim{'s' * (len(numbers) > 1)} {' to '.join(map(str, ends))}"


def _about_problems(state: ProjectState) -> Iterator[Fact]:
    if state.problems:
        words = f"The project's ledger was altered: {listed(state.problems, 2, apart='; ')}."
        yield Fact("project_ledger_altered", words, severity="problem")
    if state.lost:
        words = f"The project's ledger was removed and begun anew: {counted(state.lost, 'earlier run')} named it."
        yield Fact("project_ledger_removed", words, severity="problem", numbers={"runs": state.lost})


def _about_earlier(state: ProjectState, batch: Batch) -> Iterator[Fact]:
    """What came of the same question before; an outcome that nobody saw is named as well."""
    earlier = state.earlier(batch)
    if earlier:
        words = f"The same question (“{batch.topic}”) was claimed before: {say_claims(state, earlier)}."
        yield Fact("claimed_before", words, batch.topic, numbers={"claims": len(earlier)})


def say_claims(state: ProjectState, claims: Sequence[FrozenClaim]) -> str:
    """`claim 1 holds (r1), claim 2 not settled (r2, deleted)`."""
    return listed([f"claim {claim.number} {say_outcome(state, claim)}" for claim in claims], SHOWN)


def say_outcome(state: ProjectState, claim: FrozenClaim) -> str:
    """`holds (r1)`, `never run`, `not judged (r2, deleted)`."""
    if not claim.runs:
        return "never run"
    where = ", ".join(name + ", deleted" * state.runs[name].deleted for name in claim.runs)
    return f"{OUTCOMES.get(claim.outcome or '', claim.outcome or 'not judged')} ({where})"


def _about_run(run: ProjectRun) -> Iterator[Fact]:
    if not run.drawn:
        words = (
            f"The root seed, {run.seed}, was chosen by whoever started the run, not drawn after the claims were frozen."
        )
        yield Fact("seed_not_drawn", words, run.id, "note")
    if run.trials_before:
        words = f"The claims were frozen after results: {counted(run.trials_before, 'trial')} had a result before."
        yield Fact("frozen_after_results", words, run.id, "problem", {"trials": run.trials_before})
    if run.declared:
        words = f"The audit failed before the run, which was started all the same because: “{run.declared}”."
        yield Fact("declared_unfair", words, run.id, "problem")


def _about_settled(state: ProjectState, run: ProjectRun) -> Iterator[Fact]:
    """Over all claims of the project, beside the study's own verdicts."""
    claims = run.batch.claims
    if run.outcome is None or not claims:
        return
    settled = [f"claim {claim.number} ({claim.settled})" for claim in claims if claim.settled is not None]
    what = f"settled: {join(settled)}" if settled else "none of these is settled"
    words = f"Over all claims of the project (e-LOND, at most 5 % of the settled ones false): {what}."
    yield Fact("settled_over_project", words, run.id, "note", {"settled": len(settled), "claims": len(claims)})
