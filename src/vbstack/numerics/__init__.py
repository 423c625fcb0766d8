"""Numerical tools that know nothing of VBMC."""
