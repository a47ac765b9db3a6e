"""Zip archives read member by member: zstd ones, damaged ones, and none that blows up."""

from __future__ import annotations

import mmap
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bayesjudge.errors import DataError
from bayesjudge.scores.files import unreadable
from bayesjudge.scores.formats.cells import Unreadable

MOST_UNPACKED = 1 << 30
"""Bytes to which one member may unpack."""

ZSTD = 93
UNKNOWN = "packed by a method that is not known:"
_BLOCK = 1 << 22
_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_SIGNATURE = b"PK\x03\x04"
_UTF8_NAME = 0x800
_SIZE_FOLLOWS = 0x8
_ENCRYPTED = 0x1
_ZIP64 = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Member:
    """One file in an archive: where its header lies, and how its content is packed."""

    name: str
    at: int
    method: int
    packed: int
    unpacked: int
    crc: int
    flags: int


@dataclass(frozen=True)
class Archive:
    """An open archive.

    Attributes
    ----------
    members : dict of str to Member
        By name; the last of those that share one, which supersedes the others.
    cut_short : bool
        The list of members at the archive's end was missing or damaged, and
        members were looked for one by one.
    """

    file: IO[bytes]
    members: dict[str, Member]
    cut_short: bool

    def read(self, name: str) -> bytes:
        """Unpack one member.

        Raises
        ------
        Unreadable
            Where it is damaged, too large, encrypted, or packed in a way unknown.
        """
        member = self.members[name]
        if member.flags & _ENCRYPTED:
            raise Unreadable("it is encrypted")
        if member.unpacked > MOST_UNPACKED:
            raise Unreadable(f"it unpacks to more than {MOST_UNPACKED >> 20} MiB")
        try:
            self.file.seek(member.at)
            header = _LOCAL.unpack(self.file.read(_LOCAL.size))
            self.file.seek(header[9] + header[10], 1)
            packed = self.file.read(member.packed)
        except (OSError, struct.error, ValueError, OverflowError) as error:
            raise Unreadable("the archive is damaged or cut short there") from error
        if header[0] != _SIGNATURE:
            raise Unreadable("the archive is damaged where it should begin")
        if len(packed) < member.packed:
            raise Unreadable("the archive is cut short there")
        data = _unpack(packed, member)
        if len(data) != member.unpacked or zlib.crc32(data) != member.crc:
            raise Unreadable("it is damaged: its checksum is wrong")
        return data


def open_archive(path: Path) -> Archive:
    """Open an archive; the caller closes its ``file``.

    Raises
    ------
    DataError
        Where the file cannot be opened.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise unreadable(str(path), error) from error
    try:
        with zipfile.ZipFile(file) as archive:
            members = {
                info.filename: Member(
                    info.filename,
                    info.header_offset,
                    info.compress_type,
                    info.compress_size,
                    info.file_size,
                    info.CRC,
                    info.flag_bits,
                )
                for info in archive.infolist()
            }
    except (
        zipfile.BadZipFile,
        OSError,
        ValueError,
        struct.error,
        OverflowError,
        NotImplementedError,
    ):
        members, cut_short = {m.name: m for m in _find_members(file)}, True
    else:
        cut_short = False
    if not members:
        file.close()
        raise DataError(
            "the archive is damaged: no member of it can be found", str(path), "Copy it again"
        )
    return Archive(file, members, cut_short)


def _find_members(file: IO[bytes]) -> Iterator[Member]:
    """Look for members by their own headers, where the archive's list of them is lost."""
    try:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return
    with data:
        at = data.find(_SIGNATURE)
        while at >= 0:
            member = _member_at(data, at)
            if member is not None:
                yield member
            following = at + 4 if member is None else at + 30 + member.packed
            at = data.find(_SIGNATURE, following)


def _member_at(data: mmap.mmap, at: int) -> Member | None:
    header = data[at : at + _LOCAL.size]
    if len(header) < _LOCAL.size:
        return None
    _, _, flags, method, _, _, crc, packed, unpacked, n_name, n_extra = _LOCAL.unpack(header)
    start = at + _LOCAL.size
    raw, extra = data[start : start + n_name], data[start + n_name : start + n_name + n_extra]
    if _ZIP64 in (packed, unpacked) and len(extra) >= 20 and extra[:2] == b"\x01\x00":
        unpacked, packed = struct.unpack("<QQ", extra[4:20])
    if flags & _SIZE_FOLLOWS and not packed:
        return None
    try:
        name = raw.decode("utf-8" if flags & _UTF8_NAME else "cp437")
    except UnicodeDecodeError:
        return None
    return Member(name, at, method, packed, unpacked, crc, flags)


def _unpack(packed: bytes, member: Member) -> bytes:
    try:
        if member.method == zipfile.ZIP_STORED:
            return packed
        if member.method == zipfile.ZIP_DEFLATED:
            return zlib.decompressobj(-15).decompress(packed, member.unpacked + 1)
        if member.method == ZSTD:
            return _unpack_zstd(packed, member.unpacked)
    except Unreadable:
        raise
    except (zlib.error, OSError, ValueError, OverflowError, MemoryError) as error:
        raise Unreadable("it is damaged and cannot be unpacked") from error
    raise Unreadable(f"it is {UNKNOWN} {member.method}")


def _unpack_zstd(packed: bytes, size: int) -> bytes:
    """Unpack zstd, of which Python knows nothing before 3.14, by pyarrow's own copy."""
    import pyarrow as pa

    if not pa.Codec.is_available("zstd"):
        raise Unreadable(f"it is {UNKNOWN} zstd in this build of pyarrow")
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        # In blocks: what is read at once is allocated at once, whatever a header claims.
        data = bytearray()
        while len(data) <= size and (block := stream.read(_BLOCK)):
            data += block
        return bytes(data)
