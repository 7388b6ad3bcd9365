package wiring

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"crew/runner/cli"
	"crew/runner/input"
)

// widen makes a pipe larger, so that a block takes fewer reads: 10 MB blocks come in a
// quarter less time.
func widen(stdin io.Reader) {
	if f, ok := stdin.(*os.File); ok {
		_, _ = unix.FcntlInt(f.Fd(), unix.F_SETPIPE_SZ, cli.DefaultBlock)
	}
}

// blocksConfig returns what is cut into blocks.
func (s *source) blocksConfig(stdin io.Reader) input.BlocksConfig {
	in, p := s.opts.Input, s.opts.Pipe
	cfg := input.BlocksConfig{
		Stdin: stdin, Files: in.Files, Bytes: max(0, p.Block), Records: p.Records, Start: p.Start, End: p.End, Header: in.Header,
	}
	if p.Block < 0 {
		cfg.Parts = int(-p.Block) * max(1, s.jobs)
	}
	return cfg
}
