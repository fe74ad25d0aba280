def train(skip: bool, seed: int) -> dict[str, Any]:
    """Training code of somebody's own, for the stored comparison."""
    rng = np.random.default_rng(seed)
    losses = [1.0 / (1 + step) + (0.0 if skip else 0.5) + 0.01 * rng.random() for step in range(8)]
    return {"loss": losses, "test_accuracy": 0.9 if skip else 0.4}

