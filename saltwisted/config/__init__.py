"""
Salt's configuration files as typed, frozen values.
"""
