"""
The worker processes of a master's automation: they render the SLS files that react to events.
"""
