package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Host is a machine of --ssh.
type Host struct {
	Target string // as ssh knows it; "" for this machine
	Port   string // "" for the one that ssh chooses
	Slots  int    // 0 for as many as it has processors
	Name   string // as a worker's; "" for this machine's own
}

// String returns what messages call the host.
func (h Host) String() string { return cmp.Or(h.Target, "this machine") }

const hostsHint = "write HOST, USER@HOST or 8/HOST, separated by commas, : for this machine, or ./FILE"

// Hosts parses the values of --ssh. A host that was given before counts once, with
// the slots that were given last.
func Hosts(values []string) (hosts []Host, err error) {
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			if slots, _ := cutSlots(item); slots == "" && strings.Contains(item, "/") && !strings.HasPrefix(item, "ssh://") {
				hosts, err = appendHostFile(hosts, item)
			} else {
				hosts, err = appendHost(hosts, item)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	if len(hosts) == 0 {
		return nil, &UsageError{"--ssh names no host", hostsHint}
	}
	return hosts, nil
}

// appendHostFile adds the hosts of a file, which holds one a line. Blank lines, and
// what begins with #, are skipped.
func appendHostFile(hosts []Host, name string) ([]Host, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read the hosts of --ssh: %w: what has a slash is the name of a file, or such as 8/host", err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line, _, _ = strings.Cut(line, "#")
		for item := range strings.SplitSeq(line, ",") {
			if item = strings.TrimSpace(item); item == "" {
				continue
			}
			if hosts, err = appendHost(hosts, item); err != nil {
				var usage *UsageError
				if errors.As(err, &usage) {
					usage.Msg = fmt.Sprintf("%s, line %d: %s", name, n, usage.Msg)
				}
				return nil, err
			}
		}
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

func appendHost(hosts []Host, item string) ([]Host, error) {
	slots, target := cutSlots(item)
	h := Host{Target: target}
	if slots != "" {
		var err error
		if h.Slots, err = strconv.Atoi(slots); err != nil || h.Slots < 1 || h.Slots > mostSlots {
			return nil, &UsageError{fmt.Sprintf("bad host for --ssh: %q", item), fmt.Sprintf("write 1 to %d before the slash", mostSlots)}
		}
	}
	odd := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	if target == "" || target[0] == '-' || strings.ContainsFunc(target, odd) ||
		strings.Contains(target, "/") && !strings.HasPrefix(target, "ssh://") {
		return nil, &UsageError{fmt.Sprintf("bad host for --ssh: %q", item), hostsHint + "; options of ssh go into ~/.ssh/config"}
	}
	switch host, port, found := strings.Cut(target, ":"); {
	case target == ":":
		h.Target = ""
	case found && host != "" && isNumber(port): // neither IPv6 nor ssh://
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
const mostSlots = 100_000

// hostName returns the name of a target's worker: the host without user and port, in
// the characters of a name.
func hostName(target string) string {
	name := strings.TrimPrefix(target, "ssh://")
	if name != target {
		name, _, _ = strings.Cut(name, "/")
		if i := strings.LastIndexByte(name, ':'); i >= 0 && isNumber(name[i+1:]) {
			name = name[:i]
		}
	}
	name = name[strings.LastIndexByte(name, '@')+1:]
	numeric := strings.Trim(name, "0123456789.") == "" // its parts are no domains
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_", r) || r == '.' && !numeric || r <= unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return '-'
	}, name)
	name = strings.Trim(name, "-")
	if isNumber(name) || name == "" && target != "" {
		name = "host" + name
	}
	return name[:min(len(name), 64)]
}
