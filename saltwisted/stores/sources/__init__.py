"""
The available sources of files.
"""
