"""A service with a console, and a browser that looks at it."""

from __future__ import annotations

from support.browser import anonymous, axe, browser, console_world, page, shot

__all__ = ["anonymous", "axe", "browser", "console_world", "page", "shot"]
