"""
One file per group of request commands; each function is one command.
"""
