"""Job ids, with the names of C{salt.utils.jid}."""

from __future__ import annotations

import os
import time
from typing import Any

from saltwisted.domain import jid as _jid
from saltwisted.utils._own import own

is_jid = own(__name__, _jid.is_jid)
jid_to_time = own(__name__, _jid.jid_to_time)


def gen_jid(opts: Any = None) -> str:
    """A new job id, of the time that it is; with C{unique_jid}, of this process too."""
    return _jid.jid_at(time.time(), str(os.getpid()) if opts and opts.get("unique_jid") else "")
