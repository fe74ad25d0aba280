"""Figures, tables and the Markdown report. Everything here draws what `analysis` computed."""
