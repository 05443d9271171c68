#!/usr/bin/env python3
"""Writes the messages of an IMAP folder for Sluice, and says which are gone:

    IMAP_PASSWORD=… sluice ingest --from 'python3 imap.py mail.example.org ann INBOX' --watch

The cursor holds the numbers of the messages that are known, so that each is fetched once.
"""
import base64
import imaplib
import json
import os
import sys

host, user, folder = sys.argv[1:4]
name, _, port = host.partition(":")
known = json.loads(os.environ.get("SLUICE_CURSOR") or '{"uids": []}')
plain = os.environ.get("IMAP_PLAIN")  # for a server on this machine, without TLS
server = imaplib.IMAP4(name, int(port or 143)) if plain else imaplib.IMAP4_SSL(name, int(port or 993))
server.login(user, os.environ["IMAP_PASSWORD"])
server.select(f'"{folder}"', readonly=True)
era = server.response("UIDVALIDITY")[1][0].decode()  # numbers mean other messages in another one
if known.get("era") != era:
    known = {"era": era, "uids": []}
there = [int(n) for n in server.uid("search", "ALL")[1][0].split()]


def say(**fields):
    print(json.dumps(fields), flush=True)


def where(uid):
    return f"imap://{user}@{name}/{folder}/{uid}"


for uid in set(known["uids"]) - set(there):
    say(id=where(uid), deleted=True)
for uid in sorted(set(there) - set(known["uids"])):
    message = server.uid("fetch", str(uid), "(BODY.PEEK[])")[1][0][1]
    say(id=where(uid), source=where(uid), type="eml", bytes=base64.b64encode(message).decode())
say(cursor=json.dumps({"era": era, "uids": there}))
server.logout()
