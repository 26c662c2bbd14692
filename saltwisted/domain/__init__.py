"""
Decisions, as pure functions and values; time is an argument.
"""
