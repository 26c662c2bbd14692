"""
Makes C{twistd saltwisted} known. Imports nothing of ours: C{twistd --help}
stays quick, and a mistake of ours cannot break other people's C{twistd}.
"""

from twisted.application.service import ServiceMaker

saltwisted = ServiceMaker(
    "saltwisted",
    "saltwisted.tap",
    "Salt, highly available: a master, a minion or a cluster peer in one process",
    "saltwisted",
)
