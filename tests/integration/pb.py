"""A small protobuf codec that reads its messages from proto/neffd.proto itself, so that the tests need no generated code and no
protobuf package, and see the wire as any other client does. Messages are dicts; absent fields have their proto3 default."""
import re
import struct
from pathlib import Path

SCALARS = {"uint64", "uint32", "int32", "int64", "bool", "double", "string", "bytes"}


class Schema:
    def __init__(self, *paths):
        self.messages, self.enums = {}, {}
        for path in paths:
            self._read(re.sub(r"//[^\n]*", "", Path(path).read_text()))

    def _read(self, text):
        for m in re.finditer(r"enum (\w+) \{([^}]*)\}", text):
            self.enums[m[1]] = {k: int(v) for k, v in re.findall(r"(\w+)\s*=\s*(\d+)", m[2])}
        for m in re.finditer(r"message (\w+) \{((?:[^{}]|\{[^{}]*\})*)\}", text):
            body = re.sub(r"oneof \w+ \{([^}]*)\}", r"\1", m[2])
            body = re.sub(r"enum \w+ \{[^}]*\}", "", body)
            fields = {}
            for f in re.finditer(r"(repeated )?([\w.]+) (\w+)\s*=\s*(\d+);", body):
                fields[int(f[4])] = (f[3], f[2].split(".")[-1], bool(f[1]))
            self.messages[m[1]] = fields

    def encode(self, name, value):
        out = bytearray()
        by_name = {f[0]: (n, f[1], f[2]) for n, f in self.messages[name].items()}
        for key, val in value.items():
            number, kind, repeated = by_name[key]
            for item in val if repeated else [val]:
                out += self._field(number, kind, item)
        return bytes(out)

    def _field(self, number, kind, val):
        if kind in ("string", "bytes"):
            data = val.encode() if isinstance(val, str) else bytes(val)
            return varint(number << 3 | 2) + varint(len(data)) + data
        if kind == "double":
            return varint(number << 3 | 1) + struct.pack("<d", val)
        if kind in self.messages:
            data = self.encode(kind, val)
            return varint(number << 3 | 2) + varint(len(data)) + data
        if isinstance(val, str):
            val = self.enums[kind][val]
        return varint(number << 3) + varint(int(val) & (2**64 - 1))

    def decode(self, name, data):
        fields = self.messages[name]
        out = {f[0]: [] if f[2] else self._default(f[1]) for f in fields.values()}
        at = 0
        while at < len(data):
            tag, at = read_varint(data, at)
            number, wire = tag >> 3, tag & 7
            if wire == 0:
                val, at = read_varint(data, at)
            elif wire == 1:
                val, at = struct.unpack_from("<d", data, at)[0], at + 8
            elif wire == 2:
                n, at = read_varint(data, at)
                val, at = bytes(data[at:at + n]), at + n
            else:
                raise ValueError(f"wire type {wire}")
            if number not in fields:
                continue
            key, kind, repeated = fields[number]
            if wire == 2 and repeated and kind in ("uint32", "uint64"):
                p = 0
                while p < len(val):
                    v, p = read_varint(val, p)
                    out[key].append(v)
                continue
            if kind == "string":
                val = val.decode()
            elif kind == "bool":
                val = bool(val)
            elif kind == "int32" and val >= 2**63:
                val -= 2**64
            elif kind in self.messages:
                val = self.decode(kind, val)
            elif kind in self.enums:
                val = next((k for k, v in self.enums[kind].items() if v == val), val)
            if repeated:
                out[key].append(val)
            else:
                out[key] = val
        return out

    def _default(self, kind):
        if kind == "string":
            return ""
        if kind == "bytes":
            return b""
        if kind == "bool":
            return False
        if kind == "double":
            return 0.0
        if kind in SCALARS:
            return 0
        if kind in self.enums:
            return next(k for k, v in self.enums[kind].items() if v == 0)
        return None


def varint(v):
    out = bytearray()
    while v > 0x7F:
        out.append(v & 0x7F | 0x80)
        v >>= 7
    out.append(v)
    return bytes(out)


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
