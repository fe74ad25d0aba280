"""The scoreboard on the terminal and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gradlab.analysis.scoreboard import Judged, Scoreboard, ScoredClaim, ScoredNumber, ScoredStudy
from gradlab.report.markdown import escape, render_table
from gradlab.report.tables import HOW, Table
from gradlab.words import capital, counted, rounded

VERBS = {
    "reproduced": ("holds", "hold"),
    "direction only": ("holds in direction only", "hold in direction only"),
    "not reproduced": ("does not hold", "do not hold"),
    "no difference": ("shows no difference that matters", "show no difference that matters"),
    "not settled": ("is not settled", "are not settled"),
    "not tested": ("is not tested", "are not tested"),
}
QUICK = (
    "Reduced budgets (--quick): claims and numbers that need the full budget are not tested; the answer of the full "
    "run that ships with the package is given for them, marked as such."
)


def summarize(board: Scoreboard) -> str:
    """All in a few sentences: the write-ups' own sentences and numbers, then our statements."""
    counts = board.counts
    parts = [f"{counted(len(board.titles), 'write-up')}. {_describe(counts['sentences'], 'sentence of theirs')}."]
    parts += _summarize_numbers(board)
    if counts["statements"]:
        parts.append(f"{_describe(counts['statements'], 'statement of our own')}.")
    unfair = [entry.study for entry in board.entries if entry.audit is not None and not entry.audit.fair]
    return " ".join([*parts, *([f"The audit fails {', '.join(unfair)}."] if unfair else [])])


def _say_answer(outcome: str, count: int) -> str:
    return f"{count} {'say little' if outcome == 'says little' and count > 1 else outcome}"


def _summarize_numbers(board: Scoreboard) -> list[str]:
    """How the numbers came out that can be compared; then those that cannot, by their reason."""
    counts = dict(board.counts["numbers"])
    told, strange = [], counts.pop("not comparable", 0)
    if counts:
        compared = counts.get("consistent", 0) + counts.get("not consistent", 0)
        match = f"{counts.pop('consistent', 0)} of {compared} consistent" if compared else ""
        rest = [_say_answer(outcome, count) for outcome, count in counts.items()]
        answers = ", ".join(filter(None, [match, *rest]))
        told.append(f"{counted(sum(board.counts['numbers'].values()) - strange, 'published number')}: {answers}.")
    for reason, count in board.incomparable.items():
        verb = "is" if count == 1 else "are"
        told.append(f"{count}{' more' * bool(counts or told)} {verb} not comparable: {reason}.")
    return told


def _describe(counts: Mapping[str, int], what: str) -> str:
    words = ", ".join(f"{count} {VERBS[outcome][count != 1]}" for outcome, count in counts.items())
    return f"{counted(sum(counts.values()), what)}: {words or 'none'}"


def tabulate_claims(board: Scoreboard) -> list[Table]:
    """Sentences, then numbers, then our own statements, of each write-up."""
    found = []
    for name, title in board.titles.items():
        entries = [entry for entry in board.entries if entry.writeup == name]
        kinds = (
            ("sentences", [entry.sentences for entry in entries]),
            ("our own statements", [entry.statements for entry in entries]),
        )
        tables = [
            Table(
                f"{name}: {title}, {kind}",
                ("study", "claim", "measured", "verdict"),
                tuple(
                    (entry.study, line.verdict.claim.text, line.measured, line.words)
                    for entry, lines in zip(entries, each, strict=True)
                    for line in lines
                ),
            )
            for kind, each in kinds
        ]
        rows = tuple((entry.study, *_number_row(found)) for entry in entries for found in entry.numbers)
        tables.insert(1, Table(f"{name}: {title}, numbers", ("study", *NUMBERS), rows, numbers=(3, 5, 6)))
        found += [table for table in tables if table.rows]
    return found


NUMBERS = ("group", "measure", "published", "from", "measured (median)", "new seed, 95 %", "number")


def _number_row(found: ScoredNumber) -> tuple[str, ...]:
    row = found.row
    measured = rounded(row.measured.median, 4) if found.kept is None else f"full run: {found.kept['measured']}"
    return (
        row.called, row.what, row.published.text, row.origin, measured, found.expected, found.words,
    )  # fmt: skip


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


def describe_conclusions(board: Scoreboard, writeup: str) -> list[str]:
    """What is left of each conclusion of a write-up, from the verdicts."""
    return [_describe_conclusion(judged) for judged in board.conclusions if judged.writeup == writeup]


def _describe_conclusion(judged: Judged) -> str:
    """The conclusion, then its claims by what became of them, then what limits it."""
    by_outcome: dict[str, list[tuple[str, ScoredClaim]]] = {}
    for study, line in judged.rests_on:
        by_outcome.setdefault(VERBS[line.outcome][0].removeprefix("is "), []).append((study, line))
    limits = [(study, line) for study, line in judged.limited_by if line.outcome == "reproduced"]
    told = [f"{capital(outcome)}: {_list_lines(lines)}." for outcome, lines in by_outcome.items()]
    told += [f"What limits it: {_list_lines(limits)}."] if limits else []
    return " ".join([f"“{judged.says}” {judged.stands}.", *told])


def _list_lines(lines: Sequence[tuple[str, ScoredClaim]]) -> str:
    return "; ".join(f"{_lower(line.verdict.claim.text)} ({_answer(study, line)})" for study, line in lines)


def _answer(study: str, line: ScoredClaim) -> str:
    """The number that a claim rests on, and the study that measured it."""
    short = str(line.kept["short"]) if line.kept is not None else line.verdict.short
    return ", ".join(filter(None, (study, short)))


def _lower(text: str) -> str:
    """A sentence inside another one: names and formulas keep their capitals."""
    return text[0].lower() + text[1:] if text[1:2].islower() and text.split()[0] not in ("He", "Xavier") else text


def render_scoreboard(board: Scoreboard, links: dict[str, str]) -> str:
    """One page in Markdown; `links` are the studies' reports."""
    count = "Four" if len(board.titles) == 4 else str(len(board.titles))
    lines = [
        f"# {count} write-up{'s' * (len(board.titles) > 1)}, claim by claim",
        "",
        f"**{escape(summarize(board))}**",
        "",
    ]
    lines += [f"> {QUICK}", ""] if board.quick else []
    time = f", {board.seconds / 60:.1f} minutes, trials that were already there not counted" if board.seconds else ""
    lines += [f"`{board.command}`{time}.", ""]
    for name, title in board.titles.items():
        lines += [f"## {name}: {escape(title)}", ""]
        if conclusions := describe_conclusions(board, name):
            lines += ["What is left of its conclusions:", "", *(f"- {escape(each)}" for each in conclusions), ""]
        for entry in board.entries:
            if entry.writeup == name:
                lines += _render_study(entry, links.get(entry.study))
    confounds = tabulate_confounds(board)
    lines += [f"## {confounds.title}", "", *render_table(confounds), "", "## How verdicts are made", "", HOW, ""]
    return "\n".join(lines)


def _render_study(entry: ScoredStudy, link: str | None) -> Iterator[str]:
    title = f"[{entry.study}]({link})" if link else entry.study
    yield from (f"### {title} ({entry.role}, {entry.seeds})", "", escape(entry.question), "")
    yield from (f"Same set-up except the factor? {escape(_describe_fairness(entry))}.", "")
    for kind, scored in (("Sentences of the write-up", entry.sentences), ("Statements of our own", entry.statements)):
        if scored:
            rows = tuple((c.verdict.claim.text, c.measured, c.words, c.reason) for c in scored)
            yield from (f"{kind}:", "", *render_table(Table("", ("claim", "measured", "verdict", "why"), rows)), "")
        if entry.numbers and kind.startswith("Sentences"):
            yield from ("Published numbers:", "")
            yield from render_table(Table("", NUMBERS, tuple(map(_number_row, entry.numbers))))
            reasons = dict.fromkeys(found.row.incomparable for found in entry.numbers if found.row.incomparable)
            yield from ("", *(f"Not comparable: {escape(reason)}." for reason in reasons), *[""] * bool(reasons))
    if entry.audit is not None and entry.audit.limits:
        yield from ("What this design cannot attribute:", "")
        yield from (f"- {escape(limit)}" for limit in entry.audit.limits)
        yield ""
