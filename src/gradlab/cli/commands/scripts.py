"""Commands for everybody's training code: `ab` two commits, `ablate` switches, `judge` a table, `claim` beforehand."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from gradlab.cli.commands import (
    AUDIT_FAILED,
    AsJson,
    Budget,
    Matters,
    MostSeeds,
    Tables,
    Until,
    read_seconds,
    read_until,
)
from gradlab.errors import InvalidInput

if TYPE_CHECKING:
    from gradlab.comparing.claims import Frozen
    from gradlab.comparing.commands import Arm, Command
    from gradlab.report.result import Result

CommandWords = Annotated[
    list[str], Argument(metavar="-- COMMAND...", help="The command, after --, with {seed} where it takes its seed.")
]
Seeds = Annotated[int, Option(help="Number of seeds.", min=1)]
MetricOption = Annotated[
    str | None,
    Option(
        metavar="NAME|REGEX",
        help="The number: a name (of gradlab.log, of JSON, of `name: number`), or an expression with one group.",
    ),
]
Take = Annotated[str, Option(metavar="last|min|max", help="Which of several matches counts.")]
From = Annotated[
    str | None,
    Option(
        "--from", metavar="PATH", help="A JSON, CSV or TensorBoard file of the command; {seed}, {out} are filled in."
    ),
]
Lower = Annotated[bool, Option("--lower", help="Lower is better.")]
Higher = Annotated[bool, Option("--higher", help="Higher is better.")]
ClaimTexts = Annotated[list[str] | None, Option("--claim", metavar="'A < B'", help="A claim: 'A < B' or 'A < 3.28'.")]
ClaimsFile = Annotated[Path | None, Option("--claims", metavar="FILE", help="Claims of `gradlab claim freeze`.")]
Jobs = Annotated[int, Option("-j", "--jobs", help="Commands at a time.", min=1)]
Timeout = Annotated[str | None, Option(metavar="TIME", help="End a trial after this time (30s, 10min, 2h): it failed.")]
Trace = Annotated[
    bool | None, Option("--trace/--no-trace", help="Look at the first optimizer steps [default: of Python commands].")
]
Factor = Annotated[
    str | None, Option(metavar="NAME,…", help="What arms may differ in (lr, norm, init, …); more fails the audit.")
]
AA = Annotated[
    int, Option("--aa", help="First the baseline against itself, on two sets of so many seeds; 0: not.", min=0)
]
ExecutorName = Annotated[
    str, Option("--executor", metavar="NAME", help="Where: pool, processes, inline, ray or slurm.")
]
SetExecutor = Annotated[
    list[str] | None, Option("--set-executor", metavar="NAME=VALUE,…", help="Settings of the executor.")
]
Out = Annotated[Path | None, Option(help="The run folder [default: below runs/].")]
Force = Annotated[bool, Option("--force", help="Start over; an old run is moved aside.")]
Check = Annotated[bool, Option("--check", help="Exit with 4 if a claim is not reproduced.")]
To = Annotated[str | None, Option(metavar="comment", help="Print a Markdown comment for a pull request.")]

AA_SEEDS = 3
SWITCHED = {"0": "1", "false": "true", "False": "True", "off": "on", "no": "yes", "none": "default"}
"""Off -> on, where a switch names only what it is when it is off."""


def ab(
    words: Annotated[
        list[str], Argument(metavar="REF..REF -- COMMAND...", help="Two commits, or one against the checkout; COMMAND.")
    ],
    seeds: Seeds = 5,
    until: Until = None,
    most_seeds: MostSeeds = 200,
    metric: MetricOption = None,
    take: Take = "last",
    source: From = None,
    lower: Lower = False,
    higher: Higher = False,
    claim: ClaimTexts = None,
    claims: ClaimsFile = None,
    matters: Matters = None,
    factor: Factor = None,
    link: Annotated[
        list[str] | None, Option(metavar="PATH", help="A path that git does not hold (data), linked into both.")
    ] = None,
    aa: AA = AA_SEEDS,
    jobs: Jobs = 1,
    timeout: Timeout = None,
    budget: Budget = None,
    trace: Trace = None,
    executor: ExecutorName = "pool",
    set_executor: SetExecutor = None,
    out: Out = None,
    force: Force = False,
    check: Check = False,
    tables: Tables = False,
    to: To = None,
    as_json: AsJson = False,
) -> None:
    """Compare two commits by running a command in both.

    One commit alone is compared with the checkout as it is, uncommitted changes and all.

    Each state gets a git worktree outside the checkout, which is never touched; arms take turns within each seed.
    First the baseline runs against itself, which says what noise is and what so many seeds can show. Finished trials
    are kept: the same command resumes.

    gradlab ab main..try --metric 'val_bpb:\\s+(\\S+)' --lower -- python train.py --seed {seed}
    """
    from gradlab.comparing import worktrees
    from gradlab.comparing.commands import make_arms

    options = Options.of(locals())
    refs, rest = _split_refs(words)
    made = replace(options.command(rest), files=False)
    repository = worktrees.find_repository(Path.cwd())
    states = worktrees.find_states(repository, refs)
    with worktrees.checked_out(repository, states, made, link or ()) as arms:
        make_arms(made, {"any": {}}, next(iter(arms.values())).cwd)  # refuses a command that has no seed
        second = states[1].name if states[1].name != worktrees.UNCOMMITTED else "the uncommitted state"
        question = f"Is {second} better than {states[0].name}?"
        notes = worktrees.describe(repository, states)
        _run(made, arms, options, ["ab", *refs], question=question, notes=notes, name="ab")


def ablate(
    words: CommandWords,
    switch: Annotated[
        list[str], Option(metavar="NAME=[ON:]OFF", help="A place {NAME} of the command, and what it is when off.")
    ],
    seeds: Seeds = 5,
    until: Until = None,
    most_seeds: MostSeeds = 200,
    metric: MetricOption = None,
    take: Take = "last",
    source: From = None,
    lower: Lower = False,
    higher: Higher = False,
    matters: Matters = None,
    factor: Factor = None,
    aa: AA = AA_SEEDS,
    jobs: Jobs = 1,
    timeout: Timeout = None,
    budget: Budget = None,
    trace: Trace = None,
    executor: ExecutorName = "pool",
    set_executor: SetExecutor = None,
    out: Out = None,
    force: Force = False,
    tables: Tables = False,
    to: To = None,
    as_json: AsJson = False,
) -> None:
    """Switch the parts of a recipe off, one by one.

    All switches on is the baseline; every switch is turned off by itself, over the same seeds. The table says of each:
    carries the result, hurts it, neither helps nor hurts (within what matters), or not settled.

    gradlab ablate --switch ema=0 --switch wd=0.1:0 -- python train.py --seed {seed} ema={ema} wd={wd}
    """
    from gradlab.comparing.commands import make_arms
    from gradlab.tell.answers import ALL_ON, WITHOUT

    options = Options.of(locals())
    made = options.command(words)
    pairs = dict(_parse_switch(text) for text in switch)
    on = {name: values[0] for name, values in pairs.items()}
    settings = {ALL_ON: on, **{f"{WITHOUT}{name}": {**on, name: off} for name, (_, off) in pairs.items()}}
    typed = ["ablate", *(word for text in switch for word in ("--switch", text))]
    _run(made, make_arms(made, settings), options, typed, question="Which parts carry the result?", name="ablate")


def judge(
    source: Annotated[list[str], Argument(metavar="PATH...", help="A table, logs, event folders or an MLflow store.")],
    metric: Annotated[str | None, Option(help="The column; of logs a name or an expression with one group.")] = None,
    arm: Annotated[str | None, Option(help="The column that names arms; or their columns, a,b.")] = None,
    seed: Annotated[str | None, Option(help="The column of seeds.")] = None,
    task: Annotated[str | None, Option(help="The column that names tasks or data sets.")] = None,
    arm_from: Annotated[str | None, Option(metavar="REGEX", help="Where in a path the arm stands.")] = None,
    seed_from: Annotated[str | None, Option(metavar="REGEX", help="Where in a path the seed stands.")] = None,
    task_from: Annotated[str | None, Option(metavar="REGEX", help="Where in a path the task stands.")] = None,
    take: Take = "last",
    lower: Lower = False,
    higher: Higher = False,
    claim: ClaimTexts = None,
    claims: ClaimsFile = None,
    matters: Matters = None,
    out: Annotated[Path | None, Option(help="Write a run folder with the page and its figures there.")] = None,
    check: Check = False,
    tables: Tables = False,
    to: To = None,
    as_json: AsJson = False,
) -> None:
    """Judge results that exist, whatever made them.

    Reads CSV, TSV, Parquet, JSON, NPZ, logs by regular expression, TensorBoard folders and MLflow stores, made by
    anything. Nothing is trained. Exit code 3 if the table itself is unsound, such as two arms that are one.

    gradlab judge results.csv --arm optimizer --metric val_loss --claim 'muon < adamw'
    """
    from gradlab.cli.output import emit_json
    from gradlab.comparing.tables import Selection, judge_table

    selection = Selection(arm, seed, task, metric, arm_from, seed_from, task_from, take)
    typed = shlex.join(sys.argv[1:])
    judged = judge_table(
        source,
        selection,
        claims=claim or (),
        frozen=_frozen(claims),
        better=_better(lower, higher),
        matters=matters,
        out=out,
        command=f"gradlab {typed}",
    )
    if as_json:
        emit_json(judged.to_json())
    else:
        _print(judged.result, out, tables, to)
    if any(fact.severity == "problem" for fact in judged.facts):
        raise typer.Exit(AUDIT_FAILED)
    if check and any(verdict.failed for verdict in judged.result.verdicts):
        raise typer.Exit(4)


def claim(
    action: Annotated[str, Argument(metavar="freeze", help="`freeze` writes claims with their hash and the time.")],
    claim: Annotated[list[str], Option("--claim", metavar="'A < B'", help="A claim: 'A < B' or 'A < 3.28'.")],
    metric: Annotated[str, Option(help="The metric that the claims are about.")],
    out: Annotated[Path, Option("-o", "--out", help="The file.")] = Path("claims.json"),
) -> None:
    """Freeze claims before a run: `gradlab claim freeze`.

    `gradlab ab` and `gradlab judge` take the file with --claims, refuse it if it was edited, and say whether it is
    older than the results.

    gradlab claim freeze --metric val_loss --claim 'try < main'
    """
    from gradlab.comparing.claims import Frozen, parse_claim
    from gradlab.comparing.readings import MetricRule
    from gradlab.words import counted

    if action != "freeze":
        raise InvalidInput(f"claim {action!r}: the only action is freeze")
    if out.exists():
        raise InvalidInput(f"{out} exists, and claims are not frozen over others; choose another --out")
    frozen = Frozen.freeze([parse_claim(text, MetricRule.parse(metric).name) for text in claim])
    out.write_text(frozen.text(), encoding="utf8")
    typer.echo(f"{out}: {counted(len(frozen.claims), 'claim')}, {frozen.time:%Y-%m-%d %H:%M:%S} UTC, hash {frozen.id}")


# ---------------------------------------------------------------------- what they share


@dataclass(frozen=True)
class Options:
    """How a comparison of commands is carried out, as it was typed."""

    seeds: int = 5
    until: str | None = None
    most_seeds: int = 200
    metric: str | None = None
    take: str = "last"
    source: str | None = None
    lower: bool = False
    higher: bool = False
    claim: Sequence[str] | None = None
    claims: Path | None = None
    matters: float | None = None
    factor: str | None = None
    link: Sequence[str] | None = None
    aa: int = 0
    jobs: int = 1
    timeout: str | None = None
    budget: str | None = None
    trace: bool | None = None
    executor: str = "pool"
    set_executor: Sequence[str] | None = None
    out: Path | None = None
    project: Path | None = None
    force: bool = False
    check: bool = False
    tables: bool = False
    to: str | None = None
    as_json: bool = False

    @staticmethod
    def of(typed: Mapping[str, Any]) -> Options:
        """From the parameters of a command, which are called alike."""
        return Options(**{one.name: typed[one.name] for one in fields(Options) if one.name in typed})

    def refuse_for_function(self) -> None:
        """Refuse what only a command has."""
        usual = Options()
        for name in (
            "take",
            "source",
            "lower",
            "higher",
            "claim",
            "factor",
            "jobs",
            "timeout",
            "trace",
            "executor",
            "to",
        ):
            if getattr(self, name) != getattr(usual, name):
                option = {"source": "from"}.get(name, name)
                raise InvalidInput(f"--{option} is for a command after --; a function takes its settings from --arm")

    @property
    def better(self) -> Literal["higher", "lower"] | None:
        """What is better, if it was said."""
        return _better(self.lower, self.higher)

    def command(self, words: Sequence[str]) -> Command:
        """The command with its metric and its limits."""
        from gradlab.comparing.commands import command

        named = None if self.factor is None else [name.strip() for name in self.factor.split(",")]
        rule = {"metric": self.metric, "take": self.take, "source": self.source}
        return command(words, **rule, timeout=read_seconds("--timeout", self.timeout), trace=self.trace, factor=named)  # type: ignore[arg-type]

    @property
    def words(self) -> list[str]:
        """What of it decides the result, as it was typed."""
        pairs: dict[str, Any] = {
            "--seeds": self.seeds,
            "--metric": self.metric,
            "--from": self.source,
            "--timeout": self.timeout,
        }
        pairs |= {"--matters": self.matters, "--aa": self.aa if self.aa != AA_SEEDS else None, "--claims": self.claims}
        pairs |= {"--take": None if self.take == "last" else self.take, "--factor": self.factor, "--out": self.out}
        pairs |= {"--until": self.until, "--most-seeds": self.most_seeds if self.until else None}
        flags = {None: [], "lower": ["--lower"], "higher": ["--higher"]}[self.better]
        claims = [word for text in self.claim or () for word in ("--claim", text)]
        links = [word for path in self.link or () for word in ("--link", path)]
        traced = {None: [], True: ["--trace"], False: ["--no-trace"]}[self.trace]
        plain = (str(word) for pair in pairs.items() if pair[1] is not None for word in pair)
        return [*plain, *flags, *claims, *links, *traced]


def compare_command(words: Sequence[str], arm: Sequence[str] | None, question: str | None, options: Options) -> None:
    """`gradlab compare` with a command."""
    from gradlab.comparing.commands import make_arms

    if not arm:
        raise InvalidInput("give the arms with --arm 'NAME: --option value' or --arm 'NAME: {place: value}'")
    made = options.command(words)
    typed = ["compare", *(word for text in arm for word in ("--arm", text))]
    _run(made, make_arms(made, _parse_arms(arm)), options, typed, question=question, name="compare")


def _parse_arms(texts: Sequence[str]) -> dict[str, Any]:
    """`NAME: further words` as they are typed, or `NAME: {place: value}`."""
    from gradlab.cli.commands.training import parse_arms

    arms: dict[str, Any] = {}
    for text in texts:
        name, colon, words = (piece.strip() for piece in text.partition(":"))
        parsed = {name: words if colon else name} if name and not words.startswith("{") else parse_arms([text])
        if set(parsed) & set(arms):
            raise InvalidInput(f"--arm {text!r}: there are two arms {name!r}")
        arms |= parsed
    return arms


def _run(
    made: Command,
    arms: Mapping[str, Arm],
    options: Options,
    typed: Sequence[str],
    *,
    name: str,
    question: str | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Plan, run with progress, print, and exit with the code of the result."""
    from gradlab import api
    from gradlab.cli import show
    from gradlab.cli.commands.training import read_claims
    from gradlab.cli.output import answer
    from gradlab.cli.running import Progress, exit_code, read_executor_settings
    from gradlab.comparing.claims import default_claims, parse_claim
    from gradlab.comparing.commands import plan_commands
    from gradlab.running.start import RunOptions
    from gradlab.runs.store.status import count_finished
    from gradlab.tell.answers import ALL_ON

    listed = options.claims is not None and options.claims.suffix in (".yaml", ".yml")
    metric, frozen = made.rule.name, None if listed else _frozen(options.claims)
    asked = [parse_claim(text, metric, list(arms)) for text in options.claim or ()]
    asked += read_claims(options.claims) if listed else []
    asked += [dict(claim) for claim in frozen.claims] if frozen else []
    asked = asked or default_claims(metric, options.better, list(arms))
    if name == "ablate":  # every part is claimed to help
        asked = [
            {**claim, "arms": claim["arms"][::-1], "text": f"{ALL_ON} {claim['op']} {arm}"}
            for claim, arm in zip(asked, list(arms)[1:], strict=True)
        ]
    folder = options.out or Path("runs") / name
    named: dict[str, Any] = {"name": name, "question": question, "claims": asked, "metric": {"better": options.better}}
    if options.matters is not None:
        named["matters"] = options.matters
    if name == "ab":
        named["answers"] = {"holds": [number for number, _ in enumerate(asked, 1)]}
    wanted = read_until(options.until, options.most_seeds, options.seeds)
    words = ["gradlab", *typed, *options.words, "--", *made.words]
    plan = plan_commands(made, arms, wanted, **{**named, "metric": metric})
    done = 0 if options.force else count_finished(folder, plan.trials)
    if frozen is not None:
        began = (folder / "plan.json").stat().st_mtime if done else time()
        notes = (*notes, frozen.compare(began).words)
    named["notes"] = tuple(notes)
    if not options.as_json:
        show.begins(plan, len(plan.trials) - done)
    with Progress(plan) as progress:
        how = RunOptions(
            out=folder,
            workers=options.jobs,
            executor=options.executor,
            settings=read_executor_settings(options.executor, None, options.set_executor or ()),
            force=options.force,
            command=shlex.join(words),
            budget=read_seconds("--budget", options.budget),
            project=options.project,
            on_audit=None if options.as_json else show.audit_line,
            on_start=progress.on_start,
            on_round=None if options.as_json else progress.on_round,
            on_stop=progress.on_stop,
            on_report=None if options.as_json else progress.on_report,
        )
        result = api.compare_arms(made, arms, wanted, how, named, aa=options.aa)
    if options.as_json:
        answer(result, lambda _: None, True)
    else:
        _print(result, folder, options.tables, options.to)
    if code := exit_code(result, options.check):
        raise typer.Exit(code)


def _print(result: Result, folder: Path | None, tables: bool, to: str | None) -> None:
    from gradlab.cli import show
    from gradlab.cli.terminal import Terminal
    from gradlab.comparing.commands import last_lines
    from gradlab.report.comment import render_comment

    if to is not None:
        if to != "comment":
            raise InvalidInput(f"--to {to!r}: the only other form is --to comment")
        typer.echo(render_comment(result.story))
        return
    show.result(result, folder, tables=tables, verdicts=True)
    Terminal(sys.stderr).say(*last_lines(result), soft_wrap=True)


def _better(lower: bool, higher: bool) -> Literal["higher", "lower"] | None:
    if lower and higher:
        raise InvalidInput("--lower and --higher: only one of them is better")
    return "lower" if lower else "higher" if higher else None


def _frozen(path: Path | None) -> Frozen | None:
    from gradlab.comparing.claims import Frozen

    return None if path is None else Frozen.read(path)


def _split_refs(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Commits and command; they are divided by `--`, which the parser has removed."""
    arguments = sys.argv[sys.argv.index("ab") + 1 :] if "ab" in sys.argv else []
    count = len(arguments) - arguments.index("--") - 1 if "--" in arguments else max(len(words) - 1, 0)
    refs, rest = list(words[: len(words) - count]), list(words[len(words) - count :])
    if not refs or not rest:
        raise InvalidInput(
            "ab: write commits, --, and a command: gradlab ab main..try -- python train.py --seed {seed}"
        )
    return refs, rest


def _parse_switch(text: str) -> tuple[str, tuple[str, str]]:
    name, equals, value = text.partition("=")
    on, colon, off = value.partition(":")
    if not colon:
        on, off = SWITCHED.get(value, ""), value
    if not equals or not name.isidentifier() or not on or on == off:
        raise InvalidInput(f"--switch {text!r}: write NAME=OFF (0, false, off, no), or NAME=ON:OFF such as wd=0.1:0")
    return name, (on, off)
