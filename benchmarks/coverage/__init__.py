"""Do ten runs find all the mass of posteriors with several modes?"""
