"""Log lines become records: line heads, timestamps, records, and the replay of files."""
