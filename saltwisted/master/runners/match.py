"""
The C{match} runner: whether a target matches a minion, by what the master knows.
"""

from __future__ import annotations

from typing import Any

from saltwisted.domain.keys import valid_minion_id
from saltwisted.errors import DeniedError, SaltwistedError
from saltwisted.master.runner_table import Run, Runner


async def compound_matches(run: Run, expr: Any, minion_id: Any) -> dict[str, Any]:
    """
    Whether a compound target means a minion: its id, or False.

    Pillar values have to be whole. What the master does not know of a minion does not match.

    CLI Example::

        salt-run match.compound_matches 'I@foo:bar and G@os:Deb* and not db*' myminion
    """
    known = isinstance(minion_id, str) and valid_minion_id(minion_id)
    if not known or not run.ctx.config.minion_data_cache:
        return {"res": False}
    try:
        is_meant = await run.means(expr, minion_id)
    except DeniedError:
        raise
    except SaltwistedError:
        # As in stock: whoever asks does not learn why.
        is_meant = False
    return {"res": minion_id if is_meant else False}


FUNCTIONS: dict[str, Runner] = {"compound_matches": compound_matches}
