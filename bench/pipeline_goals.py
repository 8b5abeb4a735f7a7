"""The goals for ensembles, BLS, streams, sequences and the response cache, all against the peer in the same run."""

from verdicts import MISSED, UNKNOWN, Row, failure_of, judge, median_of, no_errors, relative, sides_of


def _at_least(results, name, times):
    return relative(results, name, "rps", times, f"at least {times} times the requests/s")


def _ensembles(results):
    for kind in ("64 B", "strings"):
        for protocol in ("HTTP", "gRPC"):
            for c in (8, 32):
                name = f"ensemble of three, {kind}, {protocol}, c{c}"
                yield _at_least(results, name, 3)
                yield relative(results, name, "cpu_us", 0.35, "at most 0.35 times the CPU a request", at_most=True)
    yield _at_least(results, "ensemble of three, 1 MiB, HTTP, c8", 3)


def _added(results, size):
    """What one call adds to the latency of its callee, against what it adds in the peer."""
    name = f"BLS one exec, {size}, HTTP, c1"
    goal = f"{name}: at most 0.4 times the latency that the call adds to its callee's"
    through, alone = (sides_of(results, f"BLS {who}, {size}, HTTP, c1") for who in ("one exec", "callee alone"))
    broken = failure_of(through[0]) or failure_of(alone[0])
    added = []
    for a, b in zip(through, alone):
        with_call, without = median_of(a, "p50_us"), median_of(b, "p50_us")
        added.append(None if with_call is None or without is None else with_call - without)
    neso, peer = added
    if neso is None or peer is None:
        return Row(goal, broken, MISSED if broken else UNKNOWN)
    if peer <= 0:  # a busy machine can make the callee look slower than the call
        return Row(goal, f"the peer's call adds {peer:,.0f} µs", UNKNOWN)
    return judge(goal, neso / peer, 0.4, "{:.2f} times (" + f"{neso:,.0f} µs against {peer:,.0f} µs)")


def _bls(results):
    for size in ("64 B", "1 MiB"):
        yield _added(results, size)
        for c in (8, 32):
            yield _at_least(results, f"BLS one exec, {size}, HTTP, c{c}", 4)


def _streams(results):
    for c in (1, 8):
        name = f"decoupled, 100 responses, gRPC stream, c{c}"
        yield relative(results, name, "rps", 3, "at least 3 times the responses/s")
        yield no_errors(results, name)


def _sequences(results):
    name = "sequences, HTTP, c1000"
    yield _at_least(results, name, 2)
    yield relative(results, name, "p99_us", 1, "p99 not above the peer's", at_most=True)
    yield no_errors(results, name)


def _cache(results):
    for protocol, times in (("HTTP", 1.3), ("gRPC", 2)):
        for c in (8, 32):
            yield _at_least(results, f"cache hit, 64 B, {protocol}, c{c}", times)


def rows(results):
    """One row a goal and scenario."""
    for group in (_ensembles, _bls, _streams, _sequences, _cache):
        yield from group(results)
