"""
The package sources of apt: C{sources.list}, C{sources.list.d/*.list} and C{*.sources}.

Two kinds of entries with the same attributes: one-line entries of C{sources.list(5)}, and
deb822 stanzas. Reading and saving keeps comments and lines that are not entries. No decision
about repositories is taken here; that is in C{aptpkg}.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from saltwisted.worker.exceptions import SaltInvocationError

log = logging.getLogger(__name__)

MAIN_FILE = "/etc/apt/sources.list"
PARTS_DIR = "/etc/apt/sources.list.d/"

_EMPTY = """## See sources.list(5) for more information, especialy
# Remember that you can only use http, ftp or file URIs
# CDROMs are managed through the apt-cdrom tool.
"""
"""What apt's own tools leave in a C{sources.list} without entries."""

_KINDS = ("deb", "deb-src", "rpm", "rpm-src")


def to_bool(value: Any) -> bool:
    """
    A switch as apt spells it.

    @raises ValueError: no such word.
    """
    if isinstance(value, bool):
        return value
    word = str(value).lower()
    if word in ("yes", "true", "with", "on", "enable", "1"):
        return True
    if word in ("no", "false", "without", "off", "disable", "0"):
        return False
    raise ValueError(f"Unable to convert to boolean: {word}")


class Line:
    """
    One line of a C{.list} file: an entry, a disabled entry, or anything else (C{invalid}).

    @raises SaltInvocationError: it has options but no address or suite.
    """

    def __init__(self, line: str, file: str | None = None) -> None:
        self.line = line
        self.file = MAIN_FILE if file is None else file
        self.type = self.uri = self.dist = ""
        self.architectures: list[str] = []
        self.comps: list[str] = []
        self._signedby = ""
        self._trusted: bool | None = None
        self.disabled, self.invalid, self.comment, words = split_line(line)
        if not self.invalid:
            self._parse(words)

    def _parse(self, words: list[str]) -> None:
        if words[1].startswith("["):
            options = _options(self.line)
            self.architectures = list(options.get("arch", ("", []))[1])
            if "signed-by" in options:
                self._signedby = options["signed-by"][1]
            if "trusted" in options:
                self.trusted = options["trusted"][1]
            words = _without_options(words, [full for full, _value in options.values()])
        if len(words) < 3:
            raise SaltInvocationError(f"Invalid repository definition: {' '.join(words)}")
        self.type, self.uri, self.dist = words[:3]
        self.comps = words[3:]

    @property
    def types(self) -> list[str]:
        """Always one."""
        return [self.type]

    @property
    def uris(self) -> list[str]:
        """Always one."""
        return [self.uri]

    @property
    def suites(self) -> list[str]:
        """One or none."""
        return [self.dist] if self.dist else []

    @suites.setter
    def suites(self, value: list[str]) -> None:
        if len(value) > 1:
            raise ValueError("Only one suite is possible for non deb822 source entry")
        self.dist = str(value[0]) if value else ""

    @property
    def signedby(self) -> str:
        """Path of the key."""
        return self._signedby

    @signedby.setter
    def signedby(self, value: Any) -> None:
        self._signedby = str(value)

    @property
    def trusted(self) -> bool | None:
        """Whether signatures are not asked for; C{None} if that is not said."""
        return self._trusted

    @trusted.setter
    def trusted(self, value: Any) -> None:
        if isinstance(value, (bool, str)):
            self._trusted = to_bool(value)
        else:
            self._trusted = value == 1 if value in (0, 1) else None

    def repo_line(self) -> str:
        """The line as it is to be saved; options that are not known here stay."""
        if self.invalid:
            return self.line
        shown = {name: full for name, (full, _value) in _options(self.line).items()}
        if self.architectures:
            shown["arch"] = f"arch={','.join(self.architectures)}"
        if self.signedby:
            shown["signed-by"] = f"signed-by={self.signedby}"
        if self._trusted:
            shown["trusted"] = "trusted=yes"
        elif shown.get("trusted") == "trusted=no":
            del shown["trusted"]
        words = ["#"] if self.disabled else []
        words.append(self.type)
        if shown:
            words.append(f"[{' '.join(shown.values())}]")
        words += [self.uri, self.dist, " ".join(self.comps)]
        if self.comment:
            words.append(f"#{self.comment}")
        return " ".join(words) + "\n"

    def __str__(self) -> str:
        return self.repo_line().strip()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Line):
            return NotImplemented
        return (
            self.disabled == other.disabled
            and self.type == other.type
            and self.uri.rstrip("/") == other.uri.rstrip("/")
            and self.dist == other.dist
            and self.comps == other.comps
        )

    __hash__ = None  # type: ignore[assignment]


def split_line(line: str) -> tuple[bool, bool, str, list[str]]:
    """C{(disabled, invalid, comment, words)} of one line."""
    text = line.strip()
    if not text:
        return False, True, "", []
    disabled = text.startswith("#")
    if disabled:
        text = text[1:]
    comment = ""
    at = text.find("#")
    if at > 0:
        text, comment = text[:at], text[at + 1 :]
    disc = re.match(r"(.*)(cdrom:.*/)(.*)", text.strip())
    if disc:
        # The label of a disc may have blanks.
        words = [*disc.group(1).split(), disc.group(2).strip(), *disc.group(3).split()]
    else:
        words = text.split()
    invalid = (
        len(words) < 3
        or words[0] not in _KINDS
        or (words[1].startswith("[") and not any(word.endswith("]") for word in words[1:]))
    )
    return disabled, invalid, comment, words


def _options(line: str) -> dict[str, tuple[str, Any]]:
    """Name to C{(as written, value)} of what stands between brackets."""
    match = re.search(r"\[(.*?=.*?)\]", line)
    found: dict[str, tuple[str, Any]] = {}
    if match is None:
        return found
    for word in match.group(0).strip("[]").split():
        name, _equals, value = word.partition("=")
        if word.startswith("arch"):
            found["arch"] = (word, value.split(","))
        elif word.startswith("signed-by"):
            found["signed-by"] = (word, value)
        else:
            found[name] = (word, value)
    return found


def _without_options(words: list[str], options: Iterable[str]) -> list[str]:
    """The words of an entry without brackets and what stands in them with an C{=}."""
    left = [word.strip("[]") for word in words if word.strip("[]")]
    for option in options:
        if option in left:
            left.remove(option)
    return left


class _Text:
    """A field of a paragraph as it stands, as an attribute."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, stanza: Stanza, cls: Any) -> str | None:
        return stanza.tags.get(stanza.key(self.name))

    def __set__(self, stanza: Stanza, value: str) -> None:
        stanza.tags[stanza.key(self.name)] = value


class _Words:
    """A field of a paragraph as a list of words, as an attribute; text is taken as it is."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, stanza: Stanza, cls: Any) -> list[str]:
        return (stanza.tags.get(stanza.key(self.name)) or "").split()

    def __set__(self, stanza: Stanza, value: Any) -> None:
        text = value if isinstance(value, str) else " ".join(value)
        stanza.tags[stanza.key(self.name)] = text


class Stanza:
    """
    One paragraph of a C{.sources} file, with the comments around it.

    @ivar types: C{deb}, C{deb-src}; C{type} is these as they stand.
    @ivar uris: the addresses; C{uri} is these as they stand.
    @ivar suites: the suites; C{dist} is these as they stand.
    @ivar architectures: none means all that apt is configured for.
    """

    types = _Words("Types")
    type = _Text("Types")
    uris = _Words("URIs")
    uri = _Text("URIs")
    suites = _Words("Suites")
    dist = _Text("Suites")
    comps = _Words("Components")
    architectures = _Words("Architectures")

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.header: list[str] = []
        self.footer: list[str] = []
        self.tags: dict[str, str] = {}
        self._parse(text)
        self.line = self._text()

    def _parse(self, text: str) -> None:
        name = ""
        for line in text.splitlines():
            if line.startswith("#"):
                (self.footer if self.tags else self.header).append(line)
                continue
            match = re.match(r"\A(\S+):\s*(\S.*|)", line)
            if match:
                name = match.group(1)
                self.tags[name] = match.group(2)
            elif name and line:
                self.tags[name] += f"\n{line}"
        self.tags = {key: value.strip() for key, value in self.tags.items()}

    def key(self, name: str) -> str:
        """A field as it is spelt here."""
        return next((key for key in self.tags if key.lower() == name.lower()), name)

    def _get(self, name: str) -> str | None:
        return self.tags.get(self.key(name))

    def _set(self, name: str, value: Any) -> None:
        self.tags[self.key(name)] = value

    def _drop(self, name: str) -> None:
        self.tags.pop(self.key(name), None)

    @property
    def signedby(self) -> str | None:
        """Path of the key, or the key itself."""
        return self._get("Signed-By")

    @signedby.setter
    def signedby(self, value: Any) -> None:
        if value is None:
            self._drop("Signed-By")
        else:
            self._set("Signed-By", str(value))

    @property
    def trusted(self) -> bool | None:
        """Whether signatures are not asked for; C{None} if that is not said."""
        value = self._get("Trusted")
        return None if value is None else to_bool(value)

    @trusted.setter
    def trusted(self, value: Any) -> None:
        if isinstance(value, (bool, str)) or value in (0, 1):
            self._set("Trusted", "yes" if to_bool(str(value)) else "no")
        else:
            self._drop("Trusted")

    @property
    def disabled(self) -> bool:
        """Whether C{Enabled} is no."""
        return not to_bool(self._get("Enabled") or "yes")

    @disabled.setter
    def disabled(self, value: Any) -> None:
        if value:
            self._set("Enabled", "no")
        else:
            self._drop("Enabled")

    @property
    def comment(self) -> str:
        """The lines above, with their C{#}."""
        return "\n".join(self.header)

    @comment.setter
    def comment(self, value: str) -> None:
        lines = value.splitlines()
        whole = all(line.startswith("#") for line in lines)
        self.header = lines if whole else [f"#{line}" for line in lines]

    @property
    def invalid(self) -> bool:
        """A paragraph of comments only."""
        return not self.tags

    def _text(self) -> str:
        head = "".join(f"{line}\n" for line in self.header)
        body = "".join(f"{key}: {value}\n" for key, value in self.tags.items() if value != "")
        foot = "\n".join(self.footer)
        return head + body + (foot + "\n" if foot else "")

    def __str__(self) -> str:
        return self._text().strip()


Source = Line | Stanza


class Sources:
    """All entries of the machine, in the order of the files."""

    def __init__(self) -> None:
        self.list: list[Source] = []
        if os.path.isfile(MAIN_FILE):
            self.load(MAIN_FILE)
        if os.path.isdir(PARTS_DIR):
            for name in sorted(os.listdir(PARTS_DIR)):
                path = os.path.join(PARTS_DIR, name)
                if name.endswith((".sources", ".list")) and os.path.isfile(path):
                    self.load(path)

    def __iter__(self) -> Iterator[Source]:
        return iter(self.list)

    def load(self, path: str) -> None:
        """Add what a file holds; one that cannot be read is logged and left out."""
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            if path.endswith(".sources"):
                paragraphs = re.split(r"\n(?:[ \t]*\n)+", text)
                self.list += [Stanza(part, path) for part in paragraphs if part.strip()]
            else:
                self.list += [Line(line, path) for line in text.splitlines(keepends=True)]
        except (OSError, ValueError, SaltInvocationError):
            log.error("Could not parse source file '%s'", path, exc_info=True)

    def remove(self, entry: Source) -> None:
        """Take this very entry out; nothing if it is out already."""
        self.list = [item for item in self.list if item is not entry]

    def save(self) -> None:
        """
        Write the files of all entries.

        A file that lost its last entry is left alone, as in Salt: the caller decides about it.
        """
        if not self.list:
            if os.path.isdir(os.path.dirname(MAIN_FILE)):
                with open(MAIN_FILE, "w", encoding="utf-8") as file:
                    file.write(_EMPTY)
            return
        texts: dict[str, str] = {}
        for entry in self.list:
            if entry.file in texts and isinstance(entry, Stanza):
                texts[entry.file] += "\n"
            texts[entry.file] = texts.get(entry.file, "") + f"{entry}\n"
        for path, text in texts.items():
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)


def combine_comments(comments: Any) -> str:
    """A comment, or a list of them, as one line."""
    items = comments if isinstance(comments, list) else [comments]
    return " ".join(str(item) for item in items).strip()
