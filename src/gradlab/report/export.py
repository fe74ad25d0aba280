"""Tables as LaTeX, for a paper: booktabs rules, intervals in brackets, every name escaped."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING, Any, Literal, get_args

from gradlab.errors import InvalidInput, nearest
from gradlab.spec.base import plain_json

if TYPE_CHECKING:
    from gradlab.report.story import Story
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


# A run's numbers in the formats of other tools. NaN, ±inf and missing stay distinct in each of them.

Format = Literal["csv", "parquet", "json", "latex"]
TableName = Literal["summary", "claims", "trials", "curves", "layers", "tuning"]
FORMATS: tuple[str, ...] = get_args(Format)
TABLES: tuple[str, ...] = get_args(TableName)


def render_table_as(table: Any, to: str) -> bytes:
    """An Arrow table as csv, parquet or json."""
    import pyarrow.csv
    import pyarrow.parquet

    if to == "json":
        return (json.dumps(plain_json(table.to_pylist()), indent=1, ensure_ascii=False) + "\n").encode()
    buffer = io.BytesIO()
    if to == "csv":
        pyarrow.csv.write_csv(table, buffer)  # missing is empty; nan, inf and -inf are words
    else:
        pyarrow.parquet.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def write_streamed(pieces: Iterable[Any], to: str, sink: IO[bytes]) -> None:
    """Write a table that arrives in pieces as csv, parquet or json; only one piece is in memory."""
    import pyarrow.csv
    import pyarrow.parquet

    if to == "json":
        sink.write(b"[")
        for number, row in enumerate(row for piece in pieces for row in piece.to_pylist()):
            sink.write((b",\n" if number else b"\n") + json.dumps(plain_json(row), ensure_ascii=False).encode())
        sink.write(b"\n]\n")
        return
    with ExitStack() as stack:
        writer: Any = None
        for piece in pieces:
            if writer is None:
                made = (
                    pyarrow.csv.CSVWriter(sink, piece.schema)
                    if to == "csv"
                    else pyarrow.parquet.ParquetWriter(sink, piece.schema, compression="zstd")
                )
                writer = stack.enter_context(made)
            writer.write_table(piece)


def render_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    """The data of a figure as CSV."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue().encode()


def render_latex(story: Story) -> bytes:
    """The tables of the report, for a paper."""
    made = [render_latex_table(table, f"{story.name}-{number}") for number, table in enumerate(story.tables, 1)]
    return ("% needs \\usepackage{booktabs}\n\n" + "\n".join(made)).encode()


def summary_rows(story: Story) -> list[dict[str, Any]]:
    """One row per group and metric: center, interval, n and more."""
    return [
        {"group": group, "metric": metric, **summary}
        for group, metrics in story.metrics.items()
        for metric, summary in metrics.items()
    ]


def claim_rows(story: Story) -> list[dict[str, Any]]:
    """One row per claim: what is claimed, what was measured, and the verdict."""
    return [
        {
            "claim": number,
            "text": verdict.claim.text,
            "metric": verdict.claim.metric,
            "from": verdict.claim.origin,
            "verdict": verdict.outcome,
            "measured": verdict.measured,
            "center": None if not verdict.readings else verdict.readings[-1].estimate.value,
            "low": None if not verdict.readings else verdict.readings[-1].estimate.low,
            "high": None if not verdict.readings else verdict.readings[-1].estimate.high,
            "seeds": None if not verdict.readings else verdict.readings[-1].estimate.n,
            "p": verdict.p,
            "published": verdict.published,
            "number": verdict.number,
            "reason": verdict.reason,
        }
        for number, verdict in enumerate(story.verdicts, 1)
    ]


def check_export(to: str, table: str, trackers: Sequence[str] = ()) -> None:
    """Refuse a format or table that does not exist, or a pair that makes no sense; `trackers` are formats too."""
    for field, value, accepted in (("--to", to, (*FORMATS, *trackers)), ("--table", table, TABLES)):
        if value not in accepted:
            raise InvalidInput(f"{field} {value!r}: accepted: {', '.join(accepted)}{nearest(value, accepted)}")
    if to == "latex" and table != "summary":
        raise InvalidInput(f"--to latex makes tables for a paper from the summary, not from {table}; leave --table out")
