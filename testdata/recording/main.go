// Command recording writes an animated SVG of crew at work to standard output:
//
//	go run ./testdata/recording > man/crew.svg
//
// It builds crew, types commands to a shell on a pseudo-terminal, and takes a picture
// whenever the screen shows what it waits for. The tasks are scripts that end when they are
// told to, so what is seen does not depend on how fast the machine is. How long a picture
// stays is not how long it took.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func main() {
	frames, err := record()
	if err == nil {
		_, err = os.Stdout.WriteString(picture(frames))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

// record returns what the terminal showed.
func record() (frames []frame, err error) {
	dir, err := os.MkdirTemp("", "recording")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", dir+"/bin/", ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("build crew: %w", err)
	}
	s, err := stage(dir)
	if err != nil {
		return nil, err
	}
	defer s.close()
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p
		default:
			panic(p)
		}
	}()
	films(s)
	return s.frames, nil
}

// A script is a task: it ends once it is told what to say.
const script = `#!/bin/sh
read -r cue < "$CUES/$1"
case $cue in
!*) echo "${cue#!}" >&2; exit 1 ;;
?*) echo "$cue" ;;
esac
`

var names = []string{"alps.avi", "coast.avi", "delta.avi", "dunes.avi", "fjord.avi", "geyser.avi", "hills.avi", "lagoon.avi"}

// stage starts a shell on a terminal, in a directory with all that is needed.
func stage(dir string) (*session, error) {
	for _, d := range []string{"run", "cues", "films"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			return nil, err
		}
	}
	home := filepath.Join(dir, "films")
	if err := os.WriteFile(filepath.Join(home, "encode"), []byte(script), 0o755); err != nil {
		return nil, err
	}
	s := &session{screen: newScreen(20, 80), cues: map[string]*os.File{}}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(home, name), nil, 0o600); err != nil {
			return nil, err
		}
		path := filepath.Join(dir, "cues", name)
		if err := unix.Mkfifo(path, 0o600); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		s.cues[name] = f
	}
	return s, s.start(home, []string{
		"HOME=" + dir, "XDG_RUNTIME_DIR=" + dir + "/run", "CUES=" + dir + "/cues", "PATH=" + dir + "/bin:/usr/bin:/bin",
		"TERM=xterm-256color", "LC_ALL=C.UTF-8", "TZ=UTC", "PS1=" + `\[\e[32m\]$\[\e[0m\] `, "HISTFILE=",
	})
}
