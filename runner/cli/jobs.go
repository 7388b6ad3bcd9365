package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// mostJobs bounds -j 0: beyond it a machine only gets slower.
	mostJobs = 4096
	// mostWritten bounds the number in -j.
	mostWritten = 1 << 20
)

// jobs is a parsed value of -j, not yet a number: most forms depend on the
// machine.
type jobs struct {
	form byte // one of the form constants
	n    int  // at least 0
}

// The forms of a jobs value.
const (
	formCount   = 'n' // N
	formPercent = '%' // N%
	formMore    = '+' // +N: processors and N
	formFewer   = '-' // -N: processors less N
	formMost    = '0' // 0: as many as possible
)

// parseJobs reads N, N%, +N, -N or 0 and says whether s is one of them.
func parseJobs(s string) (jobs, bool) {
	j := jobs{form: formCount}
	digits := s
	switch {
	case strings.HasPrefix(s, "+"), strings.HasPrefix(s, "-"):
		j.form, digits = s[0], s[1:]
	case strings.HasSuffix(s, "%"):
		j.form, digits = formPercent, s[:len(s)-1]
	}
	n, err := parseWhole(digits, 0, mostWritten)
	if err != nil {
		return jobs{}, false
	}
	j.n = n
	if j.form == formCount && n == 0 {
		j.form = formMost
	}
	return j, true
}

// workers is the number of workers that j means, at least 1. The functions
// tell the number of processors and the largest sensible pool; each is asked
// only where the form needs it.
func (j jobs) workers(processors, most func() int) int {
	n := j.n
	switch j.form {
	case formPercent:
		n = processors() * j.n / 100
	case formMore:
		n += processors()
	case formFewer:
		n = processors() - j.n
	case formMost:
		n = most()
	}
	return max(1, n)
}

// readJobs is the number of workers that s means, and the file that it came from
// where s is no number form but names a file that holds one. In a file 0 is a
// pause, and 0 is the number then. The error is in the words of a bad value; s is
// not repeated in it.
func readJobs(s string) (n int, file string, err error) {
	j, ok := parseJobs(s)
	if !ok {
		// A FIFO would wait for a writer, and cannot be read again.
		st, err := os.Stat(s)
		if err == nil && !st.Mode().IsRegular() {
			return 0, "", errors.New("a file of workers must be a regular one, which can be read again")
		}
		text, err := os.ReadFile(s)
		if err != nil {
			return 0, "", fmt.Errorf("write N, N%%, +N, -N, 0, or a file that holds one of them; N is at most %d", mostWritten)
		}
		if j, ok = parseJobs(strings.TrimSpace(string(text))); !ok {
			return 0, "", fmt.Errorf("that file must hold N, N%%, +N, -N, or 0 for a pause; N is at most %d", mostWritten)
		}
		file = s
	}
	if file != "" && j.form == formMost {
		return 0, file, nil
	}
	return j.workers(hereProcessors, hereMost), file, nil
}

// hereProcessors is processors on this machine.
func hereProcessors() int { return processors(machine{}, runtime.NumCPU()) }

// machine is this machine's file system from / on, for small files: an os.File
// would have the runtime's poller made for it, which costs more than the files.
type machine struct{}

// Open is os.Open.
func (machine) Open(name string) (fs.File, error) { return os.Open("/" + name) }

// ReadFile is os.ReadFile.
func (machine) ReadFile(name string) ([]byte, error) {
	fd, err := syscall.Open("/"+name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	var text []byte
	var part [4096]byte
	for {
		n, err := syscall.Read(fd, part[:])
		if n <= 0 {
			return text, err
		}
		text = append(text, part[:n]...)
	}
}

// hereMost is mostTasks under this process's limits.
func hereMost() int {
	return mostTasks(limit(syscall.RLIMIT_NOFILE), limit(unix.RLIMIT_NPROC))
}

// limit is a resource's soft limit, or the largest number where there is none.
func limit(resource int) uint64 {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(resource, &r); err != nil {
		return math.MaxUint64
	}
	return r.Cur
}

// mostTasks is how many tasks can run at once under limits on descriptors and
// processes: four descriptors a task and 32 for crew, and half the processes,
// since tasks have children and the user has other work.
func mostTasks(files, processes uint64) int {
	if files < 32+4 {
		return 1
	}
	return int(max(1, min(mostJobs, (files-32)/4, processes/2)))
}

// processors is the number of processors that this process really gets: those
// of its affinity mask, fewer where a control group's quota says so, rounded
// up, at least 1. root is the file system from / on. See cgroups(7) and
// Documentation/admin-guide/cgroup-v2.rst, "cpu.max".
func processors(root fs.FS, affinity int) int {
	n := float64(affinity)
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return max(1, affinity)
	}
	for line := range strings.Lines(string(text)) {
		// hierarchy:controllers:path; the one hierarchy of version 2 is 0 and
		// names no controllers.
		part := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(part) != 3 {
			continue
		}
		switch {
		case part[0] == "0" && part[1] == "":
			n = min(n, quota(root, "sys/fs/cgroup", part[2], quotaV2))
		case hasWord(part[1], "cpu"):
			n = min(n, quota(root, "sys/fs/cgroup/cpu", part[2], quotaV1))
			if part[1] != "cpu" {
				n = min(n, quota(root, path.Join("sys/fs/cgroup", part[1]), part[2], quotaV1))
			}
		}
	}
	return max(1, int(math.Ceil(n)))
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// quota is the least that one group allows on the way from group up to the
// mount point, in processors; +Inf where none limits it.
func quota(root fs.FS, mount, group string, read func(fs.FS, string) float64) float64 {
	least := math.Inf(1)
	// Seen from inside a namespace the path may begin with "/.."; what is above
	// the mount point cannot be read anyway.
	for group = path.Clean("/" + group); ; group = path.Dir(group) {
		least = min(least, read(root, path.Join(mount, group)))
		if group == "/" {
			return least
		}
	}
}

// quotaV2 reads "200000 100000" or "max 100000".
func quotaV2(root fs.FS, dir string) float64 {
	text, err := fs.ReadFile(root, path.Join(dir, "cpu.max"))
	if err != nil {
		return math.Inf(1)
	}
	quota, period, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	return share(quota, period)
}

// quotaV1 reads one number from each of two files; -1 is no limit.
func quotaV1(root fs.FS, dir string) float64 {
	quota, err := fs.ReadFile(root, path.Join(dir, "cpu.cfs_quota_us"))
	if err != nil {
		return math.Inf(1)
	}
	period, err := fs.ReadFile(root, path.Join(dir, "cpu.cfs_period_us"))
	if err != nil {
		return math.Inf(1)
	}
	return share(strings.TrimSpace(string(quota)), strings.TrimSpace(string(period)))
}

func share(quota, period string) float64 {
	q, err := strconv.ParseInt(quota, 10, 64)
	if err != nil || q <= 0 {
		return math.Inf(1)
	}
	p, err := strconv.ParseInt(period, 10, 64)
	if err != nil || p <= 0 {
		return math.Inf(1)
	}
	return float64(q) / float64(p)
}
