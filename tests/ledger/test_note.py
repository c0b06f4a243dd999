"""Signed notes: the published examples of C2SP and Go byte for byte, and every malformed one refused."""

from __future__ import annotations

import base64
from contextlib import suppress

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from ledger.note import (
    COSIGNATURE,
    ED25519,
    MAX_SIGNATURES,
    Checkpoint,
    Note,
    NoteError,
    Proof,
    VerifierKey,
    public_bytes,
    sign,
)

C2SP_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
C2SP_NOTE = (
    "This is an example message.\n\n"
    "\u2014 example.com/foo "
    "Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
)
GO_PRIVATE = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
GO_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
GO_SIGNATURE = "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM="
ME = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)
MY_KEY = VerifierKey("me.example/log", ED25519, public_bytes(ME))
ROOT = b"\x2a" * 32


def test_the_c2sp_example_verifies() -> None:
    note = Note.from_text(C2SP_NOTE)
    key = VerifierKey.from_text(C2SP_KEY)
    assert [signer for signer, _ in note.signers([key])] == [key]
    assert note.to_text() == C2SP_NOTE
    assert key.text() == C2SP_KEY


def test_the_go_example_is_signed_byte_for_byte() -> None:
    seed = base64.b64decode(GO_PRIVATE.split("+", 4)[4])
    private = Ed25519PrivateKey.from_private_bytes(seed[1:])
    key = VerifierKey.from_text(GO_KEY)
    assert public_bytes(private) == key.public
    note = Note(GO_TEXT, (sign(GO_TEXT, "PeterNeumann", private),))
    assert note.to_text() == f"{GO_TEXT}\n\u2014 PeterNeumann {GO_SIGNATURE}\n"
    assert note.signers([key])


@pytest.mark.parametrize("at", range(len(C2SP_NOTE) - 1))
def test_no_character_of_the_example_can_be_changed(at: int) -> None:
    """Either no note any more, or not signed by that key any more, or by a name nobody trusts."""
    changed = C2SP_NOTE[:at] + ("x" if C2SP_NOTE[at] != "x" else "y") + C2SP_NOTE[at + 1 :]
    with suppress(NoteError):
        assert Note.from_text(changed).signers([VerifierKey.from_text(C2SP_KEY)]) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "text\n",
        "text\n\n",
        "text\n\nno dash name AAAAAAA=\n",
        C2SP_NOTE.removesuffix("\n"),
        C2SP_NOTE.replace("\u2014", "-"),
        C2SP_NOTE.replace("\n", "\r\n"),
        "\ufeff" + C2SP_NOTE.replace(" example message", "\texample"),
        C2SP_NOTE.replace("aQM=", "aQM"),
        C2SP_NOTE.replace("aQM=", "aQN="),  # the same bytes, other padding bits
        C2SP_NOTE.replace("Uw2Q", "Uw2 Q"),
        C2SP_NOTE + "\n",
        C2SP_NOTE + C2SP_NOTE.split("\n\n")[1] * MAX_SIGNATURES,
        C2SP_NOTE.replace("\u2014 example.com/foo ", "\u2014 example.com+foo "),
        "x" * 1_000_001,
    ],
)
def test_a_malformed_note_is_refused(text: str) -> None:
    with pytest.raises(NoteError, match=r"^[^\n]+$"):
        Note.from_text(text)


def test_bytes_that_are_no_utf8_are_refused() -> None:
    with pytest.raises(NoteError, match="not UTF-8"):
        Note.from_text(C2SP_NOTE.encode("latin-1", "replace").replace(b"?", b"\x97"))


@given(st.binary(max_size=300))
def test_any_bytes_are_a_note_or_a_note_error(data: bytes) -> None:
    for read in (Note.from_text, Proof.from_text):
        with pytest.raises(NoteError):
            read(data)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "name",
        "name+00000000",
        C2SP_KEY.replace("530d903a", "530d903b"),
        C2SP_KEY.replace("example.com/foo", "example.com/fob"),
        C2SP_KEY[:-4],
        C2SP_KEY.replace("+Aek", "+Bek"),  # another algorithm: nothing in a key may choose one (threat 24)
        GO_PRIVATE,
        "a b+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        "\xe9\x80",
    ],
)
def test_a_key_whose_parts_disagree_is_refused(key: str) -> None:
    with pytest.raises(NoteError):
        VerifierKey.from_text(key)


def test_a_false_signature_by_a_known_key_refuses_the_whole_note() -> None:
    other = Ed25519PrivateKey.from_private_bytes(b"\x08" * 32)
    good = sign("a\n", MY_KEY.name, ME)
    forged = sign("a\n", MY_KEY.name, other)
    false = type(good)(MY_KEY.name, MY_KEY.id, forged.value)
    with pytest.raises(NoteError, match="does not fit the text"):
        Note("a\n", (good, false)).signers([MY_KEY])
    assert Note("a\n", (forged,)).signers([MY_KEY]) == []


def test_a_cosignature_covers_its_time_and_is_no_plain_signature() -> None:
    head = Checkpoint("me.example/log", 5, ROOT).text()
    witness = VerifierKey("w.example", COSIGNATURE, public_bytes(ME))
    signature = sign(head, "w.example", ME, cosign_time=1_700_000_000)
    assert signature.time == 1_700_000_000
    assert Note(head, (signature,)).signers([witness])
    later = type(signature)(signature.name, signature.key_id, (1_700_000_001).to_bytes(8, "big") + signature.value[8:])
    with pytest.raises(NoteError):
        Note(head, (later,)).signers([witness])
    assert witness.id != VerifierKey("w.example", ED25519, public_bytes(ME)).id
    # tlog-cosignature: what is signed starts with a header and the time.
    message = f"cosignature/v1\ntime 1700000000\n{head}".encode()
    ME.public_key().verify(signature.value[8:], message)


def test_the_cosignature_example_of_the_spec_reads() -> None:
    """Its keys are not published, so only the form can be held against us: head, key ids, the time that is signed."""
    text = (
        "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n"
        "\u2014 example.com/behind-the-sofa "
        "Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"
        "\u2014 witness.example.com/w1 "
        "jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==\n"
    )
    note = Note.from_text(text)
    assert note.to_text() == text
    head = Checkpoint.from_note(note)
    assert (head.origin, head.size) == ("example.com/behind-the-sofa", 20852163)
    log, witness = note.signatures
    assert (log.time, len(log.value)) == (None, 64)
    assert (witness.time, len(witness.value), witness.key_id.hex()) == (1679315147, 72, "8d66cf3f")


@pytest.mark.parametrize(
    "text",
    [
        "origin\n5\n",
        "origin\n05\n" + base64.b64encode(ROOT).decode() + "\n",
        "origin\n-1\n" + base64.b64encode(ROOT).decode() + "\n",
        "origin\n5.0\n" + base64.b64encode(ROOT).decode() + "\n",
        "origin\n\u0665\n" + base64.b64encode(ROOT).decode() + "\n",
        "origin\n" + "9" * 17 + "\n" + base64.b64encode(ROOT).decode() + "\n",
        "\n5\n" + base64.b64encode(ROOT).decode() + "\n",
        "origin\n5\n" + base64.b64encode(ROOT[:-1]).decode() + "\n",
        "origin\n5\n" + ROOT.hex() + "\n",
        "origin\n5\n" + base64.b64encode(ROOT).decode() + "\nextension\n",
    ],
)
def test_a_malformed_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(NoteError):
        Checkpoint.from_note(Note(text, ()))


def test_a_proof_file_reads_back_and_its_parts_are_checked() -> None:
    head = Checkpoint("me.example/log", 5, ROOT).text()
    proof = Proof(3, (b"\x01" * 32, b"\x02" * 32), Note(head, (sign(head, MY_KEY.name, ME),)))
    text = proof.to_text()
    assert text.startswith("c2sp.org/tlog-proof@v1\nindex 3\n")
    assert Proof.from_text(text) == proof
    extra = text.replace("index", "extra QUJD\nindex", 1)
    assert Proof.from_text(extra) == proof
    for wrong in (
        text.replace("@v1", "@v2"),
        text.replace("index 3", "index -3"),
        text.replace("index 3", "index 03"),
        text.replace("index 3\n", ""),
        text.replace("AQEB", "AQE", 1),
        text.replace("\n\n", "\n", 1),
        extra.replace("QUJD", "QUJ"),
    ):
        with pytest.raises(NoteError):
            Proof.from_text(wrong)


@pytest.mark.parametrize("text", ["no newline", "tab\t\n", "bell\x07\n"])
def test_what_is_no_note_is_not_signed(text: str) -> None:
    with pytest.raises(NoteError):
        sign(text, MY_KEY.name, ME)
