"""
Clocks and knowledge: the order of acts, and what is known of them.
"""
