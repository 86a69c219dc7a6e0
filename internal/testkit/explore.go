package testkit

import (
	"fmt"
	"slices"
	"strings"
)

// Order is the order of the actions in one run of a scenario.
type Order struct {
	steps []step              // first the choices to replay, then those of this run
	at    int                 // choices made in this run
	seen  map[string]struct{} // states reached in any run
	err   error               // set if the replay differs from the run before
}

// step is one choice.
type step struct {
	state   string
	offered []string
	chosen  int
}

// Pick returns which of the offered actions comes next. The scenario must offer at
// least one action, and each run must offer the same actions in the same order.
//
// state describes everything that the rest of the run depends on. It may be nil, and
// an empty description is never taken as known. If ok is false, the scenario must clean
// up and return nil: the search continued from this state before, or the replay differs
// from the run before. Explore returns the latter as an error.
func (o *Order) Pick(state func() string, offered ...string) (action string, ok bool) {
	if state == nil {
		state = func() string { return "" }
	}
	if o.at < len(o.steps) {
		s, now := o.steps[o.at], ""
		same := slices.Equal(s.offered, offered)
		if last := o.at == len(o.steps)-1; last || !same { // calling state at each step costs more than the replay
			now = state()
			same = same && s.state == now
		}
		if !same {
			o.err = fmt.Errorf("not repeatable: there were %q\nin %s\nand now there are %q\nin %s", s.offered, s.state,
				offered, now)
			return "", false
		}
		o.at++
		return s.offered[s.chosen], true
	}
	now := state()
	if now != "" {
		if _, again := o.seen[now]; again {
			return "", false
		}
		o.seen[now] = struct{}{}
	}
	o.steps = append(o.steps, step{state: now, offered: slices.Clone(offered)})
	o.at++
	return offered[0], true
}

// String lists the actions so far.
func (o *Order) String() string {
	var names []string
	for _, s := range o.steps[:o.at] {
		names = append(names, s.offered[s.chosen])
	}
	return strings.Join(names, ", ")
}

// next changes the last choice that has an untried alternative, and drops the choices
// after it. It returns false if there is none.
func (o *Order) next() bool {
	for n := len(o.steps); n > 0; n-- {
		if s := &o.steps[n-1]; s.chosen+1 < len(s.offered) {
			s.chosen++
			o.steps, o.at = o.steps[:n], 0
			return true
		}
	}
	return false
}

// Found counts what a search did.
type Found struct {
	Orders  int // runs of the scenario
	States  int // different states, if the scenario describes them
	Longest int // most actions in one run
}

// Explore runs the scenario in every order. It stops at the first run that fails and
// returns its error with the actions of that run.
func Explore(scenario func(o *Order) error) (Found, error) {
	var f Found
	o := &Order{seen: map[string]struct{}{}}
	for {
		err := scenario(o)
		f.Orders++
		f.Longest = max(f.Longest, o.at)
		f.States = len(o.seen)
		switch {
		case o.err != nil:
			err = o.err
		case err == nil && o.at < len(o.steps):
			err = fmt.Errorf("not repeatable: it ended before it came to %v", o.steps[o.at].offered)
		}
		if err != nil {
			return f, fmt.Errorf("after %s: %w", o, err)
		}
		if !o.next() {
			return f, nil
		}
	}
}
