"""
The nemesis: one blow after another, each undone, and then waited for that the nodes are one again.

What is written down of a blow is who could not reach whom because of it, and whether a disk lost
something. Losing power is no such thing: what was acknowledged was written through.
"""

from __future__ import annotations

import os
import random
import signal
import stat
import time
from collections.abc import Callable, Iterable, Iterator

from tests.harness import until
from tests.interop.network import run
from tests.nemesis.checker import CALM_AFTER, CALM_BEFORE
from tests.nemesis.history import History
from tests.nemesis.world import PATIENCE, Node, World

GRACE = 5.0
"""Seconds after which what was acknowledged has come to all nodes that are in step."""
CALM = CALM_BEFORE + CALM_AFTER + 3
"""Seconds of peace now and then, in which a job must come to all."""
DAY = 86400.0
JUMPS = (-2 * DAY, -3600.0, -90.0, 70.0, 3600.0, 2 * DAY)
SPARED = ("srv", "etc", "run", "lost+found", "filler")
"""What is edited, is a key, or is not a file: that is not damaged."""


def kinds() -> list[str]:
    """All kinds of blows."""
    return [name.removeprefix("blow_") for name in dir(Nemesis) if name.startswith("blow_")]


def dice_of(seed: int) -> random.Random:
    """What the nemesis of this seed throws."""
    return random.Random(f"{seed} nemesis")


def shuffled(blows: Iterable[str], dice: random.Random) -> list[str]:
    """In which order they come, the last one first."""
    deck = sorted(blows)
    dice.shuffle(deck)
    return deck


class Stuck(Exception):
    """The nodes do not become one again."""


class Nemesis:
    """Whoever strikes."""

    def __init__(self, world: World, history: History, seed: int, only: tuple[str, ...]) -> None:
        self.world, self.history = world, history
        self.dice = dice_of(seed)
        self.blows: dict[str, Callable[[Node], None]] = {
            name: getattr(self, f"blow_{name}") for name in kinds() if not only or name in only
        }
        self.deck: list[str] = []
        self.struck = 0

    def run(self, seconds: float, all_kinds: bool = False) -> None:
        """
        Strike until so many seconds of the run are over.

        @param all_kinds: and not before each kind of blow has come.
        @raises Stuck: the nodes do not become one again.
        """
        self.shuffle()
        while self.history.now() < seconds or (all_kinds and self.struck < len(self.blows)):
            self.strike()
            time.sleep(self.dice.uniform(1, 3) if self.dice.random() < 0.8 else CALM)

    def shuffle(self) -> None:
        """All kinds, in an order of their own."""
        self.deck = shuffled(self.blows, self.dice)

    def strike(self) -> None:
        """One blow, and what must follow. All kinds come before one comes again."""
        if not self.deck:
            self.shuffle()
        name = self.deck.pop()
        self.struck += 1
        node = self.dice.choice(self.world.nodes)
        began = self.history.now()
        self.history.add("note", text=f"{name} {node.name}")
        self.pairs = [[node.name, other.name] for other in self.others(node)]
        self.more: dict[str, object] = {}
        try:
            self.blows[name](node)
        except AssertionError as error:
            raise Stuck(f"{name} {node.name}: {error}") from error
        finally:
            self.world.hub.heal()
        self.history.add("note", text=f"{name} {node.name} undone")
        why = self.in_step()
        self.history.add(
            "fault", what=name, node=node.name, pairs=self.pairs, t=began, e=self.history.now(),
            **self.more,
        )  # fmt: skip
        if why:
            raise Stuck(f"{name} {node.name}: {why}")

    def in_step(self) -> str:
        """Wait until the nodes have all of each other; why not, if they do not become so."""
        end = time.monotonic() + PATIENCE
        while why := self.world.why_not_in_step():
            for node in self.world.nodes:
                if not node.running:
                    return f"{node.name} ended by itself: {node.tail(15)}"
            if time.monotonic() > end:
                return why
            time.sleep(0.3)
        now = self.history.now()
        self.history.add("settled", asked=now - GRACE)
        return ""

    def others(self, node: Node) -> list[Node]:
        """The other nodes."""
        return [other for other in self.world.nodes if other is not node]

    def hold(self, least: float, most: float) -> None:
        """A while."""
        time.sleep(self.dice.uniform(least, most))

    def lost(self, node: Node, back: float) -> None:
        """Its disk has nothing from now on that is younger than this."""
        self.history.add("disk", node=node.name, back=back)

    # -- of processes

    def blow_kill(self, node: Node) -> None:
        """Killed, and started a while later."""
        node.kill()
        self.hold(0.5, 8)
        node.start()

    def blow_power(self, node: Node) -> None:
        """No power: what the kernel had not written is lost."""
        node.kill()
        node.disk.lose_power()
        node.on_disk()
        self.hold(0.5, 4)
        node.start()

    def blow_power_of_all(self, node: Node) -> None:
        """No power for all of them; they come back one after another."""
        self.pairs = [[one.name, two.name] for one in self.world.nodes for two in self.others(one)]
        for each in self.world.nodes:
            each.kill()
            each.disk.lose_power()
            each.on_disk()
        for each in self.dice.sample(self.world.nodes, len(self.world.nodes)):
            self.hold(0, 3)
            each.start()

    def blow_stop(self, node: Node) -> None:
        """Stopped, and let go on."""
        node.strike(signal.SIGSTOP)
        self.hold(2, 9)
        node.strike(signal.SIGCONT)

    # -- of the net

    def blow_drop(self, node: Node) -> None:
        """Nothing reaches it or comes from it."""
        node.host.drop()
        self.hold(2, 12)
        node.host.heal()

    def blow_cut(self, node: Node) -> None:
        """Two nodes do not reach each other, all others do."""
        other = self.dice.choice(self.others(node))
        self.pairs = [[node.name, other.name]]
        node.host.cut(other.host)
        self.hold(4, 15)

    def blow_one_way(self, node: Node) -> None:
        """What one node sends to the others is lost; what they send arrives."""
        run(*node.host.inside(["iptables", "-A", "OUTPUT", "!", "-o", "lo", "-j", "DROP"]))
        self.hold(3, 12)
        node.host.heal()

    def blow_one_link(self, node: Node) -> None:
        """What one node sends to one other is lost."""
        other = self.dice.choice(self.others(node))
        self.pairs = [[node.name, other.name]]
        way = ["-s", f"{node.host.net}.0/24", "-d", f"{other.host.net}.0/24", "-j", "DROP"]
        run(*self.world.hub.inside(["iptables", "-A", "FORWARD", *way]))
        self.hold(4, 15)

    def blow_alone_then_kill(self, node: Node) -> None:
        """Cut off from the other nodes and not from its minions, then killed."""
        for other in self.others(node):
            node.host.cut(other.host)
        self.hold(2, 8)
        node.kill()
        self.world.hub.heal()
        self.hold(0.5, 4)
        node.start()

    # -- of disks

    def blow_stall(self, node: Node) -> None:
        """Its disk takes nothing for a while."""
        self.stalled(node, True)
        self.hold(2, 12)
        self.stalled(node, False)

    def blow_stall_then_kill(self, node: Node) -> None:
        """Its disk takes nothing, and then it is killed."""
        self.stalled(node, True)
        self.hold(3, 9)
        node.kill()
        self.stalled(node, False)
        self.hold(0.5, 2)
        node.start()

    def stalled(self, node: Node, now: bool) -> None:
        """Have its disk stand still, or go on."""
        node.wrong.stalled = now
        node.wrong.write()

    def blow_full(self, node: Node) -> None:
        """No room on its disk."""
        node.disk.fill()
        self.hold(4, 12)
        node.disk.empty()

    def blow_full_at_start(self, node: Node) -> None:
        """It is started on a disk without room, and gets room while it runs."""
        node.kill()
        node.disk.fill()
        node.start()
        self.hold(5, 10)
        node.disk.empty()
        if not node.running:
            self.history.add("bad", text=f"{node.name} ended on a full disk: {node.tail(5)}")
            node.start()

    def blow_damage(self, node: Node) -> None:
        """Bits of one of its files flip, while it runs."""
        path = self.dice.choice(sorted(self.files(node)))
        self.lost(node, 0.0)
        places = node.disk.damage(path, self.dice)
        self.history.add("note", text=f"damaged {path[len(node.root) :]} at {places}")
        self.more = {"path": path[len(node.root) :]}
        self.hold(3, 8)

    def blow_damage_contents(self, node: Node) -> None:
        """Bits of what it serves flip in its content store, while it runs."""
        found = until("contents", lambda: sorted(self.contents(node)), 30, 0.5)
        self.lost(node, 0.0)
        for path in self.dice.sample(found, min(3, len(found))):
            places = node.disk.damage(path, self.dice)
            self.history.add("note", text=f"damaged {path[len(node.root) :]} at {places}")
        self.hold(3, 8)

    def contents(self, node: Node) -> Iterator[str]:
        """The packs of small contents, and the files of large ones."""
        for folder, _, names in os.walk(node.root):
            parts = folder[len(node.root) :].split("/")
            if "roots" in parts and {"packs", "objects"} & set(parts):
                yield from (os.path.join(folder, name) for name in names)

    def files(self, node: Node) -> Iterator[str]:
        """What can be damaged: files with much in them rather than small ones."""
        for folder, _, names in os.walk(node.root):
            parts = folder[len(node.root) :].split("/")
            if set(parts) & set(SPARED) and "cluster" not in parts:
                continue
            for name in names:
                path = os.path.join(folder, name)
                found = os.lstat(path)
                # What is only in memory (-shm) no disk can damage
                kept = ".sqlite" in name and not name.endswith("-shm")
                if stat.S_ISREG(found.st_mode) and kept and found.st_size:
                    yield path

    def blow_set_back(self, node: Node) -> None:
        """An old copy of its disk takes the place of the disk."""
        back = self.history.now()
        node.disk.flush()
        copy = f"{node.disk.image}.old"
        node.disk.copy(copy)
        self.hold(3, 12)
        node.kill()
        node.disk.set_back(copy)
        node.on_disk()
        os.unlink(copy)
        self.lost(node, back)
        node.start()

    def blow_wipe(self, node: Node) -> None:
        """Its disk is a new one; it is removed, and joins as new."""
        node.kill()
        node.disk.make()
        node.on_disk()
        self.lost(node, 0.0)
        empty = self.history.now()
        node.start()
        self.hold(1, 4)
        through = self.dice.choice(self.others(node))

        def removed() -> bool:
            began = self.history.now()
            status, out, wrong = through.cli("remove", node.name, seconds=90)
            self.history.add(
                "op", op="void", node=through.name, key="", by="nemesis", t=began,
                e=self.history.now(), result="ok" if status == 0 else "unknown",
                why=(out + wrong)[-300:],
            )  # fmt: skip
            return status == 0 or "no member" in out + wrong

        until(f"{through.name} to remove {node.name}", removed, 60, 1.0)
        self.join(node, through, empty)

    def blow_leave(self, node: Node) -> None:
        """It leaves in good order, its disk is thrown away, and it joins as new."""
        status, out, wrong = node.cli("leave", seconds=120)
        said = (out + wrong)[-400:]
        self.history.add("note", text=f"leave: {status} {said}")
        if status != 0:
            self.history.add("bad", text=f"{node.name} cannot leave: {status} {said}")
        if status != 0 or "on this node's disk alone" in said:
            self.lost(node, 0.0)
        began = self.history.now()
        node.kill()
        node.disk.make()
        node.on_disk()
        node.start()
        self.join(node, self.dice.choice(self.others(node)), began)

    def join(self, node: Node, through: Node, began: float) -> None:
        """Have it join; since some time it was no member."""
        try:
            self.world.join(node, through)
        finally:
            self.history.add("outside", node=node.name, t=began, e=self.history.now())

    # -- of clocks

    def blow_clock(self, node: Node) -> None:
        """Its clock is wrong, and set right while it runs."""
        by = self.dice.choice(JUMPS)
        self.more = {"by": by}
        self.history.add("note", text=f"the clock of {node.name} is {by:+.0f} s")
        node.wrong.offset = by
        node.wrong.write()
        self.hold(4, 10)
        node.wrong.offset = 0.0
        node.wrong.write()

    def blow_clock_at_start(self, node: Node) -> None:
        """It is started with a wrong clock, which is set right while it runs."""
        by = self.dice.choice(JUMPS)
        self.more = {"by": by}
        self.history.add("note", text=f"{node.name} starts {by:+.0f} s off")
        node.kill()
        node.wrong.offset = by
        node.wrong.write()
        node.start()
        self.hold(6, 12)
        node.wrong.offset = 0.0
        node.wrong.write()
