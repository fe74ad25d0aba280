"""A result as a comment for a pull request: short Markdown that says the answer first."""

from __future__ import annotations

from collections.abc import Sequence

from gradlab.report.markdown import escape, render_table
from gradlab.report.story import Story

MARKS = {
    "reproduced": "✅",
    "not reproduced": "❌",
    "direction only": "🟡",
    "no difference": "🟰",
    "not settled": "⚪",
    "not tested": "⚪",
}


def render_comment(story: Story, more: Sequence[str] = ()) -> str:
    """Answer, verdicts with interval and p, remarks, results; everything else folded away."""
    word = f"**{escape(story.answered.word)}.** " if story.answered.word else ""
    lines = [f"### {escape(story.question)}", "", f"{word}{escape(' '.join(story.answered.sentences))}", ""]
    if story.audit is not None and not story.audit.passed:
        lines += [f"⚠️ **{escape(str(story.audit.mark))}**: {escape('; '.join(story.audit.faults))}", ""]
    for verdict in story.verdicts:
        mark = MARKS.get(verdict.outcome, "⚪")
        told = f"{verdict.claim.text}; {verdict.reason}; {verdict.measured}"
        lines.append(f"- {mark} **{escape(verdict.words)}**: {escape(told)}")
    lines += [""] if story.verdicts else []
    notes = [*story.remarks, *filter(None, (story.because, story.fairness, story.caveats)), *more]
    folded = [*(f"- {escape(note)}" for note in notes), "", *render_table(story.tables[0]), ""]
    if story.failures:
        folded += [*(f"- failed: {escape(failure)}" for failure in story.failures), ""]
    folded += ["```", story.rerun.command.replace("```", ""), "```", f"Hash of the results: `{story.rerun.hash}`"]
    lines += ["<details><summary>What it rests on</summary>", "", *folded, "", "</details>", ""]
    return "\n".join(lines)
