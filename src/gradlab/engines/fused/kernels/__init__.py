"""The compiled kernels of the fused engine, by task, each beside its equation.

gather.py      rows of the data set -> a batch, scaled
product.py     the three products of a layer, by register tiles (tile.py, transpose.py) or BLAS
sparse.py      the first layer on pixels of which most are 0 (nonzero.py: which are not)
elementwise.py activations and skips that no tile applies
normalize.py   layer, RMS and batch norm
forward.py     one forward pass
backward.py    one backward pass
losses.py      loss, its gradient, correct answers
update.py      one pass per optimizer
stretch.py     the loop over the steps of a stretch
supported.py   which parts there are kernels for (plain Python)
layout.py      the memory layout (plain Python)
compiled.py    how kernels are compiled and cached
"""

from __future__ import annotations

import os

from gradlab.notices import say_once

_threads = os.environ.get("NUMBA_NUM_THREADS")
if _threads is not None and not (_threads.isascii() and _threads.isdigit() and int(_threads) > 0):
    say_once(f"NUMBA_NUM_THREADS={_threads!r} is not a number of threads and is ignored")
    del os.environ["NUMBA_NUM_THREADS"]  # numba would refuse to import; the kernels use one thread anyway
