from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import WireError
from saltwisted.wire.crypticle import SessionKey, open_sealed
from saltwisted.wire.frames import Frame, FrameReader, encode_frame
from saltwisted.wire.msgpack import guess, pack
from saltwisted.wire.publication import decode_publication, open_job
from tests.wire.recorded import VERSIONS, key, recorded


class RecordedTests(SynchronousTestCase):
    def test_single_frame(self) -> None:
        """A frame is packed to Salt's bytes."""
        case = recorded("framing")["tcp_frame"]

        made = encode_frame(case["body"], case["header"])

        self.assertEqual(made.hex(), case["frame_hex"])

    def test_streams(self) -> None:
        """Recorded streams of both versions come apart into what was said, segment by segment."""
        for version in VERSIONS:
            data = recorded(f"tcp_{version}")
            publish_key = SessionKey(data["aes_key"])
            for stream in data["streams"]:
                readers = {"c2s": FrameReader(), "s2c": FrameReader()}
                frames: dict[str, list[Frame]] = {"c2s": [], "s2c": []}
                for segment in stream["segments"]:
                    way = segment["dir"]
                    frames[way] += readers[way].feed(bytes.fromhex(segment["hex"]))

                if stream["name"] == "publish_subscription":
                    hello = open_sealed(publish_key, frames["c2s"][0].body[b"load"])
                    self.assertEqual(set(hello), {"id", "tok"})
                    self.assertEqual(key("minion").public.open_x931(hello["tok"]), b"salt")
                    job = open_job(decode_publication(frames["s2c"][0].body), publish_key)
                    self.assertEqual(job.fun, "test.ping")
                else:
                    self.assertEqual(
                        sorted(f.head["mid"] for f in frames["c2s"]),
                        sorted(f.head["mid"] for f in frames["s2c"]),
                    )


class ReaderTests(SynchronousTestCase):
    def test_pieces(self) -> None:
        """However the stream is cut, the same frames come out."""
        sent = [{"n": n, "x": b"y" * (n * 1500)} for n in range(20)]
        stream = b"".join(encode_frame(one, {"mid": str(n)}) for n, one in enumerate(sent))
        for size in (1, 7, 4096, 65536, len(stream)):
            reader = FrameReader()

            got = [
                f for at in range(0, len(stream), size) for f in reader.feed(stream[at : at + size])
            ]

            self.assertEqual([f.head["mid"] for f in got], [str(n) for n in range(20)])
            self.assertEqual(
                [guess(f.body) for f in got],
                [{"n": one["n"], "x": one["x"].decode()} for one in sent],
            )

    def test_views(self) -> None:
        """The body of a large frame is not copied if views may be kept, and comes out as before."""
        large = {"enc": "aes", "load": b"x" * 100_000}
        sent = [encode_frame(one, {"mid": n}) for n, one in enumerate((1, large, 2, large, large))]
        stream = b"".join(sent)
        for size in (1000, 65536, len(stream)):
            reader = FrameReader(views=True)
            got = [
                f for at in range(0, len(stream), size) for f in reader.feed(stream[at : at + size])
            ]

            self.assertEqual([f.head["mid"] for f in got], list(range(5)))
            self.assertEqual([f.view is not None for f in got], [False, True, False, True, True])
            self.assertEqual([f.packed for f in got], [*map(pack, (1, large, 2, large, large))])
            self.assertEqual(reader.unread, 0)

    def test_other_forms(self) -> None:
        """
        The head of a large frame may come last, or be nothing. No other form is decoded (T-COST-1).
        """
        body = "x" * 100_000
        odd = pack({"body": body, "head": {"mid": 1}})
        (frame,) = FrameReader(views=True).feed(odd)
        self.assertEqual((frame.head, frame.packed), ({"mid": 1}, pack(body)))
        (frame,) = FrameReader(views=True).feed(pack({"head": None, "body": body}))
        self.assertEqual((frame.head, frame.packed), ({}, pack(body)))
        for bad in (
            {"head": {"a": "b" * 2000}, "body": body},
            {"body": body, "head": 1},
            {"body": body, "head": {"a": "b" * 2000}},
            {"head": 1, "body": body},
            {"head": {}, "bode": body},
            [{}, body],
        ):
            self.assertRaises(WireError, FrameReader(views=True).feed, pack(bad))

    def test_bound(self) -> None:
        """A frame above the limit is refused before it is whole, and when it is."""
        reader = FrameReader(limit=1000)
        self.assertRaises(WireError, reader.feed, b"\x81\xa4body\xdb\x00\x10\x00\x00" + b"x" * 1000)
        self.assertRaises(WireError, FrameReader(limit=10).feed, encode_frame("x" * 20))

        FrameReader(limit=2000).feed(encode_frame("x" * 900) * 10)

    def test_no_frames(self) -> None:
        """What is msgpack but no frame, and what is none, is refused."""
        for data in (
            pack(1),
            pack([]),
            pack({"head": {}}),
            pack({"head": 1, "body": 1}),
            b"\xc1",
            b"\x91" * 5000 + b"\x01",
            b"\x81\x91\x01\x01",
        ):
            self.assertRaises(WireError, FrameReader().feed, data)

    def test_empty_head(self) -> None:
        """A frame without a head, as some publishers send it, has an empty one."""
        self.assertEqual(FrameReader().feed(pack({"body": b"x"})), [Frame({}, b"x")])
        self.assertEqual(FrameReader().feed(encode_frame(b"x")), [Frame({}, b"x")])
