"""What a host lost on its way to storage, and what it got back."""
