"""
Everything on disk; blocking work in one bounded thread pool.
"""
