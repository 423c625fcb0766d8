"""What a stack says about its runs, and about other models."""
