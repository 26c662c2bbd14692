"""
Whether a git remote answers: asked for its refs, and nothing is fetched or kept.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import Any

from saltwisted.worker.git import program
from saltwisted.worker.git.program import GitError
from saltwisted.worker.git.repository import explain, replace

SECONDS = 30.0
"""How long one remote may take."""


def refusal(reach: Mapping[str, Any], seconds: float = SECONDS) -> str:
    """
    Why a remote cannot be reached, in a line without credentials; C{""} if it can.

    @param reach: as L{program.environment} takes it.
    """
    reach = program.apart(reach)
    with tempfile.TemporaryDirectory() as folder:
        ask = ""
        if reach.get("password") or reach.get("passphrase"):
            ask = os.path.join(folder, "ask")
            replace(ask, program.ASK.encode(), 0o700)
        words = ["ls-remote", "--quiet", "--end-of-options", str(reach["url"]), "HEAD"]
        try:
            program.run(words, program.environment(reach, ask), seconds=seconds)
        except (GitError, OSError) as error:
            text = error.text if isinstance(error, GitError) else str(error)
            return program.said(explain(text, reach), reach)
    return ""
