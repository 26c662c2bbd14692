"""
Filters on texts, numbers and digests, with Salt's names and results.
"""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import hmac
import posixpath
import re
import shlex
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from saltwisted.domain.hardware import mac_str_to_bytes
from saltwisted.domain.render.errors import FilterError
from saltwisted.domain.render.yamldump import double_quoted, scalar, single_quoted

UUID_SPACE = bytes.fromhex("91633EBF1C865E33935A28061F4B480E")
"""The name space under which the C{uuid} filter makes version 5 identifiers."""


def to_bytes(value: Any, encoding: Any = None, errors: str = "strict") -> bytes:
    """
    Text as bytes, UTF-8 unless told otherwise.

    @param encoding: a name, or several to try in turn.
    @raises TypeError: neither text nor bytes.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray):
        return bytes(value)
    if not isinstance(value, str):
        raise TypeError(f"expected str, bytes, or bytearray not {type(value)}")
    names = ("utf-8",) if encoding is None else encoding
    if not isinstance(names, (tuple, list)):
        names = (names,)
    if not names:
        raise ValueError("encoding cannot be empty")
    for name in names[:-1]:
        try:
            return value.encode(name, errors)
        except UnicodeEncodeError:
            continue
    return value.encode(names[-1], errors)


def to_text(value: Any) -> str:
    """Bytes as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode()
    raise TypeError(f"expected str, bytes, or bytearray not {type(value)}")


def to_num(text: Any) -> Any:
    """An integer or a float if the text is one, else the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def is_hex(value: Any) -> bool:
    """Whether a text is a hexadecimal number."""
    try:
        int(value, 16)
    except (TypeError, ValueError):
        return False
    return True


def contains_whitespace(text: Any) -> bool:
    """Whether any character is white space."""
    return any(char.isspace() for char in text)


_SIZE = re.compile(r"(?P<value>[0-9.]*)\s*(?P<unit>.*)$")


def human_to_bytes(size: Any, default_unit: str = "B", handle_metric: bool = False) -> int:
    """
    C{2G}, C{30MB}, C{64KiB} in bytes; 0 for what is not a size.

    @param handle_metric: C{kB}, C{MB} ... are powers of ten.
    @raises AttributeError: several lines; in words of stock's.
    """
    match = _SIZE.match(str(size).strip())
    if match is None:
        raise AttributeError("'NoneType' object has no attribute 'group'")
    unit = (match["unit"] or default_unit).lower()
    number: int | float
    try:
        number = int(match["value"])
    except ValueError:
        try:
            number = float(match["value"])
        except ValueError:
            return 0
    metric = re.match(r"[kmgtpezy]b$", unit) is not None
    if not metric and not re.match(r"(b|[kmgtpezy](ib)?)$", unit):
        return 0
    power = "bkmgtpezy".index(unit[0])
    return int(number * (10 ** (power * 3) if metric and handle_metric else 2 ** (power * 10)))


def _listed(given: Any, what: str) -> Any:
    if not given:
        return []
    if isinstance(given, str):
        return [given]
    if not hasattr(given, "__iter__"):
        raise TypeError(f"Expecting iterable {what}, but got {type(given).__name__} ({given})")
    return given


def expression_matches(value: Any, expression: Any) -> bool:
    """A glob, or failing that a regular expression over the whole value."""
    try:
        if fnmatch.fnmatch(value, expression):
            return True
        try:
            return re.match(rf"\A{expression}\Z", value) is not None
        except re.error:
            return False
    except TypeError:
        return False


def check_whitelist_blacklist(value: Any, whitelist: Any = None, blacklist: Any = None) -> bool:
    """Whether a value is allowed; the blacklist wins, an empty list says nothing."""
    refused = _listed(blacklist, "blacklist")
    allowed = _listed(whitelist, "whitelist")
    if refused and any(expression_matches(value, one) for one in refused):
        return False
    return not allowed or any(expression_matches(value, one) for one in allowed)


def to_snake_case(camel_input: str) -> str:
    """C{camelCase} as C{camel_case}; runs of capitals stay together."""
    out = [camel_input[0].lower()]
    last = len(camel_input) - 1
    for at in range(1, len(camel_input)):
        char = camel_input[at]
        if char.isupper() and (
            camel_input[at - 1].islower() or (at != last and camel_input[at + 1].islower())
        ):
            out.append("_")
        out.append(char.lower())
    return "".join(out)


def to_camelcase(snake_input: str, uppercamel: bool = False) -> str:
    """C{snake_case} as C{snakeCase}, or C{SnakeCase}."""
    first, *rest = snake_input.split("_")
    if uppercamel:
        first = first.capitalize()
    return first + "".join(word.capitalize() for word in rest)


def base64_encode(instr: Any) -> str:
    """Base64 without line breaks."""
    return base64.b64encode(to_bytes(instr)).decode()


def base64_decode(instr: Any) -> Any:
    """The decoded text, or bytes if they are not UTF-8."""
    raw = base64.b64decode(to_bytes(instr))
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _digest(name: str) -> Callable[[Any], str]:
    def digest(instr: Any) -> str:
        return hashlib.new(name, to_bytes(instr), usedforsecurity=False).hexdigest()

    digest.__doc__ = f"The hexadecimal {name} of a text."
    return digest


def hmac_verify(string: Any, shared_secret: Any, challenge_hmac: Any) -> bool:
    """Whether a base64 HMAC-SHA-256 is that of the text."""
    made = hmac.new(to_bytes(shared_secret), to_bytes(string), hashlib.sha256).digest()
    return hmac.compare_digest(base64.b64encode(made), to_bytes(challenge_hmac))


def hmac_compute(string: Any, shared_secret: Any) -> str:
    """The hexadecimal HMAC-SHA-256."""
    return hmac.new(to_bytes(shared_secret), to_bytes(string), hashlib.sha256).hexdigest()


def uuid(val: Any) -> str:
    """The version 5 identifier (RFC 9562) of a text in Salt's name space."""
    raw = bytearray(
        hashlib.sha1(UUID_SPACE + to_text(val).encode(), usedforsecurity=False).digest()[:16]
    )
    raw[6] = raw[6] & 0x0F | 0x50
    raw[8] = raw[8] & 0x3F | 0x80
    h = raw.hex()
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


def quote(txt: Any) -> str:
    """A text as one word of a shell command."""
    return shlex.quote(txt)


def to_bool(val: Any) -> bool:
    """C{yes}, C{true} and C{1}; positive integers; containers with something in them."""
    if val is None or isinstance(val, bool):
        return bool(val)
    if isinstance(val, str):
        return val.lower() in ("yes", "1", "true")
    if isinstance(val, int):
        return val > 0
    if not isinstance(val, Hashable):
        return len(val) > 0
    return False


def _flags(ignorecase: bool, multiline: bool) -> int:
    return (re.I if ignorecase else 0) | (re.M if multiline else 0)


def _groups(match: re.Match[str] | None) -> tuple[Any, ...] | None:
    if match is None:
        return None
    return match.groups() or (match.group(),)


def regex_search(
    txt: str, rgx: str, ignorecase: bool = False, multiline: bool = False
) -> tuple[Any, ...] | None:
    """The groups of the first match anywhere (without groups the match), or C{None}."""
    return _groups(re.search(rgx, txt, _flags(ignorecase, multiline)))


def regex_match(
    txt: str, rgx: str, ignorecase: bool = False, multiline: bool = False
) -> tuple[Any, ...] | None:
    """As C{regex_search}, at the beginning of the text only."""
    return _groups(re.match(rgx, txt, _flags(ignorecase, multiline)))


def regex_replace(
    txt: str, rgx: str, val: str, ignorecase: bool = False, multiline: bool = False
) -> str:
    """Every match replaced."""
    return re.compile(rgx, _flags(ignorecase, multiline)).sub(val, txt)


def regex_escape(value: Any) -> Any:
    """A text that matches itself."""
    return re.escape(value)


def matches(txt: Any, rgx: str, ignorecase: bool = False, multiline: bool = False) -> bool:
    """The test C{is match}."""
    return re.match(rgx, txt, _flags(ignorecase, multiline)) is not None


def path_join(*parts: Any, **options: Any) -> str:
    """
    Join paths; a part after the first never starts again at the root.

    @raises FilterError: an unknown option.
    """
    options.pop("use_posixpath", None)
    unknown = {k: v for k, v in options.items() if not k.startswith("__")}
    if unknown:
        shown = ", ".join(f"{k}={v}" for k, v in unknown.items())
        raise FilterError(f"The following keyword arguments are not valid: {shown}")
    if not parts:
        return ""
    first, *rest = (posixpath.normpath(to_text(part)) for part in parts)
    return posixpath.normpath(posixpath.join(first, *(part.lstrip("/") for part in rest)))


def skip(data: Any) -> str:
    """Nothing, whatever the value."""
    return ""


def substring_in_list(string_to_search_for: str, list_to_search: Iterable[str]) -> bool:
    """Whether any of the texts contains the wanted one."""
    return any(string_to_search_for in text for text in list_to_search)


FILTERS: dict[str, Callable[..., Any]] = {
    "base64_decode": base64_decode,
    "base64_encode": base64_encode,
    "check_whitelist_blacklist": check_whitelist_blacklist,
    "contains_whitespace": contains_whitespace,
    "hmac": hmac_verify,
    "hmac_compute": hmac_compute,
    "human_to_bytes": human_to_bytes,
    "is_hex": is_hex,
    "mac_str_to_bytes": mac_str_to_bytes,
    "md5": _digest("md5"),
    "path_join": path_join,
    "quote": quote,
    "regex_escape": regex_escape,
    "regex_match": regex_match,
    "regex_replace": regex_replace,
    "regex_search": regex_search,
    "sha1": _digest("sha1"),
    "sha256": _digest("sha256"),
    "sha512": _digest("sha512"),
    "skip": skip,
    "str_to_num": to_num,
    "substring_in_list": substring_in_list,
    "to_bool": to_bool,
    "to_bytes": to_bytes,
    "to_camelcase": to_camelcase,
    "to_num": to_num,
    "to_snake_case": to_snake_case,
    "uuid": uuid,
    "yaml_dquote": double_quoted,
    "yaml_encode": scalar,
    "yaml_squote": single_quoted,
}
