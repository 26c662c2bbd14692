"""
Finds commands in the texts of a program: strings in which something is recommended to a shell.

F-strings count with C{{}} for what is put in. Docstrings are not printed, and do not count.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from saltwisted.cli.main import COMMANDS

OURS = "|".join(sorted(name for name in COMMANDS if not name.startswith("salt")))
ARGUMENT = r"(?=[-\w./{'\"~$])"
COMMAND = re.compile(
    rf"(?<![\w/.%-])(?:"
    # Programs of the system, with something after them
    rf"(?:systemctl|journalctl|apt-get|dpkg|chown|chgrp|chmod|setfacl|rm|mv|kill|adduser"
    rf"|smartctl|openssl|du|df|nft|head|ssh-keygen|ssh-keyscan) +{ARGUMENT}"
    rf"|timedatectl\b"
    # Ours and Salt's
    rf"|saltwisted +(?:{OURS}|salt[-a-z]*)(?![-\w:])"
    rf"|saltwisted +--\w+(?! \w+\|)"
    rf"|salt-(?:key|run|call|cp) +(?:-|\w+\.\w|{{}})"
    rf"|salt +'"
    rf"|twistd3? +-"
    rf")"
)


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each string that may be printed."""
    tree = ast.parse(source)
    silent: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else ():
            if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant):
                silent.add(id(each.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
            ]
            silent.update(id(part) for part in node.values)
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in silent:
                yield node.lineno, node.value


def commands(source: str) -> Iterator[tuple[int, str]]:
    """Line and command of each text that names one."""
    for line, text in texts(source):
        for found in COMMAND.finditer(text):
            yield line, text[found.start() : found.start() + 60].splitlines()[0]
