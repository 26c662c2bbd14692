"""
Which names git takes for refs (C{git check-ref-format}), judged without git.

A name that comes from elsewhere, from a member of the cluster or from the configuration, is judged
here before it is in a file that git reads: of a bad one there git dies, with all that is beside it.
"""

from __future__ import annotations

import re

_BAD = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")
_BAD_PART = re.compile(r"(?:^|/)\.|(?:\.lock)(?:/|$)")


def is_ref(name: str) -> bool:
    """Whether this is the full name of a ref, C{refs/KIND/NAME}."""
    return (
        name.startswith("refs/")
        and name.count("/") > 1
        and not name.endswith(("/", "."))
        and _BAD.search(name) is None
        and _BAD_PART.search(name) is None
    )


def is_branch(name: str) -> bool:
    """Whether a branch or a tag may have this name; a commit's is one, too."""
    return not name.startswith("-") and is_ref(f"refs/heads/{name}")
