"""The certificates of one cluster: its own authority, the server's certificate, certificates of clients (PEM).

Keys are P-256. Nothing here is written anywhere; the caller keeps the bytes.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=365)
CLOCK_SKEW = datetime.timedelta(minutes=5)
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes


def new_authority(name: str, now_s: float) -> Pair:
    """A self-signed certificate authority that may sign nothing but leaves."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(subject, subject, key.public_key(), now_s)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(authority=True), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return _pair(builder.sign(key, hashes.SHA256()), key)


def new_server(authority: Pair, addresses: Sequence[str], now_s: float) -> Pair:
    """The certificate of a server that is reached at these IP addresses and names."""
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in SERVER_NAMES]
    for address in addresses:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(address)))
        except ValueError:
            names.append(x509.DNSName(address))
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    return _leaf(authority, subject, ExtendedKeyUsageOID.SERVER_AUTH, now_s, x509.SubjectAlternativeName(names))


def new_client(authority: Pair, user: str, groups: Sequence[str], now_s: float) -> Pair:
    """The certificate of a user, as Kubernetes reads it: the common name and the organizations."""
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])
    return _leaf(authority, subject, ExtendedKeyUsageOID.CLIENT_AUTH, now_s, None)


def expires_s(pair: Pair) -> float:
    """When a certificate ends, in seconds since 1970."""
    return x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc.timestamp()


def _leaf(
    authority: Pair,
    subject: x509.Name,
    purpose: x509.ObjectIdentifier,
    now_s: float,
    names: x509.SubjectAlternativeName | None,
) -> Pair:
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    issuer_key = serialization.load_pem_private_key(authority.key, None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(subject, issuer.subject, key.public_key(), now_s)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(authority=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    known = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    builder = builder.add_extension(known, critical=False)
    if names is not None:
        builder = builder.add_extension(names, critical=False)
    return _pair(builder.sign(issuer_key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now_s: float
) -> x509.CertificateBuilder:
    now = datetime.datetime.fromtimestamp(now_s, datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - CLOCK_SKEW).not_valid_after(now + LIFETIME)


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    return Pair(certificate.public_bytes(pem), key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
