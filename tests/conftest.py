"""For all tests: no time limit on an example, since a test says nothing about time and the machine may be busy."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("ours", deadline=None)
settings.load_profile("ours")
