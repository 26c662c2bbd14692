"""
Orchestrations, as their master sees them.
"""
