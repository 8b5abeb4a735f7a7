"""The loads and settings of bench/operate/adaptive.py."""

import pytest
from operate import adaptive


def test_the_recording_is_what_neso_perf_takes():
    gaps = [int(line) for line in adaptive.ARRIVALS.read_text().split()]
    assert 1000 < len(gaps) < 20_000 and min(gaps) >= 0
    assert sum(gaps) / 1e6 == pytest.approx(8, abs=1)


def test_settings():
    fixed = adaptive.config(adaptive.setting(size=16, bound=0, timeout=40, delay=5))
    assert fixed["max_batch_size"] == 16 and "parameters" not in fixed
    assert fixed["dynamic_batching"] == {
        "max_queue_delay_microseconds": 5000,
        "default_queue_policy": {
            "max_queue_size": 0,
            "timeout_action": "REJECT",
            "default_timeout_microseconds": 40_000,
        },
    }
    ours = adaptive.config(None)
    assert ours["dynamic_batching"] == {} and ours["parameters"] == {"latency_objective_ms": {"string_value": "100"}}
    assert adaptive.described(adaptive.setting()) == "max_batch_size 32, max_queue_size 64, delay 0 ms"


class Told(adaptive.Side):
    """A server on which a setting is worth what the test says."""

    def __init__(self, worth):
        self.server, self.worth, self.asked = self, worth, []
        self.name = "told"

    def measure(self, fixed, load):
        self.asked.append(fixed)
        return self.worth(fixed), 0, 0


class Named:
    name = "a load"


def test_search_finds_the_best_and_asks_for_nothing_twice():
    side = Told(lambda s: -abs(s["size"] - 16) - abs(s["bound"] - 32) / 100 + (s["timeout"] == 40) - s["delay"])
    assert side.search(Named) == adaptive.setting(size=16, bound=32, timeout=40, delay=0)
    assert len(side.asked) == len({tuple(s.values()) for s in side.asked}) <= 9
    unbounded = Told(lambda s: s["size"] + s["delay"])
    assert unbounded.search(Named, (0,)) == adaptive.setting(size=64, bound=0, delay=5)
    assert all(s["bound"] == 0 and s["timeout"] == 0 for s in unbounded.asked)
