"""
Orchestrations in processes of their own.
"""
