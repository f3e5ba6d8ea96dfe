"""Operations: the user who requested what stunned a VM, if the host's log contains it."""
