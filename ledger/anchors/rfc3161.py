"""rfc3161: a time-stamp token over the checkpoint's text, from an authority the verifier chooses to trust.

We make the request and read the response; carrying them is the user's: `curl`, or a form.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from hashlib import sha512

from ledger.anchors.base import AnchorError, field
from ledger.errors import EnvironmentProblem
from ledger.note import Checkpoint

INSTALL = 'pip install "ridgefill[anchor]"'


class Rfc3161Anchor:
    """Evidence: `response`, base64 of the DER TimeStampResp over SHA-512 of the checkpoint's text."""

    name = "rfc3161"

    def check(self, checkpoint: Checkpoint, evidence: Mapping[str, str], tsa_roots: bytes) -> str:
        """The time the authority states, and whether its signature was checked against the verifier's roots."""
        text = field(evidence, "response")
        try:
            der = base64.b64decode(text, validate=True)
        except ValueError:  # binascii.Error is one; text that is not ASCII is another
            raise AnchorError("the response is not base64") from None
        try:
            import rfc3161_client as client
        except ModuleNotFoundError:
            return f"RFC 3161 token present and not checked; next: {INSTALL}"
        message = checkpoint.text().encode()
        try:
            response = client.decode_timestamp_response(der)
            info = response.tst_info
        except ValueError as wrong:
            raise AnchorError(f"the response cannot be read: {wrong}") from None
        if info.message_imprint.message != sha512(message).digest():
            raise AnchorError("the token is about another text")
        when = f"{info.gen_time:%Y-%m-%dT%H:%M:%SZ}"
        if not tsa_roots:
            return f"RFC 3161 token dated {when}; its signature is not checked: give --tsa-roots CERTIFICATES"
        self._check_signature(response, message, tsa_roots)
        return f"existed at {when}, says a time-stamping authority under the roots you gave"

    def _check_signature(self, response: object, message: bytes, tsa_roots: bytes) -> None:
        import rfc3161_client as client
        from cryptography import x509

        try:
            builder = client.VerifierBuilder()
            for root in x509.load_pem_x509_certificates(tsa_roots):
                builder = builder.add_root_certificate(root)
            builder.build().verify_message(response, message)  # type: ignore[arg-type]
        except (client.VerificationError, ValueError) as wrong:
            raise AnchorError(f"the authority's signature: {wrong}") from None


def make_request(checkpoint: Checkpoint) -> bytes:
    """The DER TimeStampReq to send to an authority."""
    try:
        import rfc3161_client as client
    except ModuleNotFoundError:
        raise EnvironmentProblem("RFC 3161 needs an extra that is not installed", hint=INSTALL) from None
    return client.TimestampRequestBuilder().data(checkpoint.text().encode()).build().as_bytes()
