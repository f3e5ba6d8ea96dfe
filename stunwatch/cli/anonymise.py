"""`stunwatch anonymise`: copies a bundle with pseudonyms instead of names, for sharing."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from stunwatch.cli.log_options import Datastore, Host, Vm, Year, Zone
from stunwatch.errors import UserError
from stunwatch.ingest.replay import Options
from stunwatch.output import Format, FormatOption, print_json
from stunwatch.printable import Terminal, echo, printable
from stunwatch.times import zone

EXIT_INCOMPLETE = 1
"""Some members could not be read completely."""

_SHORTEST_KEY = 16
_SHOWN = 20
_KINDS = {
    "host": "hosts",
    "vm": "VMs",
    "ds": "datastores",
    "user": "users",
    "snap": "snapshots",
    "file": "disk files",
    "name": "other names",
    "device": "LUNs",
    "address": "IP addresses",
    "uuid": "UUIDs, MACs and WWNs",
    "hexadecimal": "hexadecimal numbers",
    "number": "long numbers",
    "word": "other words",
}


def anonymise(
    bundle: Annotated[Path, typer.Argument(help="A vm-support bundle, archive, folder or log.")],
    output: Annotated[
        Path | None,
        typer.Option(help="The .tgz to write. Default: the bundle's pseudonym, in this folder."),
    ] = None,
    shift_times: Annotated[
        bool, typer.Option("--shift-times", help="Move all times back by the same whole weeks.")
    ] = False,
    key: Annotated[
        Path | None,
        typer.Option(help="A key file, created if missing: bundles with one key share pseudonyms."),
    ] = None,
    mapping: Annotated[
        Path | None,
        typer.Option("--map", help="Write originals and pseudonyms here. Never share this file."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    host: Host = None,
    vm: Vm = None,
    datastore: Datastore = None,
    tz: Zone = "UTC",
    year: Year = None,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Write a copy of a bundle without names, addresses and identifiers, to share it.

    Hosts, VMs, datastores, LUNs, addresses and users get pseudonyms; other words stay only if they
    belong to ESXi's own messages. The copy has the same events. Members that no parser reads are
    left out. Without --key nobody can repeat the pseudonyms. Read docs/anonymise.md before you
    share: it lists what is not protected.

    Exit code 0: every log was read to its end; 1: some were not; 2: nothing was written.

    Examples:

        stunwatch anonymise ./esx-esx01-2024-05-06.tgz

        stunwatch anonymise ./logs --output case-17.tgz --shift-times --key ./key
    """
    from stunwatch.anonymising.bundle import anonymise as write  # noqa: PLC0415
    from stunwatch.anonymising.pseudonyms import Pseudonyms  # noqa: PLC0415 (loads patterns)

    for path in (output, mapping):
        if path is not None and path.exists() and not force:
            raise UserError(f"{path} already exists. Use --force to replace it.")
    console = Terminal(stderr=True)
    pseudonyms = Pseudonyms(_key(key))
    pseudonyms.made = None if mapping is None else {}
    with console.status("reading …") as status:
        summary = write(
            bundle,
            output,
            pseudonyms,
            is_shifted=shift_times,
            is_forced=force,
            options=Options(host=host, vm=vm, datastore=datastore, zone=zone(tz), year=year),
            while_reading=lambda name: status.update(printable(name)),
        )
    if mapping is not None:
        _write_map(mapping, pseudonyms.made or {}, force)
    for problem in summary.problems:
        said = printable(f"{problem.path}: {problem.sentence}")
        console.print(said, style="yellow", highlight=False)
    if output_format is Format.JSON:
        print_json(_document(summary))
    else:
        _show(summary)
    if any(each.is_failure for each in summary.problems):
        raise typer.Exit(EXIT_INCOMPLETE)


def _document(summary: Any) -> dict[str, Any]:
    return {
        "output": summary.output,
        "members": summary.members,
        "lines": summary.lines,
        "pseudonyms": {name: summary.pseudonyms[kind] for kind, name in _KINDS.items()},
        "left_out": summary.left_out,
        "problems": [
            {"path": each.path, "problem": each.sentence, "is_failure": each.is_failure}
            for each in summary.problems
        ],
    }


def _show(summary: Any) -> None:
    echo(f"{summary.output}: {summary.members:,} members, {summary.lines:,} lines")
    for kind, name in _KINDS.items():
        if count := summary.pseudonyms[kind]:
            echo(f"  {count:>9,} {name}")
    if summary.left_out:
        echo(f"Left out, because no parser reads them: {len(summary.left_out):,} members")
        for name in summary.left_out[:_SHOWN]:
            echo(f"  {printable(name)}")
        if len(summary.left_out) > _SHOWN:
            echo(f"  and {len(summary.left_out) - _SHOWN:,} more; --format json lists all")
    echo("Look at the copy before you share it; docs/anonymise.md says what is not protected.")


def _key(path: Path | None) -> bytes:
    """Read the key from a file, or generate one for this run."""
    if path is None:
        return secrets.token_bytes(32)
    try:
        if not path.exists():
            _write_private(path, secrets.token_hex(32).encode() + b"\n", is_forced=False)
        data = path.read_bytes().strip()
    except OSError as error:
        raise UserError(f"Cannot read the key {path}: {(error.strerror or '').lower()}.") from None
    if len(data) < _SHORTEST_KEY:
        raise UserError(f"The key {path} has {len(data)} bytes; it needs at least {_SHORTEST_KEY}.")
    return hashlib.blake2b(data, digest_size=32).digest()


def _write_map(path: Path, made: dict[tuple[str, str], str], force: bool) -> None:
    data = b"".join(
        orjson.dumps({"kind": kind, "original": text, "pseudonym": pseudonym}) + b"\n"
        for (kind, text), pseudonym in made.items()
    )
    try:
        _write_private(path, data, is_forced=force)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {(error.strerror or '').lower()}.") from None


def _write_private(path: Path, data: bytes, *, is_forced: bool) -> None:
    """Write a file that only its owner can read."""
    if is_forced:
        path.unlink(missing_ok=True)
    place = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(place, "wb") as file:
        file.write(data)
