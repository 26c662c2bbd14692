"""
Who does what is to be done once: claims that a majority of the members grants.
"""
