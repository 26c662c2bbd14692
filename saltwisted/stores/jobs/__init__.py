"""
The job cache, in one SQLite file.
"""
