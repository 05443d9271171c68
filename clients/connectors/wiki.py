#!/usr/bin/env python3
"""Writes the pages of a MediaWiki dump (XML, or packed as .bz2) for Sluice:

    sluice ingest --from 'python3 wiki.py dump.xml.bz2 https://wiki.example.org/wiki/'

The cursor is the time of the newest revision: of a later dump, only what has changed since is written.
"""
import bz2
import json
import os
import re
import sys
import xml.etree.ElementTree as xml

path, address = sys.argv[1:3]
since = newest = os.environ.get("SLUICE_CURSOR", "")
with (bz2.open if path.endswith(".bz2") else open)(path, "rb") as dump:
    for _, page in xml.iterparse(dump):
        if page.tag.rpartition("}")[2] != "page":
            continue
        fields = {e.tag.rpartition("}")[2]: (e.text or "") for e in page.iter()}
        if fields["ns"] == "0" and "redirect" not in fields and fields["timestamp"] > since:
            text = re.sub(r"\[\[(?:[^|\]]*\|)?([^\]]*)\]\]", r"\1", fields["text"])  # links to their words
            text = re.sub(r"'''?|<ref[^>]*/>|<ref.*?</ref>|\{\{[^{}]*\}\}", "", text, flags=re.S)
            text = re.sub(r"^=+ *(.*?) *=+ *$", r"# \1", text, flags=re.M)
            title = fields["title"]
            print(json.dumps({"id": "wiki/" + title, "title": title, "text": text, "modified": fields["timestamp"],
                              "source": address + title.replace(" ", "_")}), flush=True)
        newest = max(newest, fields["timestamp"])
        page.clear()
print(json.dumps({"cursor": newest}))
