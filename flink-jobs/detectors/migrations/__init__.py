"""Migrations: how long a vMotion stunned a VM, where only its host's log says so."""
