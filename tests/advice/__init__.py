"""
What our texts recommend: the table, and each of its commands carried out.
"""
