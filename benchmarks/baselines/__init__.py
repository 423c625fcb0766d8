"""What else could be used: BBVI, samplers with as many evaluations, and the peers' stacking."""
