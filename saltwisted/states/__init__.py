"""
State modules: what a machine shall be like. Same conventions as stock's.
"""
