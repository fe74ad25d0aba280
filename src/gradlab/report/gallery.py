"""The first screen of a report as text: what a reader sees before the figure, to be read as a page of its own."""

from __future__ import annotations

from gradlab.report.story import Story


def first_screen(story: Story) -> list[str]:
    """Question, command, answer, remarks, fairness, caveats and claims, in Markdown."""
    word = f"**{story.answered.word}.** " if story.answered.word else ""
    mark = [f"*{story.audit.mark.capitalize()}.*", ""] if story.audit is not None and story.audit.mark else []
    lines = [f"### {story.question}", "", f"`gradlab run {story.name}`", "", *mark]
    lines += [f"{word}{' '.join(story.answered.sentences)}", ""]
    for line in (*story.remarks, story.fairness, story.caveats, story.tally):
        lines += [line, ""] if line else []
    return lines
