package core

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"crew/runner/decide/task"
	"crew/sched"
)

// verbs are the names of the operations of task.Op.
var verbs = strings.Fields("none drain rest stop kill fail resize grow join leave pause resume suspend continue add cancel retry look explain hold release move find")

// command gives the run a command, and prints the reply. A word without "=" is a list of IDs.
func (s *scene) command(verb string, words []string) {
	op := slices.Index(verbs, verb)
	if op < 0 {
		panic("no command: " + verb)
	}
	cmd := task.Command{Op: task.Op(op)}
	for _, word := range words {
		if strings.Contains(word, "=") {
			fields(&cmd, []string{word})
			continue
		}
		for _, id := range numbers(word) {
			cmd.IDs = append(cmd.IDs, uint64(id))
		}
	}
	if cmd.Op == task.Add {
		for _, id := range cmd.IDs {
			cmd.Tasks = append(cmd.Tasks, &s.plan(id).Task)
		}
	}
	reply := s.try(cmd)
	s.flush()
	if reply.Err != nil {
		s.printf("  refused: %v", reply.Err)
	}
	if len(reply.IDs)+len(reply.Slots) > 0 {
		s.printf("  to %v", append(reply.Slots, ints(reply.IDs)...))
	}
	if cmd.Op == task.Add && reply.Room < math.MaxInt {
		s.printf("  room for %d", reply.Room)
	}
	for _, w := range reply.Wheres {
		s.printf("  %d %s", w.Task, s.whereText(w))
	}
	if now := reply.Snapshot; now != nil {
		s.showSnapshot(now)
	}
}

func ints(ids []uint64) (list []int) {
	for _, id := range ids {
		list = append(list, int(id))
	}
	return list
}

func (s *scene) whereText(w task.Where) (text string) {
	switch {
	case w.State == "running":
		text = fmt.Sprintf("runs in %d for %v", w.Worker, time.Duration(w.Duration))
	case w.Blocking != nil:
		text = w.Blocking.Text(s.now)
	case w.Outcome > 0:
		text = w.Outcome.String()
	case w.State == "unknown":
		text = "is unknown"
	default:
		text = "has ended"
	}
	if w.Attempt > 1 {
		text += fmt.Sprintf(" (attempt %d)", w.Attempt)
	}
	if w.Held > 0 {
		text += fmt.Sprintf(", held back by %d", w.Held)
	}
	return text
}

// showSnapshot prints a snapshot.
func (s *scene) showSnapshot(now *task.Snapshot) {
	var slots, running []string
	for _, slot := range now.Slots {
		slots = append(slots, fmt.Sprintf("%d:%d%s", slot.ID, slot.Cap, on(slot.Host)))
	}
	for _, r := range now.Tasks {
		running = append(running, fmt.Sprintf("%d in %d", r.Task, r.Worker))
	}
	s.printf("  %v: workers %v, tasks %v, ahead %d of %d, aside %d", now.State, slots, running, now.Queued, now.Buffer, now.Aside)
	for _, b := range now.Waiting {
		s.printf("  - %s", b.Text(s.now))
	}
	if b := now.Blocking; b != nil {
		s.printf("  because %s", b.Text(s.now))
	}
}

func on(host string) string {
	if host == "" {
		return ""
	}
	return "@" + host
}

// happening is an event at one moment.
type happening struct {
	at   time.Time
	text string
}

// free notes that the block of a task was freed.
func (s *scene) free(id uint64) { s.log = append(s.log, happening{s.now, fmt.Sprintf("free %d", id)}) }

// note records the effects of a step.
func (s *scene) note(fx *Effects, events []task.Event) {
	note := func(format string, args ...any) {
		s.log = append(s.log, happening{s.now, fmt.Sprintf(format, args...)})
	}
	for _, t := range fx.Checks {
		note("check %d%s", t.ID, map[task.Known]string{task.KnownUnmade: " (unmade)"}[t.Makes.Known])
	}
	for _, a := range fx.Stops {
		if a.Cause == nil {
			note("kill %d", a.Task)
		} else {
			note("end %d: %v", a.Task, a.Cause)
		}
	}
	for _, a := range fx.Recall {
		note("recall %d", a.Task.ID)
	}
	for _, e := range events {
		if text := s.eventText(&e); text != "" {
			note("%s", text)
		}
	}
}

// eventText returns the text of an event.
func (s *scene) eventText(e *task.Event) string {
	if s.Quiet && e.Task != nil {
		return ""
	}
	switch e.Kind {
	case task.Started:
		text := fmt.Sprintf("%d in %d%s", e.ID, e.Slot, on(e.Host))
		for _, u := range e.Units {
			text += fmt.Sprintf(" with %s %v", u.Name, u.Held)
		}
		if e.Attempt > 1 {
			text += fmt.Sprintf(" (attempt %d, retry %d)", e.Attempt, e.Retries)
		}
		return text
	case task.Retried:
		return fmt.Sprintf("%d %v, again in %v", e.ID, e.Result.Outcome, e.Wait)
	case task.Finished:
		text := fmt.Sprintf("%d %v", e.ID, e.Result.Outcome)
		if n := len(e.Result.Before); n > 0 {
			text += fmt.Sprintf(" after %d", n)
		}
		if err := e.Result.Err; err != nil {
			text += fmt.Sprintf(": %v", err)
		}
		return text
	case task.Released:
		if s.core.cfg.Order.Keep {
			return fmt.Sprintf("show %d-%d", e.ID, e.Last)
		}
	case task.Draining, task.Stopping:
		word := map[task.Kind]string{task.Draining: "drain", task.Stopping: "stop"}[e.Kind]
		return strings.TrimSpace(fmt.Sprintf("%s while %v run, %d retries lost %s", word, e.Running, e.Retries, e.Text))
	case task.Blocked:
		if e.Blocking != nil {
			return e.Blocking.Text(e.At)
		}
		return "nothing blocks"
	case task.Continued:
		return fmt.Sprintf("continue after %v", e.Wait)
	case task.Notice:
		return "crew: " + e.Text
	case task.InputEnd:
		return "input ends"
	}
	return ""
}

// flush prints what has happened since the last flush, one line for each moment.
func (s *scene) flush() {
	for i, what := range s.log {
		if i > 0 && s.log[i-1].at.Equal(what.at) {
			s.lines[len(s.lines)-1] += ", " + what.text
		} else {
			s.printf("  %v: %s", what.at.Sub(epoch), what.text)
		}
	}
	s.log = nil
}

// ended prints how the run ended.
func (s *scene) ended(end *Ending) {
	reasons := [...]string{"completed", "halted", "late", "bad command", "pipe closed", "requested", "broken"}
	text := fmt.Sprintf("  %s after %v, at most %d at once:", reasons[end.Reason], s.elapsed(), s.peak)
	for o, n := range end.Stats.ByOutcome {
		if n > 0 {
			text += fmt.Sprintf(" %d %v", n, task.Outcome(o))
		}
	}
	if end.Signal > 0 {
		text += fmt.Sprintf(", by signal %d", end.Signal)
	}
	if end.Abandoned > 0 {
		text += fmt.Sprintf(", abandoned %d", end.Abandoned)
	}
	if end.Interrupted {
		text += ", interrupted"
	}
	if end.Unshown {
		text += ", unshown"
	}
	if end.Result != nil {
		text += fmt.Sprintf(", by task %d", end.Result.Task.ID)
	}
	if end.Err != nil {
		text += fmt.Sprintf(": %v", end.Err)
	}
	for _, v := range s.verdicts {
		text += [...]string{", void", ", again", ", final"}[v]
	}
	for _, err := range end.More {
		text += fmt.Sprintf(", and %v", err)
	}
	s.flush()
	s.printf("%s", text)
}

// numbers parses a list such as 1-3,7.
func numbers(list string) (ids []int64) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if first == "" || !isRange {
			first, last = part, part
		}
		from, err := strconv.ParseInt(first, 10, 64)
		to, err2 := strconv.ParseInt(last, 10, 64)
		if err = cmp.Or(err, err2); err != nil {
			panic(err)
		}
		for ; from <= to; from++ {
			ids = append(ids, from)
		}
	}
	return ids
}

func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

// fields sets fields by their paths, as in Retry.Delay=10s. Times count from the beginning of the
// run. Types without a form of their own are written as JSON.
func fields(of any, words []string) {
	for _, word := range words {
		path, text, _ := strings.Cut(word, "=")
		v := reflect.ValueOf(of).Elem()
		for name := range strings.SplitSeq(path, ".") {
			if v.Kind() == reflect.Pointer {
				if v.IsNil() {
					v.Set(reflect.New(v.Type().Elem()))
				}
				v = v.Elem()
			}
			v = v.FieldByName(name)
		}
		if err := field(v.Addr().Interface(), text); err != nil {
			panic(fmt.Sprintf("%s: %v", word, err))
		}
	}
}

func field(of any, text string) (err error) {
	switch of := of.(type) {
	case *time.Duration:
		*of = duration(text)
	case *time.Time:
		*of = epoch.Add(duration(text))
	case *error:
		*of = errors.New(text)
	case *sched.Policy:
		*of = policy(text)
	case *Tokens:
		n, _ := strconv.Atoi(text)
		*of = &basket{own: text == "own", there: n}
	case **[]task.Need:
		var list []task.Need
		err = field(&list, text)
		*of = &list
	case *When:
		*of = When(strings.TrimPrefix(text, "never"))
	case *On:
		*of = On(text)
	case *[]task.Need:
		*of, err = task.ParseNeeds(text)
	case *[]task.Target:
		for path := range strings.SplitSeq(text, ",") {
			*of = append(*of, task.Target{Path: path})
		}
	case *[]task.Outcome:
		return json.Unmarshal([]byte(`["`+strings.ReplaceAll(text, ",", `","`)+`"]`), of)
	default:
		if json.Unmarshal([]byte(text), of) != nil {
			return json.Unmarshal(strconv.AppendQuote(nil, text), of)
		}
	}
	return err
}
