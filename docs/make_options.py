"""
Writes C{docs/options.md} from the schema itself: python docs/make_options.py > docs/options.md

What an option means is the comment above it in C{saltwisted/config/options.py}; whether Salt has
it is looked up in what was recorded from Salt 3008.2; whether anything here looks at it is
looked up in the sources. A test keeps the page true.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from saltwisted.config.load import OTHER_NAMES, own_paths  # noqa: E402
from saltwisted.config.options import (  # noqa: E402
    LOGIN_OPTIONS,
    SECRETS,
    CommonOptions,
    MasterConfig,
    MinionConfig,
)
from saltwisted.domain.takeover import MINION_UNSUPPORTED, UNSUPPORTED  # noqa: E402

SOURCE = (ROOT / "saltwisted/config/options.py").read_text()
RECORDED = json.loads((ROOT / "tests/config/config_cases.json").read_text())["defaults"]
OURS_ALONE = {
    "saltwisted_heartbeat": (
        "minion",
        "float",
        "Seconds between two heartbeats to a master; without it 10, and 60 under a stock master.",
    ),
    "saltwisted_unsigned_publications": (
        "minion",
        "bool",
        "Whether publications without a signature are believed: for masters with "
        "`sign_pub_messages: false`.",
    ),
}
HEAD = """# Every option

Written by `docs/make_options.py` from the schema; do not edit. {count} options, in the files
`master` and `minion` of the configuration directory and their `*.d/*.conf`.

- **role**: which daemon reads it. If master and minion have different defaults, both are shown.
- **Salt**: whether Salt 3008.2 has it.
- **used**: *no* means that saltwisted accepts the option, so that the files of a stock installation
  work, and does not use it. Templates still see it in `opts`. *named* means the same, but if a
  value asks for something that saltwisted does not have, a warning at the start names it.
- Options of the type *secret* are never shown ([security](security.md)).
- Paths are Salt's; with `/etc/saltwisted` they are those of the second table.

saltwisted keeps an unknown option as data of your own, with a warning that names the nearest
option. If a value has the wrong type, the daemon does not start, and names file and line. What a
reload (SIGHUP) changes and what needs a restart is in
[operations](operations.md#changing-the-configuration).

| option | role | type | default | Salt | used | meaning |
|---|---|---|---|---|---|---|
"""


def meanings() -> dict[str, dict[str, str]]:
    """By class, what stands above each option."""
    found: dict[str, dict[str, str]] = {}
    words: list[str] = []
    current = ""
    for line in SOURCE.splitlines():
        if match := re.match(r"class (\w+)", line):
            current = match[1]
            found[current] = {}
        elif line.startswith("    #: "):
            words.append(line[7:])
        elif match := re.match(r"    (\w+): ", line):
            found[current][match[1]] = " ".join(words)
            words = []
        elif line.strip():
            words = []
    return found


def used(name: str) -> str:
    """
    Whether anything looks at it, as the schema has it.

    A handed-on option has no attribute that could be read (L{HandedOn}), and a test finds a reader
    of each of the others.
    """
    if any(
        name in cls.fields and name not in cls.handed_on for cls in (MasterConfig, MinionConfig)
    ):
        return "yes"
    named = {*UNSUPPORTED, *MINION_UNSUPPORTED, "eauth_tokens.cache_driver"}
    return "named" if name in named else "no"


def shown(value: Any) -> str:
    """A default as one would write it."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > 60:
        text = text[:57] + "..."
    return f"`{text}`".replace("|", "\\|")


def row(name: str, about: dict[str, dict[str, str]]) -> str:
    """One line of the table."""
    roles = [
        (cls.role, cls)
        for cls in (MasterConfig, MinionConfig)
        if name in cls.fields or name in cls.dotted
    ]
    defaults = {
        role: cls.defaults[name] if name in cls.fields else cls.dotted[name] for role, cls in roles
    }
    types = {role: cls.fields.get(name, "Any") for role, cls in roles}
    kind = types[roles[0][0]].replace("[Any]", "").replace("[str, Any]", "").replace("|", "or")
    kind = f"secret {kind}" if name in SECRETS else kind
    if len(set(map(repr, defaults.values()))) == 1:
        default = shown(next(iter(defaults.values())))
    else:
        default = ", ".join(f"{role}: {shown(value)}" for role, value in defaults.items())
    meaning = next(
        (about[cls][name] for cls in ("CommonOptions", "MasterConfig", "MinionConfig")
         if about.get(cls, {}).get(name)),
        "",
    )  # fmt: skip
    salt = any(name in RECORDED[role] for role, _ in roles) or name in OTHER_NAMES
    set_later = {
        *MasterConfig.when_set,
        *MinionConfig.when_set,
        "beacons",
        "syndic_dir",
        "token_dir",
    }
    return (
        f"| `{name}` | {' and '.join(role for role, _ in roles)} | {kind} | {default} | "
        f"{'yes' if salt or name in set_later else 'no'} | {used(name)} | "
        f"{meaning} |"
    )


def page() -> str:
    """The whole page."""
    about = meanings()
    names = {*MasterConfig.fields, *MinionConfig.fields, *MasterConfig.dotted, *MinionConfig.dotted}
    names -= {"extra", "config_dir", "conf_file"}
    rows = {name: row(name, about) for name in names}
    for name, (role, kind, meaning) in OURS_ALONE.items():
        rows[name] = f"| `{name}` | {role} | {kind} | | no | yes | {meaning} |"
    for name, (default, meaning) in LOGIN_OPTIONS.items():
        salt = "no" if name == "auth.ldap.ca_file" else "yes"
        kind = f"{'secret ' if name in SECRETS else ''}{type(default).__name__}"
        rows[name] = f"| `{name}` | master | {kind} | {shown(default)} | {salt} | yes | {meaning} |"
    lines = [HEAD.format(count=len(rows)) + "\n".join(rows[name] for name in sorted(rows))]
    lines += [
        "",
        "## Paths with `/etc/saltwisted`",
        "",
        "| option | master | minion |",
        "|---|---|---|",
    ]
    master, minion = own_paths("master"), own_paths("minion")
    for name in sorted(master):
        lines.append(f"| `{name}` | `{master[name]}` | `{minion.get(name, '')}` |")
    lines += [
        "",
        "## Known, and only handed on",
        "",
        "Options of Salt without a default; nothing here looks at them, unless a module does:",
        "",
        ", ".join(f"`{name}`" for name in sorted(OTHER_NAMES)) + ".",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    assert CommonOptions.role == ""
    sys.stdout.write(page())
