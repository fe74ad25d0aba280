"""The command line. One file per command in `commands/`; this file finds them and turns errors into exit codes.

Data go to stdout, progress and messages to stderr. Exit codes: 0 ok, 1 failure, 2 usage or invalid study,
3 audit failed, 4 a claim failed under --check, 130 interrupted (finished trials kept).
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import NoReturn

import typer

from gradlab.cli import commands
from gradlab.errors import GradlabError

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
    for module in sorted(modules, key=lambda module: module.RANK):
        name = module.__name__.rsplit(".", 1)[1].replace("_", "-")
        made.command(name)(module.command)
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


def main() -> NoReturn:
    """Run the command line; a user's mistake gets a message, not a traceback."""
    try:
        app()(standalone_mode=True)
    except GradlabError as error:
        typer.echo(f"gradlab: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        typer.echo("gradlab: interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:  # a full disk behind stdout, say
        typer.echo(f"gradlab: {error.strerror or error}", err=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    sys.exit(0)
