#!/usr/bin/env -S jq --unbuffered -cf
# Multiplies the price and the number of each order. What is no number
# fails that record alone.
{id} + try {exit: 0, stdout: "\(.fields | (.price | tonumber) * (.count | tonumber))\n"}
	catch {exit: 1, stderr: "\(.)\n"}
