package task

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Zone returns the time zone that a value of the variable TZ stands for: the name of one that the
// system has a file for, or of a file, or one in the form of POSIX, such as JST-9 or
// EST5EDT,M3.2.0,M11.1.0. Package time takes for UTC what it does not understand, and so the forms
// of POSIX. Without TZ, which is for set to say, the zone is that of the machine.
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
	return nil, fmt.Errorf("this machine knows no time zone %q, which TZ says: set it to such as Europe/Berlin or CET-1", tz)
}

// SetZone has package time know the local time in the forms of POSIX, too. Call it first.
func SetZone() {
	tz, set := os.LookupEnv("TZ")
	if !strings.ContainsAny(tz, "0123456789") { // as these forms have
		return
	}
	if zone, err := Zone(tz, set); err == nil {
		time.Local = zone
	}
}

// posixZone returns the zone of the TZ form of POSIX. A file of a zone ends with one, for the
// times after its last change (RFC 9636, section 3.3); one without changes consists of it. It
// stands before a type of local time that counts where the form is not understood.
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
