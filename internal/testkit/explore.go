package testkit

import (
	"fmt"
	"slices"
	"strings"
)

// Order is one run of a scenario.
type Order struct {
	steps []step // of the run before, up to the choice that changes; then of this one
	at    int    // steps done
	seen  map[string]struct{}
	err   error
}

// step is one choice.
type step struct {
	state   string
	offered []string
	chosen  int
}

// Pick returns which of the actions comes next. They are given in the same
// order each time, and at least one. state, which may be nil, describes
// everything that what follows depends on: false means that the search went on
// from there before (or that the replay went astray, which Explore tells); the
// scenario cleans up and returns nil.
func (o *Order) Pick(state func() string, offered ...string) (action string, ok bool) {
	if state == nil {
		state = func() string { return "" }
	}
	if o.at < len(o.steps) {
		s, now := o.steps[o.at], ""
		same := slices.Equal(s.offered, offered)
		if last := o.at == len(o.steps)-1; last || !same { // looking each time costs more than the replay
			now = state()
			same = same && s.state == now
		}
		if !same {
			o.err = fmt.Errorf("not repeatable: there were %q\nin %s\nand now there are %q\nin %s", s.offered, s.state, offered, now)
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

// next takes back the last choice that has an alternative; false: none has.
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

// Found is what a search found.
type Found struct {
	Orders  int // runs of the scenario
	States  int // different ones, where the scenario tells them
	Longest int // actions of one run
}

// Explore runs the scenario in every order. It stops at the first that fails,
// whose error tells the order.
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
