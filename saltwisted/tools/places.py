"""
Where a saltwisted that replaces a stock master keeps its files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from attrs import frozen

from saltwisted.config.load import OWN_DIR, own_paths


@frozen(kw_only=True)
class Places:
    """Where the target keeps its files."""

    config: str
    pki: str
    cache: str
    sock: str
    explicit: Mapping[str, str]

    @staticmethod
    def of(directory: str) -> Places:
        """Ours for C{/etc/saltwisted}; below the directory itself for any other."""
        if os.path.normpath(directory) == OWN_DIR:
            paths = own_paths("master")
            return Places(
                config=OWN_DIR,
                pki=paths["pki_dir"],
                cache=paths["cachedir"],
                sock=paths["sock_dir"],
                explicit={},
            )
        paths = {
            "pki_dir": os.path.join(directory, "pki/master"),
            "cachedir": os.path.join(directory, "cache/master"),
            "sock_dir": os.path.join(directory, "run/master"),
            "log_file": os.path.join(directory, "log/master"),
        }
        return Places(
            config=directory,
            pki=paths["pki_dir"],
            cache=paths["cachedir"],
            sock=paths["sock_dir"],
            explicit=paths,
        )
