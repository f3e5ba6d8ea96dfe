"""`stunwatch report`: renders an incident as one HTML page in three steps: query, draw, render.

`questions` and `contents` run the queries of `sql/queries/report/`, `drawing` draws the charts,
`page` renders the page.
"""
