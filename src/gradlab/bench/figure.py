"""The benchmark as a text table and as a bar chart."""

from __future__ import annotations

from typing import Any

from gradlab.report.look import INK, SOFT, STROKES, look

SYSTEMS = ("gradlab", "jax", "torch", "sklearn")


def lines(report: dict[str, Any]) -> list[str]:
    """Return one line per workload and system."""
    machine = report["machine"]
    text = [
        f"{machine['processor']}, 1 core, Python {machine['python']}, numpy {machine['packages']['numpy']}, "
        + ", ".join(f"{name} {version or 'not installed'}" for name, version in report["peers"].items()),
        f"sgemm peak {report['sgemm_gflops']:.0f} GFLOP/s; medians of {report['rounds']} rounds, systems in turn",
        "",
    ]
    for row in report["workloads"]:
        share = f", {100 * row['share_of_peak']:.0f} % of the sgemm peak" if "share_of_peak" in row else ""
        text.append(f"{row['key']}  {row['title']}{share}")
        for name, system in row["systems"].items():
            ratio = f"   {row['ratios'][name]:.1f} × slower" if name in row["ratios"] else ""
            for variant in system.get("variants", [system["best"]]):
                best = variant is system["best"] or variant == system["best"]
                text.append(f"   {name + ' ' + variant['variant']:<28}{_speed(variant):>34}{ratio if best else ''}")
        text.append("")
    cost = report["probes"]
    if cost is None:
        return text
    return [
        *text,
        f"probes add {100 * cost['default']:.1f} % to a trial of B at the default cadence (start and end), "
        f"{100 * cost['log']:.0f} % at start, every power of two and end",
    ]


def _speed(variant: dict[str, Any]) -> str:
    if "gflops" in variant:
        return f"{variant['gflops']:.1f} GFLOP/s  {variant['ms_per_step']:.3f} ms/step"
    if "nets_per_minute" in variant:
        return f"{variant['nets_per_minute']:,.0f} nets/min"
    return f"{variant['seconds']:.1f} s"


def bars(report: dict[str, Any]) -> Any:
    """Draw each system's best GFLOP/s by workload, with the sgemm peak."""
    from matplotlib.figure import Figure

    rows = [row for row in report["workloads"] if "gflops" in row["systems"]["gradlab"]["best"]]
    with look():
        canvas = Figure(figsize=(8.2, 4.2), layout="constrained")
        ax = canvas.add_subplot()
        shown = [name for name in SYSTEMS if any(name in row["systems"] for row in rows)]
        width = 0.8 / max(len(shown), 1)
        hatches = ("", "//", "..", "xx")
        for index, name in enumerate(shown):
            there = [
                (i, row["systems"][name]["best"]["gflops"]) for i, row in enumerate(rows) if name in row["systems"]
            ]
            x = [i + (index - (len(shown) - 1) / 2) * width for i, _ in there]
            drawn = ax.bar(
                x, [value for _, value in there], width * 0.92, color=STROKES[(index + 1) % len(STROKES)].color,
                hatch=hatches[index], edgecolor="white", label=name,
            )  # fmt: skip
            ax.bar_label(drawn, fmt="%.0f", fontsize=8, color=INK, padding=1)
        ax.axhline(report["sgemm_gflops"], color=INK, linewidth=1, linestyle=(0, (1, 2)))
        ax.annotate("sgemm peak", (1, report["sgemm_gflops"]), (-2, 3), xycoords=("axes fraction", "data"),
                    textcoords="offset points", ha="right", fontsize=8, color=SOFT)  # fmt: skip
        ax.set_xticks(range(len(rows)), [f"{row['key']}\n{row['title'].split(',')[0]}" for row in rows], fontsize=8)
        ax.set_ylabel("GFLOP/s in matrix products, one core")
        ax.set_title("Training speed, each system at its best", pad=26)
        ax.grid(axis="x", visible=False)
        ax.legend(loc="lower left", bbox_to_anchor=(-0.01, 0.985), ncols=4, borderaxespad=0)
        return canvas
