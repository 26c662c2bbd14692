"""
Which sources of files there are.
"""
