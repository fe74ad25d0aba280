"""The scoreboard on the terminal and as a page."""

from __future__ import annotations

from collections.abc import Iterator

from gradlab.analysis.scoreboard import Scoreboard, ScoredStudy
from gradlab.report.fairness import HOW
from gradlab.report.markdown import escape, render_table
from gradlab.report.tables import Table


def summarize(board: Scoreboard) -> str:
    """All in one sentence."""
    total = sum(board.counts.values())
    words = ", ".join(f"{count} {outcome}" for outcome, count in sorted(board.counts.items(), key=lambda c: -c[1]))
    unfair = [entry.study for entry in board.entries if entry.audit is not None and not entry.audit.fair]
    failed = f" The audit fails {', '.join(unfair)}." if unfair else ""
    return f"{total} claims of {len(board.titles)} write-ups: {words}.{failed}"


def tabulate_claims(board: Scoreboard) -> list[Table]:
    """One table per write-up."""
    found = []
    for name, title in board.titles.items():
        rows = tuple(
            (entry.study, line.verdict.claim.text, line.verdict.published, line.measured, line.words)
            for entry in board.entries
            if entry.writeup == name
            for line in entry.lines
        )
        header = ("study", "claim", "published", "measured", "verdict")
        found.append(Table(f"{name}: {title}", header, rows, numbers=(2,)))
    return found


def tabulate_audits(board: Scoreboard) -> Table:
    """Both answers of every audit, in short."""
    rows = tuple(
        (entry.study, entry.role, _describe_fairness(entry), str(0 if entry.audit is None else len(entry.audit.limits)))
        for entry in board.entries
    )
    header = ("study", "design", "same set-up except the factor?", "cannot be attributed")
    return Table("Audits", header, rows, numbers=(3,))


def _describe_fairness(entry: ScoredStudy) -> str:
    if entry.audit is None:
        return "not audited"
    if entry.audit.fair:
        only = entry.audit.only_difference
        return f"yes; the only difference: {only}" if only else "yes"
    return f"NO{', as expected' if entry.expected_unfair else ''}: {'; '.join(entry.audit.undeclared)}"


def tabulate_confounds(board: Scoreboard) -> Table:
    """Every known confound and what shows it."""
    rows = tuple(
        (shown.writeup, shown.what, study, line.verdict.claim.text, line.words)
        for shown in board.confounds
        for study, line in shown.by
    )
    return Table("Known confounds, and what shows them", ("write-up", "confound", "study", "claim", "verdict"), rows)


def render_scoreboard(board: Scoreboard, links: dict[str, str]) -> str:
    """One page in Markdown; `links` are the studies' reports."""
    count = "Four" if len(board.titles) == 4 else str(len(board.titles))
    lines = [
        f"# {count} write-up{'s' * (len(board.titles) > 1)}, claim by claim",
        "",
        f"**{escape(summarize(board))}**",
        "",
    ]
    if board.quick:
        lines += ["> Reduced budgets (--quick): claims that need the full budget are not tested; beside them stands "
                  "the verdict of the full run that is kept with the package, marked as such.", ""]  # fmt: skip
    lines += [f"`{board.command}`, {board.seconds / 60:.1f} minutes, trials that were already there not counted.", ""]
    for name, title in board.titles.items():
        lines += [f"## {name}: {escape(title)}", ""]
        for entry in board.entries:
            if entry.writeup == name:
                lines += _render_study(entry, links.get(entry.study))
    confounds = tabulate_confounds(board)
    lines += [f"## {confounds.title}", "", *render_table(confounds), "", "## How verdicts are made", "", HOW, ""]
    return "\n".join(lines)


def _render_study(entry: ScoredStudy, link: str | None) -> Iterator[str]:
    title = f"[{entry.study}]({link})" if link else entry.study
    yield from (f"### {title} ({entry.role}, {entry.seeds} seeds)", "", escape(entry.question), "")
    yield from (f"Same set-up except the factor? {escape(_describe_fairness(entry))}.", "")
    if entry.lines:
        rows = tuple(
            (line.verdict.claim.text, line.verdict.published, line.measured, line.words, line.reason)
            for line in entry.lines
        )
        yield from render_table(Table("", ("claim", "published", "measured", "verdict", "why"), rows))
        yield ""
    if entry.audit is not None and entry.audit.limits:
        yield from ("What this design cannot attribute:", "")
        yield from (f"- {escape(limit)}" for limit in entry.audit.limits)
        yield ""
