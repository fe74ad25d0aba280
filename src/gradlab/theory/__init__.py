"""What should happen at initialization, layer by layer, with its band over seeds."""
