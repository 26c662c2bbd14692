"""
Links to the other members: one port, ordered words, bulk bodies, and the shipping of logs.
"""
