"""Making runs: one worker, the places where workers run, the launcher, progress."""
