"""
On the path of watched processes: what they open in directories that anybody may write to.
"""
