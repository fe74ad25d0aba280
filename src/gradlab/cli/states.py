"""What `gradlab status` prints: the state of a run, of a watch, of all runs. It draws and judges nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gradlab.cli.output import duration, hang
from gradlab.cli.terminal import Terminal, escape
from gradlab.words import counted, rounded

if TYPE_CHECKING:
    from gradlab.comparing.live import Live
    from gradlab.runs.store.status import RunStatus


def status(run: RunStatus) -> None:
    """The state of a run."""
    to = Terminal()
    to.print(f"[bold]{escape(run.study)}[/bold]: {escape(run.question)}")
    words = [f"{run.done:,} of {run.planned:,} trials done"]
    words += [f"{run.diverged:,} of them diverged"] if run.diverged else []
    words += [f"{run.failed:,} failed"] if run.failed else []
    words += [f"{len(run.running):,} running"] if run.alive else []
    to.say(", ".join([*words, f"{run.left:,} left"]))
    if run.phase is not None:
        counts = ", ".join(f"{phase.name} {phase.done:,} of {phase.planned:,}" for phase in run.phases)
        to.say(f"phase: {run.phase} ({counts})")
    if run.alive:
        to.say(f"alive: {run.holder}")
        to.say(*running_lines(run.running), indent="  ")
        if run.seconds_left is not None:
            to.print(f"about {duration(run.seconds_left)} left")
    elif run.finished:
        to.print("finished" if not run.failed else "finished; run the same command to retry the failed trials")
    else:
        to.print("not running; run the same command to resume")
    to.say(*map(_say_open, run.open))
    if (most := max((claim["wanted"] or 0 for claim in run.open), default=0)) and not run.alive:
        to.print(f"run the same command with --until settled --most-seeds {max(most, 200)} to train them")
    to.say(*run.damaged, soft_wrap=True)


def _say_open(claim: Mapping[str, Any]) -> str:
    """`claim 3 is open with 10 seeds: 24 may settle it, about 2 min on one core`."""
    words = f"claim {claim['claim']} is open with {counted(claim['seeds'], 'seed')}: "
    if claim["wanted"] is None:
        return words + "no number of seeds would settle it if they go on like this"
    price = "" if claim["seconds"] is None else f", about {duration(claim['seconds'])} on one core"
    return f"{words}{claim['wanted']:,} may settle it{price}"


def running_lines(running: Any) -> list[str]:
    """Return one line for every trial in training: name, step, loss, seconds."""
    return [
        f"{trial['name']}: step {trial['steps']:,} of {trial['of']:,}, "
        f"loss {_format_loss(trial['loss'])}, {trial['seconds']:.0f} s"
        for trial in running
    ]


def _format_loss(loss: float | str | None) -> str:
    """A loss from JSON, which has non-finite numbers as strings."""
    return rounded(float(loss) if loss is not None else None, 4)


def live(watch: Live) -> None:
    """A watch that goes on, or was cut off: where it is, its loss, and what was found last."""
    to, state = Terminal(), watch.to_json()
    how = "running" if state["alive"] else "not running; `gradlab report` makes a run of what is there"
    to.say(f"{state['folder']}: watch of {state['watched']}, {how}")
    if state["step"] is None:
        to.print("No step was probed yet.")
        return
    loss = "" if state["loss"] is None else f", loss {rounded(float(state['loss']), 4)}"
    to.print(f"{state['moments']:,} steps probed, the latest is step {state['step']:,}{loss}")
    to.say(*[found["words"] for found in state["diagnosis"]] or ["No step probed so far shows anything wrong."])


def runs(states: Sequence[RunStatus]) -> None:
    """Runs, one line each."""
    to = Terminal()
    if not states:
        to.print("no runs below this folder; `gradlab run identity` makes one, `gradlab list` shows what there is")
        return
    width = max(len(run.folder) for run in states)
    for run in states:
        state = "running" if run.alive else "finished" if run.finished else "not running"
        count = f"{run.done + run.failed:,} of {run.planned:,}"
        failed = f", {run.failed:,} failed" if run.failed else ""
        line = hang(f"{run.folder:<{width}}  {state:<11}  {count:>15} trials{failed}  ", run.question)
        to.say(line, no_wrap=True, overflow="ignore", crop=False)
