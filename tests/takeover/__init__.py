"""
Taking the place of a stock salt-master, and giving it back.
"""
