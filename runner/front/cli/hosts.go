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

// Host is a machine of --ssh.
type Host struct {
	Target string // as ssh knows it; "" for this machine
	Port   string // "" for the one that ssh chooses
	Slots  int    // 0 for as many as it has processors
	Name   string // as a worker's; "" for this machine's own
}

const hostsHint = "write HOST, USER@HOST or 8/HOST, separated by commas, : for this machine, or ./FILE"

// Hosts parses the values of --ssh. A host that was given before counts once, with
// the slots that were given last. What has a slash, but no slots before it, is a file with
// hosts.
func Hosts(values []string) (hosts []Host, files []string, err error) {
	for item := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if slots, _ := cutSlots(item); slots != "" || !strings.Contains(item, "/") || strings.HasPrefix(item, "ssh://") {
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

// appendFile adds the hosts of a file, of which there must be one. Blank lines, and what
// begins with #, are skipped.
func appendFile(hosts []Host, name string) ([]Host, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read the hosts of --ssh: %w: write 8/HOST for 8 tasks at once on HOST, or the name of a file with a host a line", err)
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
		return nil, &UsageError{name + " names no host", "write one a line"}
	}
	return hosts, nil
}

// cutSlots splits 8/HOST. slots is "" if there is no number.
func cutSlots(item string) (slots, target string) {
	slots, target, found := strings.Cut(item, "/")
	if !found || !isNumber(slots) {
		return "", item
	}
	return slots, target
}

// hostForm matches a host, with or without slots: what ssh knows it by has no blank and begins with no
// hyphen, and only ssh:// has slashes.
var hostForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:(\d+)/)?(ssh://[^\s\pZ\pC]+|[^-/\s\pZ\pC][^/\s\pZ\pC]*)$`)
})

// appendHost adds a host. Errors begin with where.
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

// mostSlots is more than any machine can use.
const maxSlots = 100_000

// hostName returns the name of a target's worker: the host without user and port, in
// the characters of a name.
func hostName(target string) string {
	name := target
	if host, found := strings.CutPrefix(target, "ssh://"); found {
		host, _, _ = strings.Cut(host, "/")
		name = regexp.MustCompile(`:\d+$`).ReplaceAllString(host, "")
	}
	name = name[strings.LastIndexByte(name, '@')+1:]
	others := `[^\w.-]`
	if strings.Trim(name, digits+".") == "" { // its parts are no domains
		others = `[^\w-]`
	}
	name = strings.Trim(regexp.MustCompile(others).ReplaceAllString(name, "-"), "-")
	if isNumber(name) || name == "" && target != "" {
		name = "host" + name
	}
	return name[:min(len(name), 64)]
}
