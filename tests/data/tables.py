"""Tables as text."""

import csv
import io


def comma_separated(rows) -> str:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(rows)
    return written.getvalue()
