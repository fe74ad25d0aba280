"""The live lab: a local page on which two networks train side by side, and on which runs are started and read.

`app.py` has the routes, `guard.py` decides who may call them; a `Session` is one page with its two networks. The page
itself is in `static/`: plain files, no build step, nothing from elsewhere.
"""
