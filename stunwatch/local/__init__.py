"""The local pipeline: downloads, start, supervision and stop of its components."""
