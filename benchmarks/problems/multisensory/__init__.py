"""Visuo-vestibular causal inference, six parameters: the model and its true posterior."""
