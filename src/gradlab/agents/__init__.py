"""The lab for agents: an MCP server whose interface keeps exploring and confirming apart, and a skill that explains it.

Exploring is free and gives numbers; a verdict needs claims that were frozen before, a fair audit (or a declared unfair
one), and seeds that the server draws. Everything is entered in the project's ledger (`runs/store/project.py`).
"""
