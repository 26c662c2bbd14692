"""
Blocking code that runs in worker processes and in the command line.
"""
