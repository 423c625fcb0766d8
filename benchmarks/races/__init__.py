"""Seconds, memory and quality of stacking and of the engines, against others and by parts."""
