"""C{salt.defaults}: what means "not given"."""

from __future__ import annotations

DEFAULT_TARGET_DELIM = ":"


class _Constant:
    """A value that is only itself, also after it was copied."""

    def __init__(self, name: str, value: object = None) -> None:
        self.name = name
        self.value = value

    def __hash__(self) -> int:
        return hash((self.name, self.value))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Constant):
            return False
        return (self.name, self.value) == (other.name, other.value)

    def __repr__(self) -> str:
        return (
            f"<Constant.{self.name} value={self.value}>"
            if self.value
            else (f"<Constant.{self.name}>")
        )


NOT_SET = _Constant("NOT_SET")
