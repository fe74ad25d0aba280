"""What an MLP is made of, defined once in NumPy: each part with forward and hand-written backward.

Rows are samples, so the `Wx + b` of papers is written `x @ W + b`, with W of shape (fan_in, fan_out).
"""

from gradlab.network.activations import Activation
from gradlab.network.inits import Init
from gradlab.network.losses import Loss
from gradlab.network.mlp import MLP
from gradlab.network.norms import Norm
from gradlab.network.skips import Skip

__all__ = ["MLP", "Activation", "Init", "Loss", "Norm", "Skip"]
