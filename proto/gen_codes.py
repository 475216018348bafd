#!/usr/bin/env python3
"""Writes neffd_codes.h, the constants of the client library: NEFFD_E... from base/status.def, enums from neffd.proto.

usage: gen_codes.py STATUS.DEF NEFFD.PROTO OUTPUT.h
"""
import re
import sys


def main():
    status, proto, target = sys.argv[1:]
    rows = re.findall(r'^STATUS\((\w+),\s*(\d+),\s*"(\w+)".*"(.*)"\)$', open(status).read(), re.M)
    text = re.sub(r"//.*", "", open(proto).read())
    enums = re.findall(r"^enum (\w+) \{(.*?)\}", text, re.M | re.S)
    if not rows or not enums:
        sys.exit("gen_codes.py: found no rows")
    out = [
        "/* neffd_codes.h: generated, do not edit. Numbers are for ever. */",
        "#ifndef NEFFD_CODES_H",
        "#define NEFFD_CODES_H",
        "",
        "#define NEFFD_OK 0",
        "",
        "enum neffd_code {",
    ]
    width = max(len(row[0]) for row in rows) + len("NEFFD_E")
    for symbol, number, name, meaning in rows:
        if symbol != "OK":
            out.append(f"    NEFFD_E{symbol}".ljust(width + 4) + f" = -{number},".ljust(8) + f"/* {name}: {meaning} */")
    out.append("};")
    for name, body in enums:
        word = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
        out += ["", f"/* neffd.v1.{name} */", f"enum neffd_{word} {{"]
        out += [f"    NEFFD_{symbol} = {number}," for symbol, number in re.findall(r"(\w+)\s*=\s*(\d+)\s*;", body)]
        out.append("};")
    out += ["", "#endif", ""]
    with open(target, "w") as f:
        f.write("\n".join(out))


main()
