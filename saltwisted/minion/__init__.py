"""
The minion: connection, publications, jobs and their returns.
"""
