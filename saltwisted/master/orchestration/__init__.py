"""
Orchestrations, as the master that they belong to sees them.
"""
