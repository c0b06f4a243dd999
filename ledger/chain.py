"""Leaf hashes, the Merkle tree over them, and its proofs (RFC 6962 section 2.1, RFC 9162 section 2.1). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

ZERO = "0" * 64  # `prev` of the genesis entry
EMPTY_ROOT = sha256(b"").digest()
_BLOCK = 1024  # leaves hashed level by level at once: fewer Python steps than one at a time


def leaf_hash(line: bytes) -> bytes:
    """SHA-256(0x00 || line): 32 bytes, shared by the chain and the tree. `line` has no newline."""
    return sha256(b"\x00" + line).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256(0x01 || left || right): an inner node."""
    return sha256(b"\x01" + left + right).digest()


class Frontier:
    """The roots of a growing tree's perfect subtrees, largest first: all that appending needs.

    Memory is O(log n); `extend` costs one hash a leaf.
    """

    def __init__(self, size: int = 0, peaks: Sequence[bytes] = ()) -> None:
        if len(peaks) != size.bit_count():
            raise ValueError(f"a tree of {size} leaves has {size.bit_count()} peaks, not {len(peaks)}")
        self.size = size
        self.peaks = list(peaks)

    def extend(self, leaves: Sequence[bytes]) -> None:
        """Append leaf hashes."""
        at = 0
        while at < len(leaves):
            # The largest perfect subtree that may start at this size and is already complete.
            room = min(self.size & -self.size or _BLOCK, _BLOCK)
            while room > len(leaves) - at:
                room //= 2
            self._push(_perfect_root(leaves[at : at + room]), room)
            at += room

    def _push(self, root: bytes, width: int) -> None:
        while self.size & width:
            root = node_hash(self.peaks.pop(), root)
            self.size -= width
            width *= 2
        self.peaks.append(root)
        self.size += width

    def root(self) -> bytes:
        """The tree's root, 32 bytes; SHA-256 of nothing when empty."""
        if not self.peaks:
            return EMPTY_ROOT
        root = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            root = node_hash(peak, root)
        return root


def _perfect_root(leaves: Sequence[bytes]) -> bytes:
    level = leaves
    while len(level) > 1:
        level = [sha256(b"\x01" + a + b).digest() for a, b in zip(level[::2], level[1::2], strict=True)]
    return level[0]


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The root over all leaf hashes."""
    frontier = Frontier()
    frontier.extend(leaves)
    return frontier.root()


def _split(n: int) -> int:
    """The largest power of two below n."""
    return 1 << (n - 1).bit_length() - 1


def inclusion_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """PATH(index, leaves) of RFC 6962 section 2.1.1, from the leaf's sibling to the root's child."""
    if not 0 <= index < len(leaves):
        raise ValueError(f"entry {index} is not among {len(leaves)}")
    if len(leaves) == 1:
        return []
    k = _split(len(leaves))
    if index < k:
        return [*inclusion_proof(leaves[:k], index), root_of(leaves[k:])]
    return [*inclusion_proof(leaves[k:], index - k), root_of(leaves[:k])]


def consistency_proof(leaves: Sequence[bytes], old: int) -> list[bytes]:
    """PROOF(old, leaves) of RFC 6962 section 2.1.2; empty when old is 0 or the whole tree."""
    if not 0 <= old <= len(leaves):
        raise ValueError(f"a tree of {len(leaves)} entries has no state of {old}")
    return [] if old == 0 else _subproof(leaves, old, whole=True)


def _subproof(leaves: Sequence[bytes], old: int, *, whole: bool) -> list[bytes]:
    if old == len(leaves):
        return [] if whole else [root_of(leaves)]
    k = _split(len(leaves))
    if old <= k:
        return [*_subproof(leaves[:k], old, whole=whole), root_of(leaves[k:])]
    return [*_subproof(leaves[k:], old - k, whole=False), root_of(leaves[:k])]


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether `leaf` is entry `index` of the tree of `size` with this root (RFC 9162 section 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    fn, sn, hashed = index, size - 1, leaf
    for part in proof:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            hashed = node_hash(part, hashed)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            hashed = node_hash(hashed, part)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and hashed == root


def verify_consistency(old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether the tree of `new` entries extends the tree of `old` (RFC 9162 section 2.1.4.2)."""
    if not 0 <= old <= new:
        return False
    if old == new:
        return not proof and old_root == new_root
    if old == 0:
        return not proof and old_root == EMPTY_ROOT
    path = list(proof)
    if old & (old - 1) == 0:
        path.insert(0, old_root)
    if not path:
        return False
    fn, sn = old - 1, new - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    was = now = path[0]
    for part in path[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            was, now = node_hash(part, was), node_hash(part, now)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            now = node_hash(now, part)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and was == old_root and now == new_root
