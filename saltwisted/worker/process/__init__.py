"""
Worker processes: how they start, what they load, how one call is made.
"""
