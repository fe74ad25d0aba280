"""The audit of hand-written training code: what factories build, and what it computes, before anything is trained.

A factory returns (model, optimizer, loader, loss). Every factory is called under the same seed, and once more under
another, to see whether its weights follow the seed. Two arms are then compared by behavior: the same state, the same
input, the same gradients, the same targets have to give the same results, unless the declared factor (`factors.py`)
explains the difference; and each arm's gradient has to be the derivative of its loss. `code.py` puts the answer
together.
"""
