"""How the property tests run: the same examples every time, whatever else the machine does."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A busy machine makes an example slow; that is no finding about the code. Times are bounded by tests of their own.
settings.register_profile("payrec", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("payrec")
