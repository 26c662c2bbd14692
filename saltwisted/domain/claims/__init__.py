"""
Who does work that must be done only once: claims that a majority of the members grants.
"""
