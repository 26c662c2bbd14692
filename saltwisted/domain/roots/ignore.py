"""
What is never replicated: editors' droppings, version control's own files, and C{.rootsignore}.

Ignored means neither sent, deleted nor overwritten. Patterns are gitignore's, without character
classes of its own: C{*}, C{?}, C{**}, C{[abc]}, a slash in front or inside anchors, a slash at
the end means directories, C{!} takes back.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from saltwisted.domain.roots.entry import ancestors
from saltwisted.domain.roots.guards import MARKER, TEMPORARY, TRASH

RULES_FILE = b".rootsignore"
MOST_RULES = 1000

DEFAULT = (
    b".git .hg .svn __pycache__ *.pyc *.pyo *.sw[a-x] *~ .#* #*# 4913 .nfs* lost+found .~sw*"
).split()

Ignored = Callable[[bytes, bool], bool]
"""C{ignored(path, is_dir)}; a path below an ignored directory is never asked."""


def _translate(pattern: bytes) -> bytes:
    out = b""
    position = 0
    while position < len(pattern):
        char = pattern[position : position + 1]
        if pattern.startswith(b"**/", position):
            out += b"(?:.*/)?"
            position += 3
            continue
        if pattern.startswith(b"**", position):
            out += b".*"
            position += 2
            continue
        if char == b"*":
            out += b"[^/]*"
        elif char == b"?":
            out += b"[^/]"
        elif char == b"[" and (end := pattern.find(b"]", position + 2)) > 0:
            inside = pattern[position + 1 : end].replace(b"\\", b"\\\\")
            if inside[:1] in (b"!", b"^"):
                inside = b"^" + inside[1:]
            out += b"[" + inside + b"]"
            position = end
        else:
            out += re.escape(char)
        position += 1
    return out


def _rule(line: bytes) -> tuple[re.Pattern[bytes], bool, bool] | None:
    line = line.rstrip(b"\r\n").rstrip(b" ")
    if not line or line.startswith(b"#"):
        return None
    negative = line.startswith(b"!")
    if negative:
        line = line[1:]
    only_dirs = line.endswith(b"/")
    line = line.rstrip(b"/")
    if not line:
        return None
    anchored = b"/" in line
    text = _translate(line.lstrip(b"/"))
    if not anchored:
        text = b"(?:.*/)?" + text
    try:
        return re.compile(text + rb"\Z", re.DOTALL), negative, only_dirs
    except re.error:
        return None


def ignorer(rules: bytes = b"", extra: tuple[bytes, ...] = ()) -> Ignored:
    """
    The test for one root.

    @param rules: the content of its C{.rootsignore}; at most a thousand lines count.
    @param extra: patterns from the configuration.
    """
    # Of names, which hold no slash
    common = re.compile(b"|".join(_translate(p) + rb"\Z" for p in DEFAULT), re.DOTALL)
    lines = [*extra, *rules.split(b"\n")[:MOST_RULES]]
    # A line that starts with two hashes is not a comment in the defaults, but is one here
    own = [rule for rule in map(_rule, lines) if rule is not None]

    def ignored(path: bytes, is_dir: bool) -> bool:
        name = path.rpartition(b"/")[2]
        if name in (MARKER, TRASH) or name.startswith(TEMPORARY):
            return True
        result = common.match(name) is not None
        for pattern, negative, only_dirs in own:
            if result is negative and (is_dir or not only_dirs) and pattern.match(path):
                result = not negative
        return result

    return ignored


_BY_DEFAULT = ignorer()


def what_excludes(path: bytes, ignored: Ignored) -> tuple[bytes, bool] | None:
    """
    What keeps a path from taking part: the outermost name in it that is ignored, and whether that
    is so everywhere; C{None} if nothing does.

    @param ignored: the test for its root.
    """
    for one in (*reversed(list(ancestors(path))), path):
        if _BY_DEFAULT(one, True):
            return one, True
        if ignored(one, True) or (one == path and ignored(one, False)):
            return one, False
    return None
