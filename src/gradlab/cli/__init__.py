"""The command line. Commands are functions in `commands/`; this file lists them and maps errors to exit codes.

Data go to stdout, progress and messages to stderr. Exit codes: 0 ok, 1 failure, 2 usage or invalid study,
3 audit failed, 4 a claim failed under --check, 130 interrupted (finished trials kept).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import Any, NoReturn

import typer

from gradlab.cli.commands import agents, instruments, runs, scripts, studies, training
from gradlab.cli.output import drop_stdout, fold, json_only
from gradlab.errors import INTERRUPTED, GradlabError
from gradlab.notices import open_missing_streams, say
from gradlab.words import visible

MANUAL = """Controlled experiments on why deep networks train, or don't.

A STUDY asks a question: which arms to compare, what they may differ in, how many seeds, what to measure. It is a
built-in name (`gradlab list`) or a YAML file. A run trains every arm with shared randomness, measures every
layer, and writes results, figures and a report to its folder. Run the same command again to resume it.

\b
Start with:
  gradlab list                               list the built-in studies
  gradlab run identity                       run one, in some seconds
  gradlab show identity > mine.yaml          copy it as the start of your own
  gradlab new > mine.yaml                    or answer three questions
  gradlab run mine.yaml --set train.lr=3e-4  change it and run it
  gradlab why runs/mine                      say why its arms end apart
  gradlab audit mine.yaml                    check that the comparison is fair
  gradlab predict mine.yaml                  say what theory expects of it
  gradlab lab                                watch two networks learn, live
  gradlab reproduce --quick                  redo four public write-ups
  gradlab status runs/mine                   show the state of a run
  gradlab verify runs/mine                   check its ledger, retrain some
  gradlab export runs/mine --to csv          export its numbers
  gradlab doctor train.py:make               find why a model does not train
  gradlab probe train.py:make                look inside your PyTorch model
  gradlab compare train.py:train             compare your own training code
  gradlab ab main..try -- python train.py    compare two commits
  gradlab judge results.csv                  judge results that exist
  gradlab mcp                                let an agent use the lab

Exit codes: 0 ok · 1 failure · 2 usage or invalid study · 3 the audit failed (the run still happens) ·
4 a claim is not reproduced (with --check) · 130 interrupted (finished trials kept).
"""


COMMANDS = {
    command.__name__.strip("_").replace("_", "-"): command
    for command in (
        training.run,
        studies.audit,
        studies.predict,
        runs.status,
        runs.report,
        runs.why,
        runs.figure,
        instruments.lab,
        runs.verify,
        training.reproduce,
        runs.export,
        instruments.doctor,
        instruments.probe,
        training.compare,
        scripts.ab,
        scripts.ablate,
        scripts.judge,
        scripts.claim,
        agents.mcp,
        agents.skill,
        studies.list_,
        studies.new,
        studies.show,
        studies.schema,
        instruments.check_part,
        instruments.bench,
    )
}
"""Name -> command, in the order of the help."""


def app() -> typer.Typer:
    """Return the command line."""
    made = typer.Typer(
        name="gradlab", help=MANUAL, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
    )
    for name, command in COMMANDS.items():
        made.command(name)(_wrap_command(command))
    made.callback()(_options)
    return made


def _version(wanted: bool) -> None:
    if wanted:
        from gradlab import __version__

        typer.echo(f"gradlab {__version__}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Options before the command."""


def _wrap_command(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command: keep stdout for its JSON object, and accept a reader that closes the pipe."""

    @wraps(command)
    def run(**options: Any) -> None:
        try:
            with json_only() if options.get("as_json") else nullcontext():
                command(**options)
            sys.stdout.flush()
        except BrokenPipeError:
            drop_stdout()
            raise typer.Exit(0) from None
        except KeyboardInterrupt:  # typer would exit without a message
            say("interrupted")
            raise typer.Exit(INTERRUPTED) from None

    return run


def main() -> NoReturn:
    """Run the command line; a user error prints a message, not a traceback."""
    open_missing_streams()
    try:
        app()(standalone_mode=True)
    except GradlabError as error:
        say(fold(visible(str(error))))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(INTERRUPTED)
    except MemoryError:
        say("out of memory; make width, depth, batch or samples smaller, or run fewer trials at a time (-j 1)")
        sys.exit(1)
    except OSError as error:  # for example, a full disk behind stdout
        say(visible(error.strerror or str(error)))
        drop_stdout()
        sys.exit(1)
    sys.exit(0)
