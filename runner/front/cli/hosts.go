package cli

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Host is a machine of -S.
type Host struct {
	Target string // the name that ssh gets; "" for this machine
	Port   string // "" for the default of ssh
	Slots  int    // 0 for the number of its processors
	Name   string // name of its worker; "" for the name of this machine
}

const hostsHint = "write HOST, USER@HOST or 8/HOST, separated by commas, : for this machine, or ./FILE"

// Hosts parses the values of -S. A host that is given repeatedly counts once, with the slots that were given
// last. An item with a slash is a file with hosts, unless the slash follows a number or ssh:.
func Hosts(values []string) (hosts []Host, files []string, err error) {
	for item := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if slotsOf(item) != "" || !strings.Contains(item, "/") || strings.HasPrefix(item, "ssh://") {
			hosts, err = appendHost(hosts, item, "")
		} else {
			files = append(files, item)
			hosts, err = appendFile(hosts, item)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return hosts, files, nil
}

// appendFile adds the hosts in a file. It skips blank lines and comments, which start with #. A file without
// hosts is an error.
func appendFile(hosts []Host, name string) ([]Host, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read the hosts of --ssh: %w: write 8/HOST for 8 tasks at once on HOST, or the name of a file with one host per line", err)
	}
	none := true
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		for host := range strings.SplitSeq(line, ",") {
			if host = strings.TrimSpace(host); host == "" {
				continue
			}
			none = false
			if hosts, err = appendHost(hosts, host, fmt.Sprintf("%s, line %d: ", name, i+1)); err != nil {
				return nil, err
			}
		}
	}
	if none {
		return nil, &UsageError{name + " names no host", "write one per line"}
	}
	return hosts, nil
}

// slotsOf returns the number at the start of an item such as 8/HOST, or "".
func slotsOf(item string) string {
	if slots, _, found := strings.Cut(item, "/"); found && isNumber(slots) {
		return slots
	}
	return ""
}

// hostForm matches a host, with or without slots. The name that ssh gets has no blanks and no hyphen at its
// start, so that it is no option, and has slashes only after ssh:.
var hostForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:(\d+)/)?(ssh://[^\s\pZ\pC]+|[^-/\s\pZ\pC][^/\s\pZ\pC]*)$`)
})

// appendHost adds a host. where starts the text of errors.
func appendHost(hosts []Host, item, where string) ([]Host, error) {
	bad := func(hint string) error {
		return &UsageError{fmt.Sprintf("%sbad host for --ssh: %q", where, item), hint}
	}
	part := hostForm().FindStringSubmatch(item)
	if part == nil {
		return nil, bad(hostsHint + "; options of ssh go into ~/.ssh/config")
	}
	h := Host{Target: part[2]}
	if part[1] != "" {
		var err error
		if h.Slots, err = parseWhole(part[1], 1, maxSlots); err != nil {
			return nil, bad(fmt.Sprintf("write 1 to %d before the slash", maxSlots))
		}
	}
	switch host, port, _ := strings.Cut(h.Target, ":"); {
	case h.Target == ":":
		h.Target = ""
	case host != "" && isNumber(port): // neither IPv6 nor ssh://
		h.Target, h.Port = host, port
	}
	h.Name = hostName(h.Target)
	same := func(o Host) bool { return o.Target == h.Target && o.Port == h.Port }
	if i := slices.IndexFunc(hosts, same); i >= 0 {
		hosts[i].Slots = cmp.Or(h.Slots, hosts[i].Slots)
		return hosts, nil
	}
	return append(hosts, h), nil
}

// maxSlots is more than any machine can use.
const maxSlots = 100_000

// hostName returns the name of a target's worker: the host without user and port, with characters that names
// cannot have replaced.
func hostName(target string) string {
	name := target
	if host, found := strings.CutPrefix(target, "ssh://"); found {
		host, _, _ = strings.Cut(host, "/")
		name = regexp.MustCompile(`:\d+$`).ReplaceAllString(host, "")
	}
	name = name[strings.LastIndexByte(name, '@')+1:]
	others := `[^\w.-]`
	if strings.Trim(name, digits+".") == "" { // an IP address: its parts are no domains
		others = `[^\w-]`
	}
	name = strings.Trim(regexp.MustCompile(others).ReplaceAllString(name, "-"), "-")
	if isNumber(name) || name == "" && target != "" {
		name = "host" + name
	}
	return name[:min(len(name), 64)]
}
