"""C{salt.utils.textformat}: colours of a terminal's text."""

from __future__ import annotations

from typing import Any

_NAMES = "black red green yellow blue magenta cyan white"
codes = {
    "reset": "0",
    "bold": "1",
    "faint": "2",
    "italic": "3",
    "underline": "4",
    "blink": "5",
    "slow_blink": "5",
    "fast_blink": "6",
    "inverse": "7",
    "conceal": "8",
    "strike": "9",
    "primary_font": "10",
    "reset_underline": "24",
    "reset_blink": "25",
    "reset_inverse": "27",
    "extended": "38",
    "default": "39",
    "bg_extended": "48",
    "bg_default": "49",
    **{name: str(30 + number) for number, name in enumerate(_NAMES.split())},
    **{f"bg_{name}": str(40 + number) for number, name in enumerate(_NAMES.split())},
}
graph_prefix = "\x1b["
graph_suffix = "m"


class TextFormat:
    """
    The sequence that begins a format; called with a text, the text in it.

    @param attrs: names of C{codes}.
    @param kwargs: C{reset=False} does not begin with a reset; C{x} and C{bg_x} are one of 256
        colours.
    """

    def __init__(self, *attrs: str, **kwargs: Any) -> None:
        self.codes = [codes[name.lower()] for name in attrs if isinstance(name, str)]
        if kwargs.get("reset", True):
            self.codes.insert(0, codes["reset"])
        for word, name in (("x", "extended"), ("bg_x", "bg_extended")):
            if kwargs.get(word) is not None:
                self.codes += [codes[name], "5", str(int(kwargs[word]) % 256)]
        self.sequence = f"{graph_prefix}{';'.join(self.codes)}{graph_suffix}"

    def __call__(self, text: Any, reset: bool = True) -> str:
        """The text in this format, and after it as it was before."""
        return f"{self.sequence}{text}{TextFormat('reset') if reset else ''}"

    def __str__(self) -> str:
        return self.sequence

    __repr__ = __str__
