"""Zip archives: zstd, damage, and none that blows up."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

import pyarrow as pa
import pytest

from bayesjudge.errors import DataError
from bayesjudge.scores.formats import archives
from bayesjudge.scores.formats.archives import open_archive
from bayesjudge.scores.formats.cells import Unreadable
from benchmarks.inspect_log import _Zstd

CONTENT = {"a.json": b"[1, 2]", "dir/ب.json": b"x" * 3000, "c": b""}


def zipped(method=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in CONTENT.items():
            archive.writestr(name, data)
    return out.getvalue()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.eval"


def contents(path):
    archive = open_archive(path)
    with archive.file:
        return {name: archive.read(name) for name in archive.members}, archive.cut_short


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_come_back(path, method):
    path.write_bytes(zipped(method))
    assert contents(path) == (CONTENT, False)


def test_zstd_of_one_frame_or_several(path):
    codec = pa.Codec("zstd")
    with _Zstd(path, "w") as archive:
        archive.put("a", b"y" * 10_000, codec)
    assert contents(path) == ({"a": b"y" * 10_000}, False)
    whole = codec.compress(b"one", asbytes=True) + codec.compress(b"two", asbytes=True)
    assert archives._unpack_zstd(whole, 6) == b"onetwo"


def test_members_are_found_without_their_list(path):
    data = zipped()
    path.write_bytes(data[: data.index(b"PK\x01\x02")])
    assert contents(path) == (CONTENT, True)


def test_a_member_whose_bytes_were_changed_is_refused(path):
    data = bytearray(zipped(zipfile.ZIP_STORED))
    data[data.index(b"xxx") + 5] ^= 1
    path.write_bytes(data)
    archive = open_archive(path)
    with archive.file:
        assert archive.read("a.json") == CONTENT["a.json"]
        with pytest.raises(Unreadable, match="checksum"):
            archive.read("dir/ب.json")


def test_a_member_that_blows_up_is_refused_before_it_does(path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_UNPACKED", 1000)
    path.write_bytes(zipped())
    archive = open_archive(path)
    with archive.file, pytest.raises(Unreadable, match="unpacks to more than"):
        archive.read("dir/ب.json")


@pytest.mark.parametrize("zstd", [True, False])
def test_a_member_that_lies_about_its_size_is_not_unpacked_further(path, zstd):
    bomb = b"\0" * 50_000_000
    with _Zstd(path, "w") as archive:
        if zstd:
            archive.put("a", bomb, pa.Codec("zstd"))
        else:
            archive.writestr("a", bomb, zipfile.ZIP_DEFLATED)
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    struct.pack_into("<I", data, at + 24, 10)
    path.write_bytes(data)
    made = open_archive(path)
    with made.file:
        packed = made.members["a"].packed
        with pytest.raises(Unreadable, match="checksum"):
            made.read("a")
    assert packed < 100_000
    assert len(archives._unpack_zstd(pa.Codec("zstd").compress(bomb, asbytes=True), 10)) < 1 << 23


def test_what_cannot_be_read_says_why(path):
    data = bytearray(zipped())
    at = data.index(b"PK\x01\x02")
    for offset, value, told in (
        (8, 0x801, "encrypted"),
        (10, 99, "packed by a method"),
        (42, 5, "damaged where it should begin"),
    ):
        changed = bytearray(data)
        struct.pack_into("<H", changed, at + offset, value)
        path.write_bytes(changed)
        archive = open_archive(path)
        with archive.file, pytest.raises(Unreadable, match=told):
            archive.read("a.json")


def test_no_archive_at_all(path):
    for data in (b"", b"PK", b"PK\x03\x04" + b"\xff" * 40, b"nonsense" * 20):
        path.write_bytes(data)
        with pytest.raises(DataError, match="no member of it can be found"):
            open_archive(path)
    with pytest.raises(DataError, match="cannot be read"):
        open_archive(path.with_name("gone"))


def test_checksums_are_zips_own():
    assert zlib.crc32(b"123456789") == 0xCBF43926
