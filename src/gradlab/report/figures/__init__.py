"""Figures, one file each. A figure computes a chart from what was measured; `report.charts` draws it."""
