"""Faults on purpose: mutated files, flipped bits in journals, killed processes."""
