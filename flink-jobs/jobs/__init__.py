"""The programs that Flink runs."""
