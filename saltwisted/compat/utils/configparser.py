"""
C{salt.utils.configparser}: Python's own module, and a parser for the files of C{git config}.

In these a key may be there more than once; its values are then a list (a multivar). There are no
continuation lines, and options begin with a tab, or with the eight blanks of some editors.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterable
from configparser import *  # noqa: F403 - as stock offers it
from typing import Any

__all__ = [*configparser.__all__, "GitConfigParser"]


class GitConfigParser(configparser.RawConfigParser):
    """A file of C{git config}."""

    DEFAULTSECT = "DEFAULT"
    SPACEINDENT = " " * 8

    def __init__(
        self, defaults: Any = None, dict_type: Any = dict, allow_no_value: bool = True
    ) -> None:
        super().__init__(defaults, dict_type, allow_no_value)

    def _read(self, fp: Iterable[str], fpname: str) -> None:
        """
        Take a file's sections and options.

        @raises MissingSectionHeaderError: an option before the first section.
        @raises ParsingError: names the lines that are neither; all others were taken.
        """
        section: dict[str, Any] | None = None
        wrong: configparser.ParsingError | None = None
        for number, line in enumerate(fp, 1):
            if not line.strip() or line[0] in "#;":
                continue
            header = self.SECTCRE.match(line)
            option = self._optcre.match(line.strip())  # type: ignore[attr-defined]
            if header is not None:
                section = self._found(header["header"], make=True)
            elif section is None:
                raise configparser.MissingSectionHeaderError(fpname, number, line)
            elif option is None:
                wrong = wrong or configparser.ParsingError(fpname)
                wrong.append(number, repr(line))
            else:
                value = re.sub(r"\s;.*", "", option["value"] or "").strip()
                blank = value in ('""', "''")
                key = self.optionxform(option["option"].rstrip())
                self._add_option(section, key, "" if blank else value)
        if wrong is not None:
            raise wrong

    def _found(self, name: str, make: bool = False) -> dict[str, Any]:
        """
        A section's options.

        @raises NoSectionError: there is no such section, and none is made.
        """
        sections: dict[str, dict[str, Any]] = self._sections  # type: ignore[attr-defined]
        if not name or name == self.DEFAULTSECT:
            return self.defaults()  # type: ignore[return-value]
        if name not in sections:
            if not make:
                raise configparser.NoSectionError(name)
            sections[name] = {}
        return sections[name]

    @staticmethod
    def _add_option(options: dict[str, Any], key: str, value: Any) -> None:
        """A list takes the place of what there is; text is added to it."""
        known = options.get(key)
        if isinstance(value, list) or known is None:
            options[key] = value
        elif isinstance(known, list):
            known.append(value)
        else:
            options[key] = [known, value]

    @staticmethod
    def _check(value: Any, allow_list: bool = False) -> None:
        if isinstance(value, list) and not allow_list:
            raise TypeError("option value cannot be a list unless allow_list is True")
        if not all(isinstance(x, str) for x in (value if isinstance(value, list) else [value])):
            raise TypeError("option values must be strings")

    def get(self, section: str, option: str, as_list: bool = False) -> Any:  # type: ignore[override]
        """A value; that of a multivar, or with C{as_list} any, is a list."""
        value = super().get(section, option)
        return [value] if as_list and not isinstance(value, list) else value

    def set(self, section: str, option: str, value: Any = "") -> None:
        """Give an option one value."""
        self._check(value)
        super().set(section, option, value)

    def set_multivar(self, section: str, option: str, value: Any = "") -> None:
        """
        Add a value to an option; a list takes the place of all that it has.

        @raises NoSectionError: there is no such section.
        """
        self._check(value, allow_list=True)
        self._add_option(self._found(section), self.optionxform(option), value)

    def remove_option_regexp(self, section: str, option: str, expr: str) -> bool:
        """
        Remove the values of an option in which a pattern is found.

        @return: whether there was one.
        @raises NoSectionError: there is no such section.
        """
        options, key = self._found(section), self.optionxform(option)
        if key not in options:
            return False
        several = isinstance(options[key], list)
        values = options[key] if several else [options[key]]
        kept = [each for each in values if not re.search(expr, each)]
        if len(kept) == len(values):
            return False
        del options[key]
        if several:
            options[key] = kept[0] if len(kept) == 1 else kept
        return True

    def write(self, fp_: Any) -> None:  # type: ignore[override]
        """Write it as git does: each value of a multivar is a line."""
        sections: dict[str, dict[str, Any]] = self._sections  # type: ignore[attr-defined]
        lines = [f"[{self.DEFAULTSECT}]"] if self.defaults() else []
        for key, text in self.defaults().items():
            value = str(text).replace("\n", "\n\t")
            lines.append(f"{key} = {value}")
        for name, options in sections.items():
            lines.append(f"[{name}]")
            for key, value in options.items():
                for each in value if isinstance(value, list) else [value]:
                    lines.append("\t" + f"{key} = {each or ''}".rstrip())
        whole = "".join(f"{line}\n" for line in lines)
        fp_.write(whole.encode() if "b" in str(getattr(fp_, "mode", "")) else whole)
