"""
The Debian packages, built, installed, used, upgraded and removed in a real Debian root.
"""
