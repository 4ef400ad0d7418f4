"""Certificates for a run: an authority of its own, and one certificate for each agent, whose name is in it.

Needs the extra `keys`: in a clone, pip install ".[keys]".
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable
from pathlib import Path

from hocket.errors import FormatError, needs_extra

DAYS = 365  # that certificates are valid


def make_keys(folder: str | Path, names: Iterable[str], days: int = DAYS) -> list[Path]:
    """Make a certificate for each name, signed by the folder's own authority, which is made where there is none.

    What is there already stays as it is. Returns what was written; give each machine `ca.crt`, and its agent's `.crt`
    and `.key` alone.
    """
    with needs_extra("a certificate", "keys"):
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID
    folder, written = Path(folder), list[Path]()
    now = datetime.datetime.now(datetime.UTC)

    def certify(name: str, issuer: x509.Name, signer: ec.EllipticCurvePrivateKey | None) -> None:
        """Make a key and its certificate; without a signer one that signs itself."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
        builder = builder.not_valid_after(now + datetime.timedelta(days=days))
        builder = builder.add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
        certificate = builder.sign(signer or key, hashes.SHA256())
        pem = serialization.Encoding.PEM
        private = serialization.PrivateFormat.PKCS8
        secret = key.private_bytes(pem, private, serialization.NoEncryption())
        for kind, data, mode in (("key", secret, 0o600), ("crt", certificate.public_bytes(pem), 0o644)):
            written.append(folder / f"{name}.{kind}")
            handle = os.open(written[-1], os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(handle, "wb") as file:
                file.write(data)

    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (folder / "ca.key").exists():
            certify("ca", x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")]), None)
        signer = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
        authority = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes()).subject
        if not isinstance(signer, ec.EllipticCurvePrivateKey):
            raise FormatError("is not a key that hocket keys has made", path=folder / "ca.key")
        for name in names:
            if not (folder / f"{name}.key").exists():
                certify(name, authority, signer)
    except (OSError, ValueError, TypeError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"cannot hold keys: {getattr(error, 'strerror', None) or error}", path=folder) from None
    return written
