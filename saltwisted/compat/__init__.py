"""
What site modules find under the name C{salt} where the C{salt} package is not installed.

Each file is what C{salt.<its name>} means in a worker process; the importer
(L{saltwisted.worker.process.saltname}) gives it that name. C{salt.utils} comes from
L{saltwisted.utils}, which is also C{__utils__}. Nothing of ours imports this package.
"""

from __future__ import annotations

__version__ = "3008.5"
"""The Salt whose behaviour the parts have; modules compare with it."""
