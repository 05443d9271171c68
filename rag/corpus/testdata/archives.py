"""Makes the archives of archives_test.go that Go cannot write, with Python's standard library:

    python archives.py FOLDER
"""
import bz2
import io
import lzma
import os
import sys
import tarfile
import time

os.chdir(sys.argv[1])


def tar(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
        for name, text in members:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(text), 1700000000
            t.addfile(info, io.BytesIO(text))
    return out.getvalue()


notes = tar([("notes/tide.md", b"# Tide\n\nThe tide turns at noon.\n"), ("notes/wind.txt", b"The bora is cold.\n")])
open("notes.tar.xz", "wb").write(lzma.compress(notes, preset=6))
open("notes.tar.bz2", "wb").write(bz2.compress(notes))
# A dictionary of 1.5 GiB, which nobody needs for 100 bytes.
big = [{"id": lzma.FILTER_LZMA2, "dict_size": 1536 << 20, "mode": lzma.MODE_FAST, "mf": lzma.MF_HC3, "nice_len": 8}]
open("wide.txt.xz", "wb").write(lzma.compress(b"The harbour freezes.\n", filters=big))
