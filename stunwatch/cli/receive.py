"""`stunwatch receive`: receives syslog over TCP and TLS, and forwards it to Fluent Bit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stunwatch.errors import UserError


def receive(
    listen: Annotated[
        str,
        typer.Option(envvar="STUNWATCH_LISTEN", help="The address to listen on; 0.0.0.0 for all."),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            envvar="STUNWATCH_SYSLOG_TCP_PORT",
            help="The TCP port for messages that end with a line feed.",
        ),
    ] = 10514,
    tls_port: Annotated[
        int, typer.Option(envvar="STUNWATCH_SYSLOG_TLS_PORT", help="The same with TLS.")
    ] = 11514,
    counted_port: Annotated[
        int,
        typer.Option(
            envvar="STUNWATCH_SYSLOG_COUNTED_PORT",
            help="The TCP port for messages that start with their length (RFC 6587).",
        ),
    ] = 10601,
    counted_tls_port: Annotated[
        int,
        typer.Option(
            envvar="STUNWATCH_SYSLOG_TLS_COUNTED_PORT",
            help="The same with TLS.",
        ),
    ] = 16514,
    certificate: Annotated[
        Path,
        typer.Option(
            envvar="STUNWATCH_TLS_CERTIFICATE", help="The certificate and its chain, PEM."
        ),
    ] = Path("var/tls/syslog.crt"),
    key: Annotated[
        Path, typer.Option(envvar="STUNWATCH_TLS_KEY", help="The private key, PEM.")
    ] = Path("var/tls/syslog.key"),
    tls: Annotated[bool, typer.Option("--tls", help="Also listen on the two TLS ports.")] = False,
    fluent_bit_host: Annotated[
        str,
        typer.Option(envvar="STUNWATCH_FLUENT_BIT_HOST", help="The host on which Fluent Bit runs."),
    ] = "127.0.0.1",
    fluent_bit_port: Annotated[
        int,
        typer.Option(
            envvar="STUNWATCH_SYSLOG_LINES_PORT",
            help="The port of Fluent Bit that receives the lines.",
        ),
    ] = 10515,
    connections: Annotated[
        int, typer.Option(min=1, help="Connections in total, at most.")
    ] = 10_000,
    connections_of_a_sender: Annotated[
        int, typer.Option(min=1, help="Connections from one address, at most.")
    ] = 100,
) -> None:
    """Receive syslog over TCP and TLS, and pass it on to Fluent Bit.

    It runs until you stop it. While Fluent Bit does not answer, senders wait.

    Examples:

        stunwatch receive

        STUNWATCH_LISTEN=0.0.0.0 stunwatch receive --port 1514
    """
    import asyncio  # noqa: PLC0415 (slow to import)

    from stunwatch import receiving  # noqa: PLC0415
    from stunwatch.ingest.syslog_lines import Counted, Lines  # noqa: PLC0415

    ports = [receiving.Port(port, Lines), receiving.Port(counted_port, Counted)]
    if tls:
        try:
            context = receiving.tls_context(certificate, key)
        except OSError as error:
            raise UserError(
                f"Cannot read the certificate {certificate} or the key {key}:"
                f" {(error.strerror or str(error)).lower()}. Name both with --certificate and"
                " --key; docs/security.md shows how to make them."
            ) from None
        ports += [
            receiving.Port(tls_port, Lines, context),
            receiving.Port(counted_tls_port, Counted, context),
        ]
    outlet = receiving.Outlet(fluent_bit_host, fluent_bit_port)
    limits = receiving.Limits(connections, connections_of_a_sender)
    try:
        asyncio.run(receiving.serve(outlet, limits, listen, ports))
    except OSError as error:
        raise UserError(
            f"Cannot listen on {listen}: {(error.strerror or str(error)).lower()}. Choose another"
            " address with --listen or other ports; ports below 1024 need root."
        ) from None
