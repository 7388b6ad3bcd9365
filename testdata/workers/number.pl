#!/usr/bin/perl
# Numbers the events of each user, the first word of a line, from 1.
use strict;
use warnings;
$| = 1; # write each answer at once

my %events;
while (my $event = <STDIN>) {
	my ($user) = split ' ', $event;
	print ++$events{$user // ''}, " $event";
}
