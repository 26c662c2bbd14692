"""
Where code of a site's own has raised an error.
"""

from __future__ import annotations

import traceback

NAMES = "saltwisted.loaded.ext."
"""How the names of modules begin that a loader has executed for a site or an extension."""


def place_of(error: BaseException) -> str:
    """
    File and line of the innermost call in a module of the site's own; C{""}: there is none.

    Of an error that another one has caused it is the place of that one, if its own has none.
    """
    found = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__")).startswith(NAMES):
            found = f"{frame.f_code.co_filename}, line {line}"
    cause = error.__cause__ or error.__context__
    return found or (place_of(cause) if cause is not None else "")
