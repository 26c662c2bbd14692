"""
The master: answers requests, publishes jobs, stores returns.
"""
