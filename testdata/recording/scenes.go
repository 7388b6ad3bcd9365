package main

import (
	"fmt"
	"strings"
	"time"
)

const beat = 600 * time.Millisecond // between the ends of two tasks, at least

// films shows a run with a bar and a failure, and then the command that reruns what failed. The frame in
// which all three are seen comes first, too.
func films(s *session) {
	s.await(`^\$\n`)
	s.enter("crew -j4 ./encode {} {.}.mp4 ::: *.avi")
	s.await(`0/8 done, 4 running`, `longest: \S+ alps.avi, \S+ coast.avi, \S+ delta.avi, \S+ dunes.avi`)
	s.shot(800 * time.Millisecond)
	for i, line := range []string{
		"coast.avi: 24 min, 310 MB", "!dunes.avi: unexpected end of file", "alps.avi: 51 min, 702 MB", "fjord.avi: 33 min, 451 MB",
		"delta.avi: 18 min, 233 MB", "hills.avi: 12 min, 148 MB", "geyser.avi: 47 min, 640 MB",
	} {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "!"), ":")
		s.pace(beat)
		s.cue(name, line)
		s.await(fmt.Sprintf(`crew: %d/8 done, %d running`, i+1, min(4, 7-i)), `longest: \S+ \w`)
		s.shot(500 * time.Millisecond)
		if name == "dunes.avi" {
			s.shot(700 * time.Millisecond)
		}
	}
	s.pace(beat)
	s.cue("lagoon.avi", "lagoon.avi: 29 min, 388 MB")
	s.await(`run it again: crew -j4 \./encode \{\} \{\.\}\.mp4 ::: dunes\.avi\n\$\n`)
	s.shot(1500 * time.Millisecond)
	s.enter("crew -j4 ./encode {} {.}.mp4 ::: dunes.avi")
	s.await(`0/1 done, 1 running`, `longest: \S+ dunes.avi`)
	s.shot(1500 * time.Millisecond)
	first := s.frames[len(s.frames)-1]
	first.still, first.stays = true, 3*time.Second
	s.pace(2 * beat)
	s.cue("dunes.avi", "dunes.avi: 37 min, 505 MB")
	s.await(`505 MB\n(crew: .*\n)?\$\n`)
	s.shot(1500 * time.Millisecond)
	s.frames = append([]frame{first}, s.frames...)
}
