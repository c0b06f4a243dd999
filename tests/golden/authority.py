"""A small time-stamping authority (RFC 3161): a root, a signing certificate, and `openssl ts` behind them."""

from __future__ import annotations

import subprocess
from pathlib import Path

_CONFIG = """
[req]
distinguished_name = name
prompt = no
[name]
CN = {name}
[root]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign
[stamper]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = critical,timeStamping
[tsa]
default_tsa = service
[service]
dir = {folder}
serial = {folder}/serial
crypto_device = builtin
signer_cert = {folder}/stamper.pem
signer_key = {folder}/stamper.key
signer_digest = sha512
default_policy = 1.2.3.4.1
digests = sha256, sha384, sha512
accuracy = secs:1
ordering = no
tsa_name = no
ess_cert_id_chain = no
ess_cert_id_alg = sha256
"""


class Authority:
    """Lives in `folder`; `roots` are the PEM certificates to trust it by."""

    def __init__(self, folder: Path, name: str = "a small authority") -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        (folder / "serial").write_text("01\n")
        (folder / "openssl.cnf").write_text(_CONFIG.format(folder=folder, name=name))
        days = ("-days", "36500")
        self._run("req", "-x509", *self._new("root"), *days, "-extensions", "root", "-out", "root.pem")
        self._run("req", *self._new("stamper"), "-subj", f"/CN={name} stamper", "-out", "stamper.csr")
        signing = ("-CA", "root.pem", "-CAkey", "root.key", "-CAcreateserial", "-extfile", "openssl.cnf")
        self._run(
            "x509", "-req", "-in", "stamper.csr", *signing, "-extensions", "stamper", *days, "-out", "stamper.pem"
        )
        self.roots = (folder / "root.pem").read_bytes()

    def stamp(self, request: bytes) -> bytes:
        """The DER response to a DER request."""
        (self.folder / "request.tsq").write_bytes(request)
        self._run("ts", "-reply", "-config", "openssl.cnf", "-queryfile", "request.tsq", "-out", "response.tsr")
        return (self.folder / "response.tsr").read_bytes()

    def _new(self, name: str) -> tuple[str, ...]:
        return ("-config", "openssl.cnf", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key")

    def _run(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, capture_output=True, check=True)
