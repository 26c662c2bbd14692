"""
The larger tools of the command line: takeover, backup, doctor.
"""
