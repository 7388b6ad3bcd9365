package wiring

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"crew/runner/cli"
	"crew/runner/kernel"
)

// unit is what a systemd unit of a crew that serves others depends on.
type unit struct {
	*cli.Options
	program string // path
	dir     string // working directory
	user    string // "" for the one that systemd takes
}

// printUnit prints a systemd unit that runs the command line.
func printUnit(o *cli.Options, stdout io.Writer) error {
	err := needSystemd(runtime.GOOS)
	if err != nil {
		return err
	}
	u := unit{Options: o}
	if u.program, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if u.dir, err = os.Getwd(); err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	if !utf8.ValidString(u.dir) || strings.ContainsFunc(u.dir, unicode.IsControl) {
		return misuse(fmt.Sprintf("no unit can hold the name of the directory %q", u.dir), "change to another one")
	}
	if url := o.Engine.URL; strings.Contains(url, ":") && strings.Contains(url, "@") {
		return misuse("the unit, which anybody may read, would hold the password of --engine", "put that into the file of a NATS context, and name it with --engine")
	}
	if id := os.Geteuid(); !o.Serve.User && id != 0 {
		u.user = userName(id)
	}
	return printText(stdout, u.text())
}

// needSystemd returns an error unless a system may have systemd.
func needSystemd(system string) error {
	if system == "linux" {
		return nil
	}
	return misuse("--print-unit is for systemd, which this system does not have", "print the unit on Linux")
}

// What units say of the start and the end of a crew, and of what follows.
const (
	unitStop = `# The first SIGTERM reaches crew alone: it starts nothing more and lets tasks finish.
# Tasks that still run after 5 minutes are killed; %s.
KillMode=mixed
TimeoutStopSec=5min
# A task that runs out of memory fails alone.
OOMPolicy=continue
`
	unitRestart = `# Statuses 123 (tasks failed) and 124 (--deadline passed) are ordinary ends.
Restart=on-failure
RestartSec=1
SuccessExitStatus=123 124
`
	unitHalts = `# --halt ends the queue with the status of a task, so only a crash restarts crew.
Restart=on-abnormal
RestartSec=1
`
	unitAgain = `# Slowly enough for systemd never to give up.
Restart=on-failure
RestartSec=5
`
	unitWrong = `# A wrong command line stays wrong.
RestartPreventExitStatus=2 126 127
`
	unitOnline = `Wants=network-online.target
After=network-online.target
`
	unitPrivileges = `NoNewPrivileges=yes
`
	// unitGuard leaves the files outside the system's own directories writable.
	unitGuard = `ProtectSystem=%s
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
LockPersonality=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
LimitNOFILE=524288
`
)

// name returns what the unit is called.
func (u unit) name() string {
	words := strings.Fields(u.Do)
	if u.Do == cli.DoServe && u.Control.Name != "" {
		words = nil
	}
	if u.Control.Name != "" {
		words = append(words, u.Control.Name)
	}
	return "crew-" + strings.Join(words, "-") + ".service"
}

// text returns the unit.
func (u unit) text() string {
	file, target, online := "/etc/systemd/system/"+u.name(), "multi-user.target", unitOnline
	if u.Serve.User {
		file, target, online = "~/.config/systemd/user/"+u.name(), "default.target", ""
	}
	var b strings.Builder
	b.WriteString("# " + file + "\n")
	if u.Do == cli.DoServe && u.State.Dir == "" {
		b.WriteString("# Without --state, tasks that wait are lost when crew serve ends.\n")
	}
	b.WriteString("[Unit]\nDescription=" + strings.TrimSpace("crew "+u.Do+" "+u.Control.Name) + "\n")
	if u.Do != cli.DoServe {
		b.WriteString(online)
	}
	b.WriteString("\n[Service]\nType=notify\nNotifyAccess=main\n")
	if u.Do != doHub && (u.Do != cli.DoServe || u.Pool.LockWait > 0 || u.State.Dir != "") { // it may wait for another crew, or the hub
		b.WriteString("TimeoutStartSec=infinity\n")
	}
	if u.user != "" {
		b.WriteString("User=" + u.user + "\n")
	}
	b.WriteString("WorkingDirectory=" + unitPath(u.dir) + "\nExecStart=" + u.command() + "\n" + u.ends())
	b.WriteString("\n[Install]\nWantedBy=" + target + "\n")
	return b.String()
}

// doHub is the command that runs a hub.
const doHub = "engine serve"

// ends returns what the unit says of the end and, where it runs no tasks, of its rights.
func (u unit) ends() string {
	switch u.Do {
	case cli.DoServe:
		stop := fmt.Sprintf(unitStop, "with --state they run again")
		if endsAsTask(u.Failure.Halt) {
			return stop + unitHalts
		}
		return stop + unitRestart + unitWrong
	case cli.DoWork:
		return fmt.Sprintf(unitStop, "they run again elsewhere") + unitAgain + unitWrong
	}
	rights := unitPrivileges
	if !u.Serve.User { // their manager cannot do more
		rights += fmt.Sprintf(unitGuard, u.protected())
	}
	return unitAgain + unitWrong + rights
}

// protected returns which directories a hub cannot write to: not those that have its own.
func (u unit) protected() string {
	dir := u.Hub.Dir
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(u.dir, dir)
	}
	for _, system := range []string{"/usr", "/boot", "/efi", "/etc"} {
		if rest, found := strings.CutPrefix(filepath.Clean(dir), system); found && (rest == "" || rest[0] == '/') {
			return "no"
		}
	}
	return "full"
}

// command returns the command line for ExecStart=. The program is the only word in which a
// $ stands for itself.
func (u unit) command() string {
	words := []string{unitWord(u.program)}
	for _, w := range slices.Concat(strings.Fields(u.Do), u.Serve.Line) {
		words = append(words, unitWord(strings.ReplaceAll(w, "$", "$$")))
	}
	return strings.Join(words, " ")
}

// unitWord quotes a word as systemd.syntax(7) and systemd.unit(5) say: a % begins a
// specifier, and the escapes within quotes are those of C, of which Go writes a part.
func unitWord(word string) string {
	word = unitPercent(word)
	odd := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("%$@_+=:,./{}-", r)
	}
	if word != "" && !strings.ContainsFunc(word, odd) {
		return word
	}
	return strconv.Quote(word)
}

// unitPath writes a path for a setting that knows no quotes, but drops blanks at the end
// and joins a line that ends in a backslash with the next one.
func unitPath(path string) string {
	if strings.HasSuffix(path, `\`) || strings.TrimSpace(path) != path {
		path += "/"
	}
	return unitPercent(path)
}

func unitPercent(text string) string { return strings.ReplaceAll(text, "%", "%%") }

// userName returns the name of a user, or the ID, which systemd takes as well.
func userName(id int) string {
	text, _ := os.ReadFile("/etc/passwd") // which does not hold all users, either
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(line, ":"); len(f) > 2 && f[2] == strconv.Itoa(id) {
			return f[0]
		}
	}
	return strconv.Itoa(id)
}

// notifySocket is the variable that names the socket of sd_notify(3).
const notifySocket = "NOTIFY_SOCKET"

// tellReady tells systemd that what it has started is ready, if it waits for that.
func tellReady(what string, notice func(string)) {
	if err := notifyReady(os.Getenv(notifySocket)); err != nil {
		notice("cannot tell systemd that " + what + " is ready: " + err.Error())
	}
}

// notifyReady tells systemd, which listens at a socket, that crew is ready. With the
// name "" it does nothing. The beginning of a drain is not told: TimeoutStopSec= would
// count from there, even if crew ctl drain asked for it.
func notifyReady(socket string) error {
	if socket == "" {
		return nil
	}
	fd, err := kernel.Socket(unix.SOCK_DGRAM)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, []byte("READY=1"), unix.MSG_NOSIGNAL, &unix.SockaddrUnix{Name: socket})
}
