#!/usr/bin/env python3
"""Answers the SHA-256 of each file, of several at once."""
import concurrent.futures
import hashlib
import json
import sys


def say(**answer):
    # One write for a line, so that threads do not mix theirs.
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def answer(record):
    try:
        digest = hashlib.sha256()
        with open(record["args"][0], "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
                say(id=record["id"], progress=file.tell())
        say(id=record["id"], exit=0, stdout=digest.hexdigest() + "\n")
    except Exception as error:
        say(id=record["id"], exit=1, stderr=f"{error}\n")


with concurrent.futures.ThreadPoolExecutor() as pool:
    for line in sys.stdin:
        pool.submit(answer, json.loads(line))
