package main

import (
	"fmt"
	"os/exec"
	"strings"
	"time"
)

const beat = 900 * time.Millisecond // between the ends of two tasks, at least

// films shows the bar, a failure as it happens, and the digest.
func films(s *session) {
	s.await(`^\$\n`)
	s.enter("crew -j4 ./encode {} {.}.mp4 ::: *.avi")
	s.await(`0/12 done, 4 running`, `longest: \S+ alps.avi, \S+ coast.avi, \S+ delta.avi, \S+ dunes.avi`)
	s.shot(1200 * time.Millisecond)
	for i, line := range []string{
		"coast.avi: 24 min, 310 MB", "alps.avi: 51 min, 702 MB", "!dunes.avi: unexpected end of file", "fjord.avi: 33 min, 451 MB",
		"delta.avi: 18 min, 233 MB", "hills.avi: 12 min, 148 MB", "geyser.avi: 47 min, 640 MB", "lagoon.avi: 29 min, 388 MB",
		"tundra.avi: 22 min, 301 MB", "steppe.avi: 41 min, 562 MB", "volcano.avi: 38 min, 527 MB",
	} {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "!"), ":")
		s.pace(beat)
		s.cue(name, line)
		s.await(fmt.Sprintf(`crew: %d/12 done, %d running`, i+1, min(4, 11-i)), `longest: \S+ \w`)
		s.shot(600 * time.Millisecond)
		if name == "dunes.avi" {
			s.shot(1200 * time.Millisecond)
		}
	}
	s.pace(beat)
	s.cue("rapids.avi", "rapids.avi: 16 min, 207 MB")
	s.await(`run it again: .*\n\$\n`)
	s.shot(4 * time.Second)
	s.frames[len(s.frames)-1].still = true
}

// night shows a run in the background on the whole screen, and gives it a worker more.
func night(s *session) {
	s.enter("crew --name night -j4 --cap gpu=1 -C, --needs {2} ./job {1} <jobs &>log &")
	s.await(`\[1\] \d+\n\$\n`)
	s.until("the run", func() bool {
		status := exec.Command(s.shell.Dir+"/../bin/crew", "ctl", "status", "night")
		status.Env = s.shell.Env
		return status.Run() == nil
	})
	s.enter("crew ctl top night")
	const keys = `\n q quit .*\n$`
	s.await(`4 running`, `1 task waits for gpu`, keys)
	s.pace(3 * beat)
	s.await(keys)
	s.shot(1600 * time.Millisecond)
	ended := func(done int, name, line, seen string) {
		s.pace(2 * beat)
		s.cue(name, line)
		s.await(fmt.Sprintf(`%d of 10 tasks finished`, done), seen, keys)
		s.shot(1100 * time.Millisecond)
	}
	ended(1, "thumbs", "", `task 5: ok`)
	ended(2, "small", "!no model", `task 3: exit 1`)
	s.press("+")
	s.await(`5 running`, `2 tasks wait for a worker`, keys)
	s.shot(1100 * time.Millisecond)
	ended(3, "large", "", `task 2: ok`)
	for row := range 2 {
		s.press("j")
		const first = 5 // task
		s.until("the choice", func() bool { return !s.read(time.Now().Add(quiet)) && s.screen.cells[first+row+1][0].look.reverse })
		s.shot(500 * time.Millisecond)
	}
	ended(4, "report", "", `task 7: ok`)
	s.press("q")
	s.await(`top night\n\$\n`)
	s.shot(1500 * time.Millisecond)
}
