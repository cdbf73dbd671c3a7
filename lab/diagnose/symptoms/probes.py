"""Symptoms from path sweeps and pings: which packet sizes pass on which paths, and where the failing paths differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.diagnose.symptom import Evidence, Sign

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lab.diagnose.facts import Ran, Swept, SweptPair, WindowFacts

_FEW: Final = 3
"""The minimum number of packets of a size to conclude that none passes."""
_MOST: Final = 0.5
"""Share of small packets. If more are lost, size is not the reason."""


def missing(facts: WindowFacts) -> int:
    """Return the number of packets of all sweeps that were sent and not received; copies do not count."""
    counts = [(each.sent, each.came) for each in facts.swept]
    counts += [(each.large_sent, each.large_came) for each in facts.swept]
    counts += [(each.sent, each.came) for each in facts.swept_pairs]
    return sum(max(0, sent - came) for sent, came in counts)


def swept_to(facts: WindowFacts, nic: str) -> int:
    """Return how many packets of a sweep reached a NIC. They belong to a queue pair that no device has."""
    ends = {port.name for port in facts.links_of(nic)}
    names = {nic, nic.partition(":")[0], facts.nic_of(nic)}  # as a pair names it: or its host, or its port's bond
    of_paths = sum(each.came + each.large_came for each in facts.swept if facts.peer(each.path[-1]) in ends)
    return of_paths + sum(each.came for each in facts.swept_pairs if each.dst in names)


def only_small_probes_pass(facts: WindowFacts) -> Iterator[Sign]:
    """A path passes only small packets of a sweep. Signs name links that no path with large packets uses."""
    yield from _on_links(facts, _only_small, lambda each: each.large_came > 0)


def some_probes_vanish(facts: WindowFacts) -> Iterator[Sign]:
    """A path loses some packets of a sweep, whatever their size. Signs name links that no clean path uses."""
    yield from _on_links(facts, _some, _clean)


def no_probe_passes(facts: WindowFacts) -> Iterator[Sign]:
    """A path passes no packet of a sweep. Signs name switches that no passing path uses."""
    failing = [each for each in facts.swept if each.sent >= _FEW and not each.came and not each.large_came]
    passing = {node for each in facts.swept if each.came for node in _switches(each)}
    for node in dict.fromkeys(node for each in failing for node in _switches(each)):
        if node not in passing:
            yield Sign(node, tuple(_line(each) for each in failing if node in _switches(each))[:2])


def only_small_pings_pass(facts: WindowFacts) -> set[str]:
    """Return the NICs at both ends of DF pings if small ones are answered and large ones are not."""
    nic_of = {address: nic for nic, address in facts.addresses.items()}
    return {
        nic
        for sources, address, _ in _only_small_pings(facts)
        for nic in (*sources, *([nic_of[address]] if address in nic_of else []))
    }


def large_pings_are_lost(facts: WindowFacts) -> Iterator[Sign]:
    """A large DF ping is not answered, and a small one from the same NIC to the same address is."""
    for sources, address, ran in _only_small_pings(facts):
        if address in facts.addresses.values():
            says = f"not answered, unlike a small one: {' '.join(ran.argv)}; see the path MTU: ip route get {address}"
            for nic in sources:
                yield Sign(nic, (Evidence(says=says, of=nic, source="ping", value=0, at=ran.seconds),))


def _only_small_pings(facts: WindowFacts) -> Iterator[tuple[tuple[str, ...], str, Ran]]:
    """Yield the NICs and the address of DF pings that only the smallest passes, and the largest of them."""
    found: dict[tuple[tuple[str, ...], str], dict[int, Ran]] = {}
    for ran in facts.ran:
        if ran.argv[:1] == ("ping",) and "do" in ran.argv and "-s" in ran.argv[:-1]:
            size = ran.argv[ran.argv.index("-s") + 1]
            if size.isdigit():
                found.setdefault((pinging(facts, ran), ran.argv[-1]), {})[int(size)] = ran
    for (sources, address), sizes in found.items():
        if not sizes[min(sizes)].exit_code and sizes[max(sizes)].exit_code:
            yield sources, address, sizes[max(sizes)]


def pinging(facts: WindowFacts, ran: Ran) -> tuple[str, ...]:
    """Return the NICs by which a ping leaves: that of its ``-I`` option, or those of the route."""
    if "-I" in ran.argv[:-1]:
        source = ran.argv[ran.argv.index("-I") + 1]
        return tuple(
            nic for nic, address in facts.addresses.items() if source in {address, nic.partition(":")[2]}
            and nic.partition(":")[0] == ran.node
        ) or (ran.node,)  # fmt: skip
    return facts.nics_that_reach(ran.node, ran.argv[-1])


def probes_are_missing(facts: WindowFacts) -> Iterator[Sign]:
    """Packets of a sweep are lost, for any reason."""
    failing = [each for each in facts.swept if not _clean(each)]
    if failing:
        yield Sign("", tuple(map(_line, failing)))
    pairs = [each for each in facts.swept_pairs if each.came < each.sent or not each.sent]
    if pairs:
        yield Sign("", tuple(map(_line_of_pair, pairs)))


def _on_links(facts: WindowFacts, fails: Callable[[Swept], bool], passes: Callable[[Swept], bool]) -> Iterator[Sign]:
    failing = [each for each in facts.swept if fails(each)]
    sound = {port for each in facts.swept if passes(each) for port in each.path}
    for port in dict.fromkeys(port for each in failing for port in each.path):
        if port not in sound and facts.peer(port):
            yield Sign(f"{port}--{facts.peer(port)}", tuple(_line(each) for each in failing if port in each.path)[:2])


def _only_small(swept: Swept) -> bool:
    lost = swept.sent - swept.came
    return swept.large_sent >= _FEW and not swept.large_came and swept.came > 0 and lost < swept.sent * _MOST


def _some(swept: Swept) -> bool:
    return swept.came > 0 and not _only_small(swept) and not _clean(swept)


def _clean(swept: Swept) -> bool:
    return swept.came == swept.sent and swept.large_came == swept.large_sent


def _switches(swept: Swept) -> tuple[str, ...]:
    return tuple(port.partition(":")[0] for port in swept.path[1:])


def _line(swept: Swept) -> Evidence:
    ports = " ".join(swept.path)
    says = (
        f"of {swept.sent} small packets and {swept.large_came} of {swept.large_sent} of {swept.size} octets arrived,"
        f" by UDP source port {swept.port}: {ports}"
    )
    return Evidence(says=says, of=swept.path[0], source="sweep", value=swept.came, at=swept.seconds)


def _line_of_pair(pair: SweptPair) -> Evidence:
    says = f"of {pair.sent} small packets to {pair.dst} arrived" if pair.sent else f"no packet leaves for {pair.dst}"
    return Evidence(says=says, of=pair.src, source="sweep", value=pair.came, at=pair.seconds)
