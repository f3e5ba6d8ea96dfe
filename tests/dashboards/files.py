"""The files of the dashboards, read once for all tests of a run."""

from __future__ import annotations

from stunwatch.dashboards import assets

FILES = assets.read()
