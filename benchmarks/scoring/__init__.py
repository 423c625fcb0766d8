"""How far an approximation is from the true posterior, and a run from its own claims."""
