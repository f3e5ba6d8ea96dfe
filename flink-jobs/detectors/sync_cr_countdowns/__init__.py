"""Count-downs of retries against a reservation: who is counting, how far, and how it ended."""
