"""
Directories that are served: plain ones, and shares with generations.
"""
