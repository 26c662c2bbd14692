"""
Compiling and running states.
"""
