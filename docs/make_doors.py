"""
Writes the table of doors into C{docs/security.md} from its rows:
python docs/make_doors.py > docs/security.new && mv docs/security.new docs/security.md

What stands between the two marks is made from L{saltwisted.doors}; all else of the page stays as
it is. A test keeps the page true.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from saltwisted.doors import DOORS, KIB, MIB, Door  # noqa: E402

PAGE = ROOT / "docs" / "security.md"
BEGIN = "<!-- docs/make_doors.py writes what follows, up to the next mark -->\n"
END = "<!-- docs/make_doors.py has written this -->\n"
COLUMNS = (
    *(
        "door",
        "who",
        "a request",
        "CPU: each KiB; a small request; a turn",
        "memory: one; all; strangers",
    ),
    *("holds", "beyond"),
)
HEAD = f"\n| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|\n"


def size(count: int) -> str:
    """Bytes, as a person reads them."""
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if count >= unit and not count % unit:
            return f"{count // unit} {name}"
    return f"{count} bytes" if count else "–"


def time(microseconds: float) -> str:
    """Microseconds, as a person reads them."""
    if microseconds >= 1000:
        return f"{microseconds / 1000:g} ms"
    return f"{microseconds:g} µs"


def line(door: Door) -> str:
    """One row of the table."""
    return (
        f"| **{door.name}**: {door.title} | {door.who} | {size(door.request)} "
        f"| {time(door.per_kib)}; {time(door.per_request)}; {door.turn:g} ms "
        f"| {size(door.memory)}; {size(door.memory_all)}; {size(door.strangers)} "
        f"| {f'{door.holds:g} s' if door.holds else '–'} | {door.beyond} |\n"
    )


def page() -> str:
    """The whole page, with the table as the rows say."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    table = HEAD + "".join(line(door) for door in DOORS.values())
    return f"{before}{BEGIN}{table}\n{END}{after}"


if __name__ == "__main__":
    sys.stdout.write(page())
