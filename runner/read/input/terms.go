package input

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"crew/runner/decide/task"
	"crew/runner/read/expand"
)

// Terms are templates for what a task's Terms have a number or names for.
type Terms struct {
	Priority *expand.Text // nil means 0
	Weight   *expand.Text // nil means 1
	Needs    *expand.Text // nil means nothing
	Caps     []task.Cap   // what tasks can need
	Offers   bool         // and what hosts offer, by other names
	Dry      bool         // nobody counts what these offer
	Even     string       // why all tasks weigh the same; "" if they need not
}

// Validate returns the error of every task if a template is the same for all. It begins with the
// name of the template.
func (c *Terms) Validate() error {
	var w written
	for i, text := range [...]*expand.Text{c.Priority, c.Weight, c.Needs} {
		if text != nil && text.Constant() {
			w[i] = new(text.Expand(expand.Values{}))
		}
	}
	_, err := (&asker{Terms: *c}).parse(task.Terms{}, w)
	return err
}

// written is what a task has of these as somebody wrote it; nil for nothing.
type written [len(textual)]*string

var textual = [...]string{"priority", "weight", "needs", "key", "cost"}

// asker parses priorities, weights and needs. Tasks with equal needs share them.
type asker struct {
	Terms
	needs map[string][]task.Need
}

// mostNeeds is how many texts an asker remembers: more than a limit has units. Tasks that do not
// share what they need wait in lines of their own, which takes the time of the run.
const mostNeeds = 1 << 14

// ask sets the terms that are written.
func (a *asker) ask(tk *task.Task, w written) error {
	if w == (written{}) {
		return nil
	}
	terms, err := a.parse(tk.Terms(), w)
	if err != nil {
		return err
	}
	if tk.Asked = nil; !terms.IsZero() {
		tk.Asked = &terms
	}
	return nil
}

// parse returns terms with what is written.
func (a *asker) parse(terms task.Terms, w written) (_ task.Terms, err error) {
	if p := w[0]; p != nil {
		if terms.Priority, err = parsePriority(*p); err != nil {
			return terms, fmt.Errorf("priority %q %w", *p, err)
		}
	}
	if p := w[1]; p != nil {
		if terms.Weight, err = parseWeight(*p); err == nil && terms.Weight > 1 && a.Even != "" {
			err = errors.New("is more than 1: " + a.Even)
		}
		if err != nil {
			return terms, fmt.Errorf("weight %q %w", *p, err)
		}
	}
	if p := w[2]; p != nil {
		if terms.Needs, err = a.parseNeeds(*p); err != nil {
			return terms, fmt.Errorf("needs %q: %w", *p, err)
		}
	}
	return terms, nil
}

// parsePriority parses a task's priority. Its error goes on from the text.
func parsePriority(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < -task.MaxPriority || n > task.MaxPriority {
		return 0, fmt.Errorf("is no whole number from %d to %d", -task.MaxPriority, task.MaxPriority)
	}
	return n, nil
}

func parseWeight(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if errors.Is(err, strconv.ErrRange) && n > 0 {
		return math.MaxInt, nil // more than all places are all
	}
	if err != nil || n < 1 {
		return 0, errors.New("is no whole number from 1 up")
	}
	return n, nil
}

// parseNeeds returns what a task needs, in the memory of the same text if that is known.
func (a *asker) parseNeeds(s string) ([]task.Need, error) {
	if known, ok := a.needs[s]; ok {
		return known, nil
	}
	needs, err := task.ParseNeeds(s)
	if err == nil {
		err = task.Lacks(a.Caps, needs, a.Offers)
	}
	if err == nil && a.Offers {
		needs, err = a.ofHosts(needs)
	}
	if err != nil {
		return nil, err
	}
	if a.needs == nil || len(a.needs) == mostNeeds {
		a.needs = map[string][]task.Need{}
	}
	a.needs[strings.Clone(s)] = needs
	return needs, nil
}

// ofHosts returns needs of which some may be of what hosts offer, or why they cannot.
func (a *asker) ofHosts(needs []task.Need) (counted []task.Need, err error) {
	for _, n := range needs {
		own := slices.ContainsFunc(a.Caps, func(c task.Cap) bool { return c.Name == n.Name })
		if !own && a.Even != "" {
			return nil, fmt.Errorf("no --cap is called %s, and what workers offer does not count: %s", n.Name, a.Even)
		}
		if own || !a.Dry {
			counted = append(counted, n)
		}
	}
	return counted, nil
}

// ambiguous returns an error if a record has a member with the name of a cap for whose units
// a template has a placeholder.
func (t *Tasks) ambiguous(obj Object) error {
	for _, name := range t.units {
		if _, has := obj[name]; has {
			return fmt.Errorf("the member %q has the name of --cap %[1]s, for whose units {%[1]s} stands: call one of them something else", name)
		}
	}
	return nil
}

// longestUnits returns more units than any attempt holds.
func (t *Tasks) longestUnits() (all []task.Units) {
	for _, c := range t.cfg.Caps {
		all = append(all, task.Units{Name: c.Name, Held: c.Units})
	}
	return all
}
