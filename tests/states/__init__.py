"""
The state modules against the recorded answers of stock Salt.
"""
