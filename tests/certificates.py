"""Certificates for servers on the loopback."""

from __future__ import annotations

import datetime as dt
import ipaddress
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path


def make_certificates(folder: Path) -> tuple[Path, Path, Path]:
    """Makes an authority, and a server's certificate and key; gives the paths of the three PEM files."""
    signer = ec.generate_private_key(ec.SECP256R1())
    root = _builder("authority", "authority", signer).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    key = ec.generate_private_key(ec.SECP256R1())
    host = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    server = _builder("server", "authority", key).add_extension(host, critical=False)
    contents = {
        "authority.pem": root.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM),
        "server.pem": server.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM),
        "key.pem": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    authority, certificate, private = (folder / name for name in contents)
    return authority, certificate, private


def _builder(subject: str, issuer: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    subject_name, issuer_name = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in (subject, issuer)
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject_name)
        .issuer_name(issuer_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
    )
