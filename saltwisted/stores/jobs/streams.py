"""
The streams of the job cache, as the reactor thread knows them.
"""

from __future__ import annotations

from collections.abc import Mapping

from saltwisted.domain.replica.entry import Stream
from saltwisted.stores.jobs.book import Book
from saltwisted.stores.jobs.table import SPAN


class JobStreams:
    """
    Which streams there are, and how far each is on disk, being written, and pruned.

    @ivar own: index of the stream that this store appends to.
    @ivar stream: its name.
    @ivar names: the streams by index; replaced, never changed, because the writer reads it.
    @ivar index: the reverse.
    @ivar known: how far each is on disk, and may therefore be announced to others.
    @ivar taken: how far each has been handed to the writer.
    @ivar confirmed: how far another node has our own stream.
    """

    def __init__(self) -> None:
        self.own = 0
        self.stream = Stream("", "")
        self.names: Mapping[int, Stream] = {}
        self.index: dict[Stream, int] = {}
        self.known: dict[Stream, int] = {}
        self.taken: dict[Stream, int] = {}
        self.confirmed = 0
        self._floors: dict[Stream, int] = {}

    def load(self, book: Book) -> None:
        """The store has opened its file."""
        self.own = book.own
        self.stream = book.streams[book.own][0]
        self.index = {stream: idx for idx, (stream, _, _) in book.streams.items()}
        self.names = {idx: stream for stream, idx in self.index.items()}
        self.known = {stream: known for stream, known, _ in book.streams.values()}
        self.taken = dict(self.known)
        self._floors = {stream: floor for stream, _, floor in book.streams.values()}
        self.confirmed = book.confirmed

    def pruned(self, book: Book) -> None:
        """
        The store has pruned: only floors have risen. The known numbers and those on their way to
        the disk are not read from the file, because entries arrive while it is pruned.
        """
        for stream, _, floor in book.streams.values():
            if stream in self._floors or floor:
                self._floors[stream] = max(floor, self._floors.get(stream, 0))

    def knowledge(self) -> Mapping[Stream, int]:
        """How far each stream is on disk."""
        return {stream: number for stream, number in self.known.items() if number}

    def floor(self) -> Mapping[Stream, int]:
        """How far everything was pruned."""
        return {stream: number for stream, number in self._floors.items() if number}

    @property
    def last(self) -> int:
        """The number of our newest entry on disk; nobody hears of one before."""
        return self.known.get(self.stream, 0)

    def index_of(self, stream: Stream) -> int:
        """The index of a stream; the next one, if it is new."""
        idx = self.index.get(stream)
        if idx is None:
            idx = self.index[stream] = max(self.index.values()) + 1
            self.known[stream] = 0
            self.names = {**self.names, idx: stream}
        return idx

    def range_of(self, stream: Stream) -> tuple[int, int] | None:
        """Where the rows of a stream begin, and how far it is known; C{None}: not at all."""
        idx, known = self.index.get(stream), self.known.get(stream, 0)
        return None if idx is None or not known else (idx * SPAN, known)

    def advance(self, number: int) -> None:
        """Our own stream is on disk so far."""
        self.known[self.stream] = self.taken[self.stream] = number

    def merged(self, known: Mapping[int, int]) -> None:
        """Streams of others are on disk so far; by index."""
        for idx, number in known.items():
            stream = self.names[idx]
            self.known[stream] = max(self.known.get(stream, 0), number)
            # Another one may have failed meanwhile, and begun again below
            self.taken[stream] = max(self.taken.get(stream, 0), number)

    def refused(self) -> None:
        """The disk refused the rows that were on their way."""
        self.taken = dict(self.known)
