"""`gradlab lab`: the live page, on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RANK = 15


def command(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="[FOLDER]", help="Where runs and saved studies are [default: here].", show_default=False
        ),
    ] = Path("."),
    port: Annotated[
        int | None, typer.Option(help="The port [default: 8765, or the next free one].", min=1, max=65535)
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Listen on another address, so that other machines can reach it.")
    ] = "127.0.0.1",
    lesson: Annotated[
        str | None, typer.Option(metavar="NAME", help="Open a lesson, such as `skip`, instead of the playground.")
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser [default].", show_default=False)
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the link as one JSON object on stdout.")] = False,
    attended: Annotated[bool, typer.Option("--attended", help="End when standard input closes.", hidden=True)] = False,
) -> None:
    """Open the live lab, where two networks learn side by side.

    With lessons, and with all runs below a folder.

    Serves a page on this machine until Ctrl-C, and prints its link. The link holds a key: whoever has it can train
    networks, and start, stop and read the runs in FOLDER. Nothing is loaded from elsewhere; it works offline. Needs the
    extra [web].
    """
    import threading
    import webbrowser

    from gradlab.cli.output import emit_json
    from gradlab.notices import say
    from gradlab.web.lessons import get_lesson
    from gradlab.web.serve import Address, end_with_input, is_loopback, require_web, serve

    require_web()
    page = "" if lesson is None else f"lesson/{get_lesson(lesson).name}"
    if not is_loopback(host):
        say(
            f"WARNING: --host {host}: everybody who can reach this machine and learns the link can train networks here "
            "and start and read runs, and the connection is not encrypted"
        )

    def tell(address: Address) -> None:
        link = address.link(page)
        if as_json:
            emit_json({"url": link, "host": address.host, "port": address.port, "folder": str(folder.resolve())})
        else:
            typer.echo(link)
            say("the live lab is at the link above; Ctrl-C ends it (runs that were started go on)")
            if host in ("0.0.0.0", "::"):
                say("on another machine, put this machine's address into the link")
        if browser:
            webbrowser.open(link)
        if attended:
            threading.Thread(target=end_with_input, name="gradlab-lab-attended", daemon=True).start()

    serve(folder, host, port, tell)
    say("the lab is closed")
