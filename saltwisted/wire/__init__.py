"""
Salt's bytes as frozen values, and back. Pure: no sockets, files, clock or dice.
"""
