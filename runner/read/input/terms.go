package input

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"crew/runner/decide/task"
	"crew/runner/read/expand"
)

// Terms are templates for the values by which tasks are scheduled.
type Terms struct {
	Templates       [len(TermNames)]*expand.Text // nil means no key, cost 1, priority 0, weight 1, or no needs
	Caps            []task.Cap                   // the limits whose units tasks can need
	Offers          bool                         // tasks can also need units of other names, which hosts offer
	UncountedOffers bool                         // the units that hosts offer are not counted
	Fed             bool                         // tasks can be left out as not unique
	SameWeight      string                       // why all tasks must have the same weight; "" if they need not
}

// TermNames are the names of Terms.Templates, as options and as members of an object.
var TermNames = [...]string{"key", "cost", "priority", "weight", "needs"}

// Validate returns an error if a template that is the same for all tasks has an invalid value. The
// error begins with the name of the template.
func (a *Terms) Validate() error {
	var w rawTexts
	for i, text := range a.Templates {
		if text != nil && text.Constant() {
			w[i] = new(text.Expand(expand.Values{}))
		}
	}
	return a.setTerms(new(task.Task), w)
}

// rawTexts are the unparsed values of TermNames; each may be nil.
type rawTexts [len(TermNames)]*string

// setTerms sets the properties of tk that have a text in w. If it returns an error, it has not set tk.Asked.
func (a *Terms) setTerms(tk *task.Task, w rawTexts) (err error) {
	if w == (rawTexts{}) {
		return nil
	}
	terms := tk.Terms()
	for i, text := range w {
		if text == nil {
			continue
		}
		is := " "
		switch TermNames[i] {
		case "key":
			tk.Key = *text
		case "cost":
			tk.Cost, err = parseCost(*text)
		case "priority":
			terms.Priority, err = parsePriority(*text)
		case "weight":
			if terms.Weight, err = parseWeight(*text); terms.Weight > 1 && a.SameWeight != "" {
				err = errors.New("is more than 1: " + a.SameWeight)
			}
		case "needs":
			is = ": "
			terms.Needs, err = a.parseNeeds(*text)
		}
		if err != nil {
			return fmt.Errorf("%s %q%s%w", TermNames[i], *text, is, err)
		}
	}
	if tk.Asked = nil; !terms.IsZero() {
		tk.Asked = new(terms)
	}
	return nil
}

// parsePriority parses a task's priority. Its error continues the text.
func parsePriority(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < -task.MaxPriority || n > task.MaxPriority {
		return 0, fmt.Errorf("is not a whole number from %d to %d", -task.MaxPriority, task.MaxPriority)
	}
	return n, nil
}

func parseWeight(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, errors.New("is not a whole number from 1 up")
	}
	return n, nil
}

// parseNeeds parses needs.
func (a *Terms) parseNeeds(s string) ([]task.Need, error) {
	needs, err := task.ParseNeeds(s)
	if err == nil {
		err = task.CheckNeeds(a.Caps, needs, a.Offers)
	}
	if err == nil && a.Offers {
		needs, err = a.countedNeeds(needs)
	}
	return needs, err
}

// countedNeeds returns the needs that are counted. It returns an error if a task needs units that hosts
// offer although it cannot use them.
func (a *Terms) countedNeeds(needs []task.Need) (counted []task.Need, err error) {
	for _, n := range needs {
		own := slices.ContainsFunc(a.Caps, func(c task.Cap) bool { return c.Name == n.Name })
		if !own && a.SameWeight != "" {
			return nil, fmt.Errorf("no --cap is called %s, and units that workers offer cannot be used: %s", n.Name, a.SameWeight)
		}
		if own || !a.UncountedOffers {
			counted = append(counted, n)
		}
	}
	return counted, nil
}

// checkUnits returns an error if the name of a member of obj is also the name of a limit that a template
// refers to.
func (t *Tasks) checkUnits(obj Object) error {
	for _, name := range t.units {
		if _, has := obj[name]; has {
			return fmt.Errorf("the member %q has the name of --cap %[1]s, for whose units {%[1]s} stands: rename one of them", name)
		}
	}
	return nil
}

// longestUnits returns all units of all limits, which are at least as long, as text, as the units of any
// attempt.
func (t *Tasks) longestUnits() (all []task.Units) {
	for _, c := range t.cfg.Caps {
		all = append(all, task.Units{Name: c.Name, Held: c.Units})
	}
	return all
}
