package main

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// A kind says which rule an effect is about.
type kind int

const (
	doesIO     kind = iota + 1
	waits           // for a channel or a group of goroutines
	callsBack       // calls a function that nobody here knows
	takesLock       // locks What
	callsParam      // calls the parameter Param, which the caller may know
)

// words of the kinds that a comment at a lock may except.
var kindWords = map[kind]string{doesIO: "I/O", waits: "waits", callsBack: "calls"}

// An effect is something that a function does, itself or through what it calls.
type effect struct {
	Kind     kind
	What     string   // for people; the name of a lock
	Param    int      // the index of the parameter, receivers included
	Via      []string // the functions through which it is done, the caller's callee first
	Released []string // the locks of callers that the function has given up meanwhile
	Under    []string // the locks under which a parameter is called, for the caller, who knows it, to check

	of *ssa.Function // the one with Param
}

// key tells effects apart. Of effects with one key the first is kept: one path is enough to show.
func (e effect) key() string {
	key := strconv.Itoa(int(e.Kind)) + " " + strings.Join(e.Released, ",") + " " + strings.Join(e.Under, ",")
	switch e.Kind {
	case takesLock:
		key += " " + e.What
	case callsParam:
		key += " " + e.of.String() + " " + strconv.Itoa(e.Param)
	}
	return key
}

// through returns the effect as what the caller of callee does.
func (e effect) through(callee string, released []string) effect {
	const shown = 6 // of a longer path the beginning
	if len(e.Via) < shown {
		e.Via = append([]string{callee}, e.Via...)
	}
	e.Released = union(e.Released, released)
	return e
}

// String says what is done, and through which functions.
func (e effect) String() string {
	if len(e.Via) == 0 {
		return e.What
	}
	return e.What + ", through " + strings.Join(e.Via, " → ")
}

// A summary says what a function does to those that call it.
type summary struct {
	effects  map[string]effect
	acquires map[string]bool // held when the function returns, and not when it is called
	releases map[string]bool // the reverse
	maybe    map[string]int  // held when the function returns true as this result
	results  []*summary      // of the functions that it returns; known for other packages' functions alone
}

func newSummary() *summary {
	return &summary{effects: map[string]effect{}, acquires: map[string]bool{}, releases: map[string]bool{},
		maybe: map[string]int{}}
}

// add reports whether e is new.
func (s *summary) add(e effect) bool {
	if _, ok := s.effects[e.key()]; ok {
		return false
	}
	s.effects[e.key()] = e
	return true
}

// addLocks adds what another function, called from this one, locks and unlocks.
func (s *summary) addLocks(called *summary) {
	maps.Copy(s.acquires, called.acquires)
	maps.Copy(s.releases, called.releases)
}

// list returns the effects in order.
func (s *summary) list() []effect {
	var all []effect
	for _, key := range slices.Sorted(maps.Keys(s.effects)) {
		all = append(all, s.effects[key])
	}
	return all
}

// A summaryFact is a summary for other packages.
type summaryFact struct {
	Effects            []effect
	Acquires, Releases []string
	Results            []*summaryFact
}

func (*summaryFact) AFact()           {}
func (f *summaryFact) String() string { return strconv.Itoa(len(f.Effects)) + " effects" }

func (f *summaryFact) empty() bool {
	return len(f.Effects) == 0 && len(f.Acquires) == 0 && len(f.Releases) == 0 &&
		!slices.ContainsFunc(f.Results, func(r *summaryFact) bool { return !r.empty() })
}

// fact returns the summary for other packages. There nobody knows the parameters of the function around fn, and a lock
// that may be held counts as one that is.
func (s *summary) fact(fn *ssa.Function) *summaryFact {
	f := &summaryFact{Acquires: union(sorted(s.acquires), sorted(s.maybe)), Releases: sorted(s.releases)}
	for _, e := range s.list() {
		if e.Kind == callsParam && e.of != fn {
			e.Kind = callsBack
		}
		e.of = nil
		f.Effects = append(f.Effects, e)
	}
	return f
}

// summaryOf returns what another package says of one of its functions.
func summaryOf(f *summaryFact, fn *ssa.Function) *summary {
	s := newSummary()
	for _, e := range f.Effects {
		e.of = fn
		s.add(e)
	}
	for _, name := range f.Acquires {
		s.acquires[name] = true
	}
	for _, name := range f.Releases {
		s.releases[name] = true
	}
	for _, result := range f.Results {
		s.results = append(s.results, summaryOf(result, fn))
	}
	return s
}

func sorted[V any](set map[string]V) []string { return slices.Sorted(maps.Keys(set)) }

func union(a, b []string) []string {
	if len(b) == 0 {
		return a
	}
	all := slices.Concat(a, b)
	slices.SortFunc(all, cmp.Compare[string])
	return slices.Compact(all)
}
