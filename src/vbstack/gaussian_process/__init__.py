"""Gaussian processes for a log density: priors, the kernel, its integrals, two processes."""
