"""From finished runs to weights and evidence: one module for each step of the method."""
