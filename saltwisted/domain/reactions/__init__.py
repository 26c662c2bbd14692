"""
What a master does when an event arrives: which SLS files react, and what a rendered one means.

All of it is as in C{salt/utils/reactor.py} of 3008.2, except what stock does not have: options of
an entry, chains of reactions and their end. C{master/automation} runs it.
"""
