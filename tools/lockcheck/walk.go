package main

import (
	"cmp"
	"go/constant"
	"go/token"
	"go/types"
	"maps"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// A state is what may be locked at a place of a function.
type state struct {
	held     map[string]bool     // locked here, on some path
	released map[string]bool     // the callers' locks, unlocked here on every path
	deferred map[*ssa.Defer]bool // the calls that the end of the function makes
}

func newState() *state {
	return &state{held: map[string]bool{}, released: map[string]bool{}, deferred: map[*ssa.Defer]bool{}}
}

func (s *state) clone() *state {
	return &state{held: maps.Clone(s.held), released: maps.Clone(s.released), deferred: maps.Clone(s.deferred)}
}

// join adds another path to s and reports whether that changes s.
func (s *state) join(path *state) (changed bool) {
	for name := range path.held {
		changed = changed || !s.held[name]
		s.held[name] = true
	}
	for name := range s.released {
		if !path.released[name] {
			delete(s.released, name)
			changed = true
		}
	}
	for d := range path.deferred {
		changed = changed || !s.deferred[d]
		s.deferred[d] = true
	}
	return changed
}

func (s *state) lock(name string) {
	if s.released[name] {
		delete(s.released, name)
		return
	}
	s.held[name] = true
}

func (s *state) unlock(name string) {
	if s.held[name] {
		delete(s.held, name)
		return
	}
	s.released[name] = true
}

// walk follows the paths through fn with what is locked on each, and adds what it does to its summary.
func (c *check) walk(fn *ssa.Function) {
	if len(fn.Blocks) == 0 {
		return
	}
	var returns []returned
	c.flow(fn, func(ret *ssa.Return, s *state) { returns = append(returns, returned{ret, s}) })
	s := c.summaries[fn]
	for _, r := range returns {
		for name := range r.held {
			if i, ok := decides(name, returns); ok {
				c.changed = c.changed || s.maybe[name] != i+1
				s.maybe[name] = i + 1
				continue
			}
			c.changed = c.changed || !s.acquires[name]
			s.acquires[name] = true
		}
		for name := range r.released {
			c.changed = c.changed || !s.releases[name]
			s.releases[name] = true
		}
	}
}

// A returned is a return, and the state in which it leaves the function.
type returned struct {
	ret *ssa.Return
	*state
}

// decides finds the result that is true where a lock is held at the return, and false where it is not.
func decides(name string, returns []returned) (int, bool) {
	for i, result := range returns[0].ret.Results {
		if !types.Identical(result.Type().Underlying(), types.Typ[types.Bool]) {
			continue
		}
		if !slices.ContainsFunc(returns, func(r returned) bool {
			v, ok := r.ret.Results[i].(*ssa.Const)
			return !ok || constant.BoolVal(v.Value) != r.held[name]
		}) {
			return i, true
		}
	}
	return 0, false
}

// flow visits the blocks until their states no longer change, and calls returns with the state of each return.
func (c *check) flow(fn *ssa.Function, returns func(*ssa.Return, *state)) {
	entry := map[*ssa.BasicBlock]*state{fn.Blocks[0]: newState()}
	at := &place{check: c, fn: fn}
	reporting := c.reporting
	c.reporting = false // until the states are complete
	work := []*ssa.BasicBlock{fn.Blocks[0]}
	for len(work) > 0 {
		b := work[0]
		work = work[1:]
		out := entry[b].clone()
		at.block(b, out)
		for i, next := range b.Succs {
			path := out
			if names, taken := at.tried(b); names != nil && (i == 0) == taken {
				path = out.clone()
				for _, name := range names {
					path.lock(name)
				}
			}
			if entry[next] == nil {
				entry[next] = path.clone()
			} else if !entry[next].join(path) {
				continue
			}
			if !slices.Contains(work, next) {
				work = append(work, next)
			}
		}
	}
	c.reporting = reporting
	for _, b := range fn.Blocks {
		if entry[b] == nil {
			continue // unreachable
		}
		out := entry[b].clone()
		at.block(b, out)
		if ret, ok := b.Instrs[len(b.Instrs)-1].(*ssa.Return); ok {
			returns(ret, out)
		}
	}
}

// A place is where the walk is.
type place struct {
	check *check
	fn    *ssa.Function
	pos   token.Pos
}

// block changes s by what a block does.
func (p *place) block(b *ssa.BasicBlock, s *state) {
	for _, instr := range b.Instrs {
		if instr.Pos().IsValid() {
			p.pos = instr.Pos()
		}
		switch instr := instr.(type) {
		case *ssa.Send:
			p.does(effect{Kind: waits, What: "a send on a channel"}, s)
		case *ssa.UnOp:
			if instr.Op == token.ARROW {
				p.does(effect{Kind: waits, What: "a receive from a channel"}, s)
			}
		case *ssa.Select:
			if instr.Blocking {
				p.does(effect{Kind: waits, What: "a select without default"}, s)
			}
		case *ssa.Call:
			if !instr.Pos().IsValid() && len(instr.Call.Args) > 0 { // of an iterator: where the loop's body is
				if body, ok := instr.Call.Args[0].(*ssa.MakeClosure); ok {
					p.pos = body.Fn.Pos()
				}
			}
			p.call(&instr.Call, s)
		case *ssa.Defer:
			s.deferred[instr] = true
		case *ssa.RunDefers:
			later := func(a, b *ssa.Defer) int { return cmp.Compare(b.Pos(), a.Pos()) }
			for _, d := range slices.SortedFunc(maps.Keys(s.deferred), later) {
				p.pos = d.Pos()
				p.call(&d.Call, s)
			}
			clear(s.deferred)
		}
	}
}

// tried returns the locks that the condition at the end of a block says to be taken, and on which outcome they are.
func (p *place) tried(b *ssa.BasicBlock) (names []string, taken bool) {
	branch, ok := b.Instrs[len(b.Instrs)-1].(*ssa.If)
	if !ok {
		return nil, false
	}
	cond, taken := branch.Cond, true
	for {
		not, ok := cond.(*ssa.UnOp)
		if !ok || not.Op != token.NOT {
			break
		}
		cond, taken = not.X, !taken
	}
	result := 0
	if extract, ok := cond.(*ssa.Extract); ok {
		cond, result = extract.Tuple, extract.Index
	}
	call, ok := cond.(*ssa.Call)
	if !ok || call.Call.StaticCallee() == nil {
		return nil, false
	}
	callee := call.Call.StaticCallee()
	if mutexMethod(callee) == tries {
		return []string{p.check.locks.name(call.Call.Args[0])}, taken
	}
	if s := p.check.summaries[p.check.declared(callee)]; s != nil {
		for name, i := range s.maybe {
			if i == result+1 {
				names = append(names, name)
			}
		}
	}
	return names, taken
}

// call changes s by a call.
func (p *place) call(call *ssa.CallCommon, s *state) {
	switch mutexMethod(call.StaticCallee()) {
	case takes:
		name := p.check.locks.name(call.Args[0])
		if name == "" {
			p.report("which mutex this is cannot be told: lock a field or a variable")
			return
		}
		if !s.released[name] {
			p.does(effect{Kind: takesLock, What: name}, s)
		}
		s.lock(name)
		return
	case unlocks:
		s.unlock(p.check.locks.name(call.Args[0]))
		return
	case tries:
		return // takes no lock that somebody else holds; tried says what follows
	}
	done := p.check.calls(call, p.fn)
	for _, e := range done.list() {
		p.does(e, s)
	}
	for name := range done.releases {
		s.unlock(name)
	}
	for name := range done.acquires {
		s.lock(name)
	}
}

// does adds an effect to the summary of the function, and reports it where a lock is held.
func (p *place) does(e effect, s *state) {
	under := sorted(s.held)
	under = slices.DeleteFunc(under, func(name string) bool { return slices.Contains(e.Released, name) })
	under = union(under, e.Under)
	e.Under = nil
	switch {
	case p.check.locks.computes(p.pos, p.fn, e):
		return
	case e.Kind == callsParam && p.check.private(e.of):
		e.Under = under
	case p.check.reporting:
		for _, name := range under {
			p.under(name, e)
		}
	}
	var released []string
	for _, name := range union(e.Released, sorted(s.released)) {
		if !s.held[name] {
			released = append(released, name)
		}
	}
	e.Released = released
	if p.check.summaries[p.fn].add(e) {
		p.check.changed = true
	}
}

// private reports whether only this package calls fn, and by its name.
func (c *check) private(fn *ssa.Function) bool {
	obj, ok := fn.Object().(*types.Func)
	return ok && !obj.Exported() && !c.values[fn]
}
