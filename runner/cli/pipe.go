package cli

import (
	"errors"
	"io"
	"math"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"crew/runner/input"
	"crew/runner/task"
)

const oneBlock = 1 << 20 // bytes, unless --block says otherwise

// parseBlock parses a number of bytes, or a negative number: that of blocks for each
// worker.
func parseBlock(s string) (int64, error) {
	if n, err := parseWhole(strings.TrimPrefix(s, "-"), 1, math.MaxInt32); err == nil && s[0] == '-' {
		return -int64(n), nil
	}
	size, err := task.ParseSize(s)
	if err != nil {
		err = errors.New("write a number of bytes such as 64K, 1M or 2G, or -N for N blocks of a file for each worker")
	}
	return size, err
}

// widen makes a pipe larger, so that a block takes fewer reads: 10 MB blocks come in a
// quarter less time.
func widen(stdin io.Reader) {
	if f, ok := stdin.(*os.File); ok {
		_, _ = unix.FcntlInt(f.Fd(), unix.F_SETPIPE_SZ, oneBlock)
	}
}

// parseMark parses what a record begins or ends with.
func parseMark(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	return input.ParseDelimiter(s)
}

// respell makes an -N that does not go with --pipe the -n that it is to xargs and
// parallel.
func (o *Options) respell() {
	if o.given("pipe") != nil {
		return
	}
	for _, uses := range [...][]use{o.uses, o.env} {
		for i := range uses {
			if u := &uses[i]; u.opt.name == "records" && u.spelled != "--records" {
				u.opt = long("max-args")
			}
		}
	}
}

// finishPipe fills in the defaults of --pipe.
func (o *Options) finishPipe() {
	p := &o.Pipe
	if !p.On {
		return
	}
	if p.Block == 0 && p.Records == 0 {
		p.Block = oneBlock
	}
	if o.given("recend") == nil && o.given("recstart") == nil {
		p.End = "\n"
	}
	if o.Coproc.Words != "" { // a filter's last block lasts until the filter exits, beside the next one
		o.Coproc.Window = max(o.Coproc.Window, 2)
	}
}

// blocksConfig returns what is cut into blocks.
func (o *Options) blocksConfig(stdin io.Reader) input.BlocksConfig {
	p := o.Pipe
	cfg := input.BlocksConfig{
		Stdin: stdin, Files: o.Input.Files, Bytes: max(0, p.Block), Records: p.Records, Start: p.Start, End: p.End, Header: o.Input.Header,
	}
	if p.Block < 0 {
		cfg.Parts = int(-p.Block) * max(1, o.Pool.Jobs)
	}
	return cfg
}

// outputOfFilters refuses what needs to know which output belongs to which block, and
// other machines, where blocks go to persistent workers.
func outputOfFilters(o *Options) *refusal {
	u, pipe := o.given("worker"), o.given("pipe")
	if u == nil || pipe == nil {
		return nil
	}
	names := [...]string{"ssh", "engine", "keep-order", "retries", "state", "json", "results", "tag", "tag-string", "worker-protocol"}
	for i, name := range names {
		other := o.given(name)
		if other == nil {
			continue
		}
		why := "a worker reads many blocks, and its output belongs to none"
		if i < 2 {
			why = "workers that read many blocks run on this machine"
		}
		return refuse(pipe.String()+" "+u.String()+" and "+other.String()+" do not go together",
			why+": drop "+other.opt.typed()+", or "+u.spelled, u, pipe, other)
	}
	return nil
}
