"""The command line. One file per command in `commands/`; this file finds them and turns errors into exit codes.

Data go to stdout, progress and messages to stderr. Exit codes: 0 ok, 1 failure, 2 usage or invalid study,
3 audit failed, 4 a claim failed under --check, 130 interrupted (finished trials kept).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, NoReturn

import typer

from gradlab.cli import commands
from gradlab.cli.output import drop_stdout, json_only, visible
from gradlab.errors import INTERRUPTED, GradlabError
from gradlab.notices import open_missing_streams, say

MANUAL = """Controlled experiments on why deep networks train, or don't.

A STUDY asks a question: which arms to compare, what they may differ in, how often, what to measure. It is a
built-in name (`gradlab list`) or a YAML file. A run trains every arm with shared randomness, looks inside every
layer, and leaves results, figures and a report in its folder; the same command again goes on where it stood.

\b
Start with:
  gradlab list                                 what is built in
  gradlab run identity                         run one: some seconds, pictures included
  gradlab show identity > mine.yaml            take it as the start of your own
  gradlab run mine.yaml --set train.lr=3e-4    change it and run it
  gradlab audit mine.yaml                      is it a fair comparison?
  gradlab reproduce --quick                    four public write-ups, claim by claim
  gradlab status runs/mine                     where a run stands, from any terminal
  gradlab export runs/mine --to csv            its numbers for other tools
  gradlab probe train.py:make                  look inside a PyTorch model of your own
  gradlab compare train.py:train               compare training code of your own, arm by arm

Exit codes: 0 ok · 1 failure · 2 usage or invalid study · 3 the comparison is not fair (the run still happens) ·
4 a claim is not reproduced (with --check) · 130 interrupted (finished trials kept).
"""


def app() -> typer.Typer:
    """The command line with every command that has a file."""
    made = typer.Typer(
        name="gradlab", help=MANUAL, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
    )
    modules = [import_module(f"{commands.__name__}.{found.name}") for found in iter_modules(commands.__path__)]
    for module in sorted(modules, key=lambda module: (module.RANK, module.__name__)):
        name = module.__name__.rsplit(".", 1)[1].replace("_", "-")
        made.command(name)(_guarded(module.command))
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


def _guarded(command: Callable[..., None]) -> Callable[..., None]:
    """A command that keeps stdout for its JSON object, and does not mind a reader that goes away."""

    @wraps(command)
    def run(**options: Any) -> None:
        try:
            with json_only() if options.get("as_json") else nullcontext():
                command(**options)
            sys.stdout.flush()
        except BrokenPipeError:
            drop_stdout()
            raise typer.Exit(0) from None
        except KeyboardInterrupt:  # typer would leave without a word
            say("interrupted")
            raise typer.Exit(INTERRUPTED) from None

    return run


def main() -> NoReturn:
    """Run the command line; a user's mistake gets a message, not a traceback."""
    open_missing_streams()
    try:
        app()(standalone_mode=True)
    except GradlabError as error:
        say(visible(str(error)))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(INTERRUPTED)
    except MemoryError:
        say("out of memory; make width, depth, batch or samples smaller, or run fewer trials at a time (-j 1)")
        sys.exit(1)
    except OSError as error:  # a full disk behind stdout, say
        say(visible(error.strerror or str(error)))
        drop_stdout()
        sys.exit(1)
    sys.exit(0)
