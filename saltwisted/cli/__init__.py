"""
The command line, under Salt's own command names.
"""
