"""One voice: facts become sentences here, and nowhere to the right of here.

`answers.py` answers a study's question, `findings.py` says what else the numbers show, `predictions.py` what theory
expects, `methods.py` how it was done. Numbers, counts and lists are written by `words.py`, names of groups by
`spec/naming.py`, which the rooms to the left use for their refusals. A part that finds something (a caveat, a rule of
the diagnosis, a figure) carries its own sentence, so that it stays one file.
"""
