"""Failed storage commands, counted by device, path and status."""
