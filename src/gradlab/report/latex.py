"""Tables as LaTeX, for a paper: booktabs rules, intervals in brackets, every name escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradlab.report.tables import Table

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "×": r"$\times$", "∞": r"$\infty$", "−": "$-$", "–": "--", "…": r"\dots{}", "δ": r"$\delta$", "α": r"$\alpha$",
    "·": r"$\cdot$", "√": r"$\surd$", "±": r"$\pm$", "→": r"$\to$", "●": r"$\bullet$",
}  # fmt: skip
_POWER = re.compile("10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
_LOWERED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def escape(text: str) -> str:
    """Any text as LaTeX: nothing in it is a command, `10⁻⁵` is a power of ten."""
    pieces, end = [], 0
    for found in _POWER.finditer(text):
        pieces += [_plain(text[end : found.start()]), rf"$10^{{{found[1].translate(_LOWERED)}}}$"]
        end = found.end()
    return "".join([*pieces, _plain(text[end:])])


def _plain(text: str) -> str:
    return "".join(_SPECIAL.get(letter, letter) for letter in text)


def _row(row: Sequence[str]) -> str:
    """The cells of a row; after the line break before it, a `[` or a `*` at its beginning would be an argument."""
    text = " & ".join(map(escape, row))
    return f"{{}}{text}" if text.lstrip().startswith(("[", "*")) else text


def render_latex_table(table: Table, name: str) -> str:
    r"""A `table` float with caption and label; needs \usepackage{booktabs}."""
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escape(table.title)}}}",
        rf"  \label{{tab:{re.sub(r'[^a-zA-Z0-9-]+', '-', name)}}}",
        rf"  \begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}",
        r"    \toprule",
        f"    {' & '.join(map(escape, table.header))} \\\\",
        r"    \midrule",
        *(f"    {_row(row)} \\\\" for row in table.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    notes = [f"% {' '.join(note.split())}" for note in table.notes]
    return "\n".join([*lines, *notes]) + "\n"
