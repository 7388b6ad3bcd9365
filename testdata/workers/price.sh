#!/bin/sh
# Answers the price of each item in the SQLite database $1. Each quote is
# doubled, so an item stays text.
sed -u "s/'/''/g
	s/.*/SELECT coalesce((SELECT price FROM items WHERE name = '&'), '?');/" |
	sqlite3 -batch "$1"
