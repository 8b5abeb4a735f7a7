"""TLS from a Secret that is written anew, under load of the official clients."""

from __future__ import annotations

import ssl
import time

import pytest
import trustme
from cryptography import x509
from load import loaded
from release import address
from sending import SERVICE, Calls

NAMES = (SERVICE, "neso-headless.default.svc.cluster.local", "localhost")


def secret(authority: trustme.CA) -> tuple[dict, int]:
    """A Secret with a new certificate, and its serial number."""
    cert = authority.issue_cert(*NAMES)
    chain, key = cert.cert_chain_pems[0].bytes(), cert.private_key_pem.bytes()
    made = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": "certificate"},
        "stringData": {"tls.crt": chain.decode(), "tls.key": key.decode()},
    }
    return made, x509.load_pem_x509_certificate(chain).serial_number


def serials(pods) -> set[int]:
    """Of the certificates that the pods show, at both ports."""
    shown = [ssl.get_server_certificate((address(p), port), timeout=30) for p in pods for port in (8000, 8001)]
    return {x509.load_pem_x509_certificate(s.encode()).serial_number for s in shown}


@pytest.fixture(scope="module")
def authority(whole, images):
    ca = trustme.CA()
    made, _ = secret(ca)
    whole.apply(made)
    whole.helm(images("one"), {"tls": {"enabled": True, "secretName": "certificate"}})
    return ca


def test_rotation(whole, authority, row):
    """The certificate is replaced"""
    made, serial = secret(authority)
    with loaded(Calls(ca=authority.cert_pem.bytes().decode())) as row.load:
        time.sleep(1)
        begun = time.monotonic()
        whole.apply(made)
        whole.until(
            lambda: serials(whole.pods()) == {serial}, "the new certificate at both ports of each pod", limit=240
        )
        row.note(
            f"at both ports of each pod after {time.monotonic() - begun:.0f} s, which is the kubelet's time for the volume"
        )
        time.sleep(2)  # handshakes with the new one, and connections that are from before
    row.load.clean()
