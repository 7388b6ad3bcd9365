package task

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Zone returns the time zone for tz, the value of the variable TZ: the name of a zone in the system's
// database, the path of a file, or the POSIX form, as in JST-9 or EST5EDT,M3.2.0,M11.1.0. Package time
// takes values that it does not understand, such as the POSIX form, for UTC. If set is false, there is
// no TZ, and the zone is the machine's.
func Zone(tz string, set bool) (*time.Location, error) {
	name := strings.TrimPrefix(tz, ":")
	switch {
	case !set:
		return time.Local, nil
	case name == "":
		return time.UTC, nil
	case name[0] == '/':
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("TZ: %w", err)
		}
		return time.LoadLocationFromTZData(name, text)
	}
	if zone, err := time.LoadLocation(name); err == nil {
		return zone, nil
	}
	if zone, err := posixZone(name); err == nil && name == tz {
		return zone, nil
	}
	return nil, fmt.Errorf("this machine has no time zone %q, the value of TZ: set TZ to a zone like Europe/Berlin or CET-1", tz)
}

// SetZone makes package time support the POSIX form of TZ for the local time. Call it first.
func SetZone() {
	tz, set := os.LookupEnv("TZ")
	if !strings.ContainsAny(tz, "0123456789") { // POSIX forms have digits
		return
	}
	if zone, err := Zone(tz, set); err == nil {
		time.Local = zone
	}
}

// posixZone returns the zone for the POSIX form of TZ. The file of a zone ends with such a form, for
// the times after its last transition (RFC 9636, section 3.3), so a file without transitions consists
// of it. The format wants a type of local time, too, which applies if the form is not understood.
func posixZone(form string) (*time.Location, error) {
	const (
		magic = "TZif2\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
		zero  = "\x00\x00\x00\x00"
		none  = "?"
	)
	first := magic + strings.Repeat(zero, 6)
	second := magic + strings.Repeat(zero, 4) + "\x00\x00\x00\x01\x00\x00\x00\x02" + zero + "\x00\x00" + none + "\x00"
	zone, err := time.LoadLocationFromTZData(form, []byte(first+second+"\n"+form+"\n"))
	if err == nil {
		if shown, _ := time.Now().In(zone).Zone(); shown == none {
			err = fmt.Errorf("%q is no time zone", form)
		}
	}
	return zone, err
}
