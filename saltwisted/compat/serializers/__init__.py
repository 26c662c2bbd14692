"""
C{salt.serializers}: data written as text and read back, a module for each format.
"""

from __future__ import annotations

from saltwisted.modules._serializers import DeserializationError as DeserializationError
from saltwisted.modules._serializers import SerializationError as SerializationError
