"""
Which minions a target expression means.
"""
