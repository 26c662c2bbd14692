"""
Compiling pillars, with their external sources.
"""
