"""The generated sentences of a report as text: the first screen, and all that follows, to be read as pages."""

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


def further_sentences(story: Story) -> list[str]:
    """What else the numbers show, what cannot be attributed, every caption and both diagnoses, in Markdown."""
    lines = [f"### {story.question}", "", f"`gradlab run {story.name}`", ""]
    lines += [story.findings, ""] if story.findings else []
    if story.audit is not None and story.audit.limits:
        lines += ["What this design cannot attribute:", "", *(f"- {limit}" for limit in story.audit.limits), ""]
    pictures = story.pictures
    lines += ["Figures:", "", *(f"- *{chart.title}.* {chart.caption}" for chart in pictures.charts.values())]
    lines += [*(f"- Not made: {reason}." for reason in pictures.missing), ""]
    if pictures.microworld is not None:
        lines += ["The micro-world:", "", *(f"- {one.words}" for one in pictures.microworld.diagnoses)]
        lines += [*(f"- *{view.title}.* {view.caption}" for view in pictures.microworld.views), ""]
    return lines
