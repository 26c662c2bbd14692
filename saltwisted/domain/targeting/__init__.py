"""
Which minions a target expression matches.
"""
