"""Training: the objective, the loop, its state and its logs."""
