"""
What code of a site's may change of its process, put back before the next call.
"""

from __future__ import annotations

import os
import sys


class AsBefore:
    """
    Environment, import paths and directory as they are now.

    @ivar pid: the process; one that was forked from it is another.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._environ = dict(os.environ)
        self._paths = list(sys.path)
        self._folder = _folder()

    def put_back(self) -> None:
        """Undo what was changed. A process that was forked meanwhile ends here."""
        if os.getpid() != self.pid:
            os._exit(0)
        if os.environ != self._environ:
            os.environ.clear()
            os.environ.update(self._environ)
        if sys.path != self._paths:
            sys.path[:] = self._paths
        if self._folder and _folder() != self._folder:
            os.chdir(self._folder)


def _folder() -> str:
    """The working directory; C{""} when it is gone."""
    try:
        return os.getcwd()
    except OSError:
        return ""
