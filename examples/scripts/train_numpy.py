"""A NumPy-only training that hands its numbers over with one line of JSON: linear regression by gradient descent.

python train_numpy.py SEED MOMENTUM
"""

import json
import sys

import numpy as np

seed, momentum = int(sys.argv[1]), float(sys.argv[2])
random = np.random.default_rng(seed)
x, true = random.normal(size=(200, 20)), random.normal(size=20)
y = x @ true + 0.1 * random.normal(size=200)
weights, velocity = np.zeros(20), np.zeros(20)
for step in range(1, 31):
    gradient = x.T @ (x @ weights - y) / len(y)
    velocity = momentum * velocity - 0.1 * gradient
    weights = weights + velocity
    print(json.dumps({"step": step, "test_loss": float(np.mean((x @ weights - y) ** 2))}))
