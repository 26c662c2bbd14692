"""
What a master does when an event comes: which SLS react, and what a rendered one means.

All of it is as in C{salt/utils/reactor.py} of 3008.2, but for what stock does not have: options of
an entry, chains of reactions and their end. What runs it is in C{master/automation}.
"""
