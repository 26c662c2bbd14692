"""
Which pillar a minion gets: top file, includes, merging.
"""
