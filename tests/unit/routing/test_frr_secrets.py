"""Passwords and keys of FRR: no line that is read has them, and two different ones still differ."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, cast

import pytest

from lab.audit.readers.router_reader import configuration_lines
from lab.routing.frr_secrets import has_hidden_secret, running_configuration, without_secrets

if TYPE_CHECKING:
    from lab.routing.vty import Vty

KEY = bytes(range(32))
SECRET = "hunter2"  # noqa: S105 - of no device
HIDDEN = f"<secret:{blake2b(SECRET.encode(), digest_size=4, key=KEY).hexdigest()}>"


@pytest.mark.parametrize(
    "line",
    [
        "router bgp 65001\n neighbor swp1 password {}",
        "router bgp 65001\n neighbor 2001:db8::1 password {}",
        "router bgp 65001\n neighbor password password {}",
        "mpls ldp\n neighbor 10.0.0.1 password {}",
        "interface swp1\n ip ospf authentication-key {}",
        "interface swp1\n ip ospf message-digest-key 1 md5 {}",
        "interface swp1\n ip ospf message-digest-key 1 md5 {} 10.0.0.1",
        "interface swp1\n ipv6 ospf6 authentication key-id 1 hash-algo hmac-sha-256 key {}",
        "interface swp1\n isis password clear {}",
        "interface swp1\n isis password md5 {}",
        "interface swp1\n ip rip authentication string {}",
        "interface gre1\n ip nhrp authentication {}",
        "router isis 1\n area-password md5 {} authenticate snp validate",
        "router isis 1\n domain-password clear {}",
        "router ospf\n area 1 virtual-link 10.0.0.1 authentication-key {}",
        "router ospf\n area 0.0.0.1 virtual-link 10.0.0.1 message-digest-key 3 md5 {}",
        "key chain of-links\n key 1\n  key-string {}",
        "router pim\n msdp peer 10.0.0.1 password {}",
        "ip msdp peer 10.0.0.1 password {}",
        "segment-routing\n traffic-eng\n  pcep\n   pce one\n    tcp-md5-auth {}",
        "enable password {}",
    ],
)
def test_a_secret_is_replaced_and_the_rest_stays(line: str) -> None:
    assert without_secrets(line.format(SECRET), KEY) == line.format(HIDDEN)


def test_a_secret_with_spaces_is_one() -> None:
    found = without_secrets("router bgp 1\n neighbor swp1 password two words \n neighbor swp1 bfd\n", KEY)
    digest = blake2b(b"two words", digest_size=4, key=KEY).hexdigest()
    assert found == f"router bgp 1\n neighbor swp1 password <secret:{digest}>\n neighbor swp1 bfd\n"


@pytest.mark.parametrize(
    "line",
    [
        "service password-encryption",
        "router bgp 1\n neighbor password remote-as external",
        "interface swp1\n ip ospf authentication message-digest",
        "interface swp1\n ip ospf authentication key-chain of-links",
        "interface swp1\n description no password here",
        "interface swp1\n ipv6 ospf6 authentication keychain of-links",
        "router ospf\n area 0 authentication message-digest",
        "key chain of-links\n key 1\n  cryptographic-algorithm md5",
    ],
)
def test_other_lines_stay(line: str) -> None:
    assert without_secrets(line, KEY) == line


def test_different_secrets_differ_and_equal_ones_do_not() -> None:
    text = "interface swp1\n isis password md5 {}"
    assert without_secrets(text.format("one"), KEY) == without_secrets(text.format("one"), KEY)
    assert without_secrets(text.format("one"), KEY) != without_secrets(text.format("two"), KEY)


def test_a_digest_cannot_be_guessed_without_its_key() -> None:
    text = "interface swp1\n isis password md5 one"
    assert without_secrets(text, KEY) != without_secrets(text, bytes(32))
    assert without_secrets(text, b"") == "interface swp1\n isis password md5 <secret>"


def test_the_lines_that_are_read_have_no_secret() -> None:
    class Answers:
        def answer_to(self, command: str, timeout: float) -> str:
            assert (command, timeout) == ("write terminal", 3.0)
            return f"router bgp 1\n neighbor swp1 password {SECRET}\nexit\n"

    lines = configuration_lines(running_configuration(cast("Vty", Answers()), KEY, 3.0))
    assert lines == ["router bgp 1", f"router bgp 1 / neighbor swp1 password {HIDDEN}"]
    assert [has_hidden_secret(each) for each in lines] == [False, True]
