"""Whether lines and events are all there, told by ClickHouse and the files alone."""
