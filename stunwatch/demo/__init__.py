"""The data and the code of `stunwatch demo`: an incident to replay, and a live scenario."""
