"""`stunwatch report`: an incident as one page, in the order asking, drawing, writing.

`questions` and `contents` ask what `sql/report/` holds, `drawing` draws it, `page` writes it down.
"""
