"""
Orchestrations that survive their master: the records of a run, and what follows from them.
"""
