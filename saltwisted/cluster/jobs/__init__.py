"""
Jobs, returns, events and presence between the nodes.
"""
