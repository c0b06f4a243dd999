"""The Merkle tree and its proofs: RFC 6962's known answers, and a naive oracle up to 69 leaves."""

from __future__ import annotations

from hashlib import sha256

import pytest

from ledger.chain import (
    EMPTY_ROOT,
    Frontier,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    root_of,
    verify_consistency,
    verify_inclusion,
)

LEAVES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
MOST = 69
MANY = [leaf_hash(f"entry {number}".encode()) for number in range(MOST)]


def naive_root(leaves: list[bytes]) -> bytes:
    """MTH of RFC 6962 section 2.1, word for word."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return sha256(b"\x01" + naive_root(leaves[:k]) + naive_root(leaves[k:])).digest()


NAIVE = [naive_root(MANY[:size]) for size in range(MOST + 1)]


@pytest.mark.parametrize("size", range(9))
def test_rfc_6962_known_answers(size: int) -> None:
    leaves = [leaf_hash(bytes.fromhex(leaf)) for leaf in LEAVES[:size]]
    assert root_of(leaves).hex() == ROOTS[size]
    assert naive_root(leaves).hex() == ROOTS[size]


def test_a_leaf_is_no_node() -> None:
    assert leaf_hash(b"") == sha256(b"\x00").digest()
    assert leaf_hash(MANY[0] + MANY[1]) != root_of(MANY[:2])


def test_every_split_of_growth_gives_the_same_root() -> None:
    for size in range(MOST + 1):
        for first in range(size + 1):
            frontier = Frontier()
            frontier.extend(MANY[:first])
            resumed = Frontier(frontier.size, frontier.peaks)
            resumed.extend(MANY[first:size])
            assert (resumed.size, resumed.root()) == (size, NAIVE[size])
            assert len(resumed.peaks) == size.bit_count()


def test_large_trees_take_the_same_road() -> None:
    leaves = [leaf_hash(number.to_bytes(4, "big")) for number in range(5000)]
    frontier = Frontier()
    frontier.extend(leaves[:777])
    frontier.extend(leaves[777:])
    assert frontier.root() == naive_root(leaves)


def test_a_frontier_refuses_peaks_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="a tree of 3 leaves has 2 peaks, not 1"):
        Frontier(3, [MANY[0]])


def test_all_inclusion_proofs_hold_and_no_false_one_does() -> None:
    checked = 0
    for size in range(1, MOST + 1):
        root = NAIVE[size]
        for index in range(size):
            proof = inclusion_proof(MANY[:size], index)
            leaf = MANY[index]
            assert verify_inclusion(leaf, index, size, proof, root)
            assert not verify_inclusion(MANY[(index + 1) % MOST], index, size, proof, root)
            assert not verify_inclusion(leaf, index, size, [*proof, leaf], root)
            assert not verify_inclusion(leaf, index, size, [leaf, *proof], root)
            assert not verify_inclusion(leaf, index, size, proof, EMPTY_ROOT)
            assert not verify_inclusion(leaf, size, size, proof, root)
            assert not verify_inclusion(leaf, -1, size, proof, root)
            if proof:
                assert not verify_inclusion(leaf, index, size, proof[:-1], root)
                assert not verify_inclusion(leaf, index, size, proof[1:], root)
                assert not verify_inclusion(leaf, index, size, [*proof[:-1], leaf], root)
                assert not verify_inclusion(leaf, (index + 1) % size, size, proof, root)
            checked += 1
    assert checked == MOST * (MOST + 1) // 2


def test_all_consistency_proofs_hold_and_no_false_one_does() -> None:
    checked = 0
    for new in range(MOST + 1):
        for old in range(new + 1):
            proof = consistency_proof(MANY[:new], old)
            was, now = NAIVE[old], NAIVE[new]
            assert verify_consistency(old, new, was, now, proof)
            assert not verify_consistency(old, new, was, now, [*proof, MANY[0]])
            assert not verify_consistency(old, new, b"\x01" * 32, now, proof)
            assert not verify_consistency(old, new, was, b"\x01" * 32, proof) or old == 0
            assert not verify_consistency(new + 1, new, was, now, proof)
            if proof:
                assert not verify_consistency(old, new, was, now, proof[:-1])
                assert not verify_consistency(old, new, was, now, proof[1:])
                assert not verify_consistency(old, new, was, now, [MANY[-1], *proof[1:]])
            checked += 1
    assert checked == (MOST + 1) * (MOST + 2) // 2


@pytest.mark.parametrize("index", [-1, 5])
def test_a_proof_of_what_is_not_there_is_refused(index: int) -> None:
    with pytest.raises(ValueError, match="is not among 5"):
        inclusion_proof(MANY[:5], index)
    with pytest.raises(ValueError, match="has no state of"):
        consistency_proof(MANY[:5], 6)
