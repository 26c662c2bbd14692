"""
Salt, highly available, in one Twisted process.
"""

__version__ = "0.1.0"
