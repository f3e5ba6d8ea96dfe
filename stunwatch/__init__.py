"""Find storage problems in the logs of VMware ESXi. docs/architecture.md shows the parts."""
