"""
Served directories: plain ones, and shares with generations.
"""
