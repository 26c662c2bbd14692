"""
A node's life: founding, joining, being a member, leaving.
"""
