"""Files for tests to read, packed where their name says so."""

import gzip

import pytest


@pytest.fixture
def file(tmp_path):
    def write(name: str, content: bytes | str) -> str:
        content = content.encode() if isinstance(content, str) else content
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return str(tmp_path / name)

    return write
