"""Do the stated errors of the log evidence cover?"""
