"""
Grains: what a machine knows about itself.
"""
