"""
Links to the other members: one port, words in order, bulk beside them, logs that are shipped.
"""
