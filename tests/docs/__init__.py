"""
What the pages say is still so.
"""
