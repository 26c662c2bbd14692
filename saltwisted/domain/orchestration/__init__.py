"""
Orchestrations that survive their master: what is written down of a run, and what comes of it.
"""
