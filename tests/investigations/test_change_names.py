"""Names in changes may contain any bytes: no name hides the effects of other changes."""

from __future__ import annotations

from tests.clickhouse_server import Server

NAMES = (r"esx\xff", r"esx\'\\\n01", "esx-ü", "esx01.lab.example")
"""Names as ClickHouse's literals. The first is not UTF-8, as an argument of `change add` may be."""


def test_every_change_has_effects_whatever_its_names(server: Server) -> None:
    for number, name in enumerate(NAMES):
        server.admin.command(
            "INSERT INTO changes_stored (change_id, changed_at, kind, title, host, is_deleted)"
            " VALUES"
            f" (generateUUIDv4(), '2024-03-0{number + 1} 06:00:00', 'other', 'a', '{name}', 0)"
        )
    names = ", ".join(f"'{name}'" for name in NAMES)
    [(changes, kept, rows)] = server.reader.rows(
        f"SELECT uniqExact(change_id), countIf(host IN ({names})), count() FROM change_effects"
    )
    assert changes == len(NAMES)
    assert kept == rows > 0
