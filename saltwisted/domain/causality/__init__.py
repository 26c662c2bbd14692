"""
Clocks and knowledge: what came before what, and what is known of it.
"""
