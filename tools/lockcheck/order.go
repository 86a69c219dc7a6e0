package main

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// under reports an effect that happens while the lock called name is held, unless a comment excepts it.
func (p *place) under(name string, e effect) {
	k := p.check.locks.byName[name] // nil when another package declares it
	if e.Kind == callsParam {
		e.Kind = callsBack
	}
	if e.Kind == takesLock {
		p.inOrder(name, k, e)
		return
	}
	if k != nil && k.reasons[e.Kind] != "" {
		k.used[kindWords[e.Kind]] = true
		k.nests = k.nests || e.Kind == callsBack
		return
	}
	if p.report(fmt.Sprintf("%s is held across %s: %s", name, kindWords[e.Kind], e)) && k != nil {
		k.nests = k.nests || e.Kind == callsBack
	}
}

// inOrder reports a lock that is taken under another and must not be.
func (p *place) inOrder(name string, k *lock, e effect) {
	if k != nil {
		k.nests = true
	}
	held, taken := p.check.locks.declaration(name), p.check.locks.declaration(e.What)
	if held.Place == "" || taken.Place == "" {
		return // reported where it is declared
	}
	if before, ok := held.names(taken.Name); ok && name != e.What {
		if k != nil {
			k.used[before] = true
		}
		return
	}
	switch {
	case name == e.What:
		p.report(fmt.Sprintf("%s is locked while one of that name is held: %s", name, e))
	case held.Place == leaf:
		p.report(fmt.Sprintf("%s is declared a leaf, and %s is locked under it", name, e))
	case slices.Index(places, held.Place) >= slices.Index(places, taken.Place):
		p.report(fmt.Sprintf("%s (%s) is held, and %s (%s) is not declared to come after it", name, held.Place, e,
			taken.Place))
	}
}

// report says once what is wrong at the place, unless a comment on the line excepts it. It returns whether one does.
func (p *place) report(text string) (excepted bool) {
	if !p.check.reporting {
		return false
	}
	pass := p.check.pass
	if i := p.check.locks.lines[lineOf(pass.Fset.Position(p.pos))]; i != nil && !i.computes {
		i.except(p.fn, text)
		return true
	}
	key := fmt.Sprint(p.pos, text)
	if !p.check.reported[key] {
		p.check.reported[key] = true
		pass.Reportf(p.pos, "%s", text)
	}
	return false
}

// reportUnused reports comments that say more than is true.
func (l *locks) reportUnused(pass *analysis.Pass) {
	for _, k := range l.all {
		for of := range k.reasons {
			if !k.used[kindWords[of]] {
				pass.Reportf(k.pos, "%s is never held across %s: remove the exception", k.Name, kindWords[of])
			}
		}
		for _, before := range k.Before {
			if k.Place != leaf && !k.used[before] {
				pass.Reportf(k.pos, "%s is never locked under %s: remove it from the declaration", before, k.Name)
			}
		}
		if k.Place != leaf && k.Place != "" && !k.nests {
			pass.Reportf(k.pos, "nothing is locked under %s: declare it a leaf", k.Name)
		}
	}
	for _, i := range l.ignores {
		if len(i.what) == 0 && !i.declares {
			pass.Reportf(i.pos, "the exception excepts nothing: %s", strings.TrimSpace(i.reason))
		}
	}
}
