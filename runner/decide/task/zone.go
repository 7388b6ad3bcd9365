package task

import (
	"os"
	"strings"
	"time"
)

// init gives package time the zone of a TZ in the POSIX form, such as JST-9, which it takes for UTC. The file of a
// zone ends with such a form; before it, this one has only a type of local time, which applies to other values.
func init() {
	const head = "TZif2.......................................TZif2..................................\x01...\x02......?." // . stands for a zero
	form := strings.TrimPrefix(os.Getenv("TZ"), ":")
	if i := strings.IndexAny(form, "0123456789"); i < 0 || strings.ContainsAny(form[:i], ":/") {
		return // a name, such as Etc/GMT-9
	}
	zone, _ := time.LoadLocationFromTZData(form, []byte(strings.ReplaceAll(head, ".", "\x00")+"\n"+form+"\n"))
	if name, _ := time.Now().In(zone).Zone(); name != "?" {
		time.Local = zone
	}
}
