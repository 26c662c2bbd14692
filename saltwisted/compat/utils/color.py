"""C{salt.utils.color}: the colours of outputters."""

from __future__ import annotations

import logging
from typing import Any

from saltwisted.compat.utils.textformat import TextFormat

log = logging.getLogger(__name__)

_FORMATS = {
    "BLACK": ("black",),
    "DARK_GRAY": ("bold", "black"),
    "RED": ("red",),
    "LIGHT_RED": ("bold", "red"),
    "GREEN": ("green",),
    "LIGHT_GREEN": ("bold", "green"),
    "YELLOW": ("yellow",),
    "LIGHT_YELLOW": ("bold", "yellow"),
    "BLUE": ("blue",),
    "LIGHT_BLUE": ("bold", "blue"),
    "MAGENTA": ("magenta",),
    "LIGHT_MAGENTA": ("bold", "magenta"),
    "CYAN": ("cyan",),
    "LIGHT_CYAN": ("bold", "cyan"),
    "LIGHT_GRAY": ("white",),
    "WHITE": ("bold", "white"),
    "DEFAULT_COLOR": ("default",),
    "ENDC": ("reset",),
}


def get_color_theme(theme: str) -> dict[str, Any]:
    """The colours that a YAML file names; none if it cannot be read."""
    import yaml

    from saltwisted.domain.yamltext import load_yaml

    try:
        with open(theme, encoding="utf-8") as file:
            chosen = load_yaml(file)
        return {str(name): f"\033[{code}m" for name, code in chosen.items()}
    except (OSError, yaml.YAMLError, AttributeError):
        log.warning("Failed to read the color theme %s", theme)
        return {}


def get_colors(use: bool | str = True, theme: str | None = None) -> dict[str, Any]:
    """
    Names to colours.

    @param use: C{False}: all are empty; the name of a colour: all are that one.
    """
    colors: dict[str, Any] = {name: TextFormat(*attrs) for name, attrs in _FORMATS.items()}
    if theme:
        colors.update(get_color_theme(theme))
    if not use:
        return dict.fromkeys(colors, "")
    if isinstance(use, str) and use in colors:
        chosen = colors[use]
        return {name: old if name == "ENDC" else chosen for name, old in colors.items()}
    return colors
