"""A line becomes a record: heads, times, records, and the replay of files."""
