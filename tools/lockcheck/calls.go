package main

import (
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// A method of a mutex does one of these.
type mutexCall int

const (
	noMutex mutexCall = iota
	takes
	unlocks
	tries
)

func mutexMethod(fn *ssa.Function) mutexCall {
	if fn == nil || fn.Signature.Recv() == nil || !isMutex(fn.Signature.Recv().Type()) {
		return noMutex
	}
	switch fn.Name() {
	case "Lock", "RLock":
		return takes
	case "Unlock", "RUnlock":
		return unlocks
	case "TryLock", "TryRLock":
		return tries
	}
	return noMutex
}

// isMutex reports whether t is a sync.Mutex or sync.RWMutex, or points to one.
func isMutex(t types.Type) bool {
	if ptr, ok := t.Underlying().(*types.Pointer); ok {
		t = ptr.Elem()
	}
	return isNamed(t, "sync", "Mutex") || isNamed(t, "sync", "RWMutex")
}

func isNamed(t types.Type, pkg, name string) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Name() == name && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == pkg
}

// deepest bounds how many function values lead to each other before the last is taken for an unknown one.
const deepest = 6

// calls returns what a call in fn does.
func (c *check) calls(call *ssa.CallCommon, fn *ssa.Function) *summary {
	done := newSummary()
	c.addCall(done, call, fn, 0)
	return done
}

func (c *check) addCall(done *summary, call *ssa.CallCommon, fn *ssa.Function, depth int) {
	if _, ok := call.Value.(*ssa.Builtin); ok {
		return
	}
	if call.IsInvoke() {
		if targets := c.concrete(call); targets != nil {
			for _, t := range targets {
				c.addTarget(done, t, call.Args, fn, depth)
			}
			return
		}
		if e, ok := c.ofInterface(call.Method, call.Value.Type()); ok {
			done.add(e)
		}
		return
	}
	for _, t := range c.resolve(call.Value, nil) {
		c.addTarget(done, t, call.Args, fn, depth)
	}
}

// addTarget adds what a call of t with these arguments does.
func (c *check) addTarget(done *summary, t target, args []ssa.Value, fn *ssa.Function, depth int) {
	in := invocation{callee: t.fn, args: args, caller: fn, depth: depth}
	switch {
	case t.param != nil:
		done.add(effect{Kind: callsParam, What: "a call of " + t.param.Name(), Param: t.index, of: t.param.Parent()})
		in.callsArgs(c, done)
		return
	case t.unknown != "":
		done.add(effect{Kind: callsBack, What: t.unknown})
		in.callsArgs(c, done)
		return
	case t.fn == nil:
		return
	}
	switch {
	case t.returned != nil:
		in.add(c, done, t.returned)
		return
	case c.summaries[t.fn] != nil:
		in.shift = len(t.fn.Params) - len(args) // a bound method has its receiver already
		in.add(c, done, c.summaries[t.fn])
		return
	}
	obj, ok := t.fn.Object().(*types.Func)
	if !ok {
		return
	}
	if recv := obj.Signature().Recv(); recv != nil {
		in.shift = obj.Signature().Params().Len() + 1 - len(args)
		if types.IsInterface(recv.Type()) {
			if e, ok := c.ofInterface(obj, recv.Type()); ok {
				done.add(e)
			}
			return
		}
	}
	if obj.Pkg() == nil {
		return
	}
	if ours(obj.Pkg().Path()) {
		var fact summaryFact
		if c.pass.ImportObjectFact(obj.Origin(), &fact) {
			in.add(c, done, summaryOf(&fact, t.fn))
		}
		return
	}
	if e, ok := c.external(obj, args); ok {
		done.add(e)
	}
	if !callsLater(obj) {
		in.callsArgs(c, done)
	}
}

// An invocation is a call of a function whose summary is known, or of one that calls what it is given.
type invocation struct {
	callee, caller *ssa.Function
	args           []ssa.Value // nil when nobody here knows them
	shift          int         // parameters before the first of args
	depth          int         // of function values that lead to each other
}

// add adds the summary s of the callee.
func (in invocation) add(c *check, done, s *summary) {
	for _, e := range s.list() {
		if arg := e.Param - in.shift; e.Kind == callsParam {
			if e.of == in.callee && in.args == nil {
				continue // whoever calls it there has said what is given to it
			}
			if e.of == in.callee && in.callee != in.caller && arg >= 0 && arg < len(in.args) {
				in.addFunction(c, done, in.args[arg], e)
				continue
			}
			if !enclosed(in.caller, e.of) {
				e.Kind = callsBack
			}
		}
		done.add(e.through(shortName(in.callee), nil))
	}
	done.addLocks(s)
}

// callsArgs adds what the functions do that are given to a callee which nobody here knows: it may call them.
func (in invocation) callsArgs(c *check, done *summary) {
	for _, arg := range in.args {
		if _, ok := arg.Type().Underlying().(*types.Signature); ok {
			in.addFunction(c, done, arg, effect{})
		}
	}
}

// addFunction adds what a call of a function value does, the effect by of the callee.
func (in invocation) addFunction(c *check, done *summary, v ssa.Value, by effect) {
	called := newSummary()
	if in.depth == deepest {
		called.add(effect{Kind: callsBack, What: "a call of a function value"})
	} else {
		for _, t := range c.resolve(v, nil) {
			c.addTarget(called, t, nil, in.caller, in.depth+1)
		}
	}
	for _, e := range called.list() {
		if in.callee != nil {
			e = e.through(shortName(in.callee), by.Released)
		}
		e.Under = union(e.Under, by.Under)
		done.add(e)
	}
	done.addLocks(called)
}

// enclosed reports whether fn is a literal in outer, at any depth.
func enclosed(fn, outer *ssa.Function) bool {
	for ; fn != nil; fn = fn.Parent() {
		if fn == outer {
			return true
		}
	}
	return false
}

// shortName returns a function's name for people: the package, the type and the name.
func shortName(fn *ssa.Function) string {
	name := fn.RelString(nil)
	if obj, ok := fn.Object().(*types.Func); ok {
		name = obj.FullName()
	}
	return shorten(name)
}

// shorten cuts the directories from the packages in a name.
func shorten(name string) string {
	var b strings.Builder
	word := 0
	for i, r := range name {
		switch {
		case r == '/':
			word = i + 1
		case strings.ContainsRune("()*[], ", r):
			b.WriteString(name[word : i+1])
			word = i + 1
		}
	}
	b.WriteString(name[word:])
	return b.String()
}

// returnedFunctions returns the literals and functions that fn returns, where it returns nothing else of a function
// type.
func (c *check) returnedFunctions(fn *ssa.Function) []*ssa.Function {
	results := fn.Signature.Results()
	if results.Len() != 1 {
		return nil
	}
	if _, ok := results.At(0).Type().Underlying().(*types.Signature); !ok {
		return nil
	}
	var all []*ssa.Function
	for _, b := range fn.Blocks {
		ret, ok := b.Instrs[len(b.Instrs)-1].(*ssa.Return)
		if !ok {
			continue
		}
		values := []ssa.Value{ret.Results[0]}
		if load, ok := ret.Results[0].(*ssa.UnOp); ok { // of the variable that deferred calls may change
			values = c.storedIn(load.X)
		}
		if len(values) == 0 {
			return nil
		}
		for _, v := range values {
			switch v := unwrapped(v).(type) {
			case *ssa.MakeClosure:
				all = append(all, v.Fn.(*ssa.Function))
			case *ssa.Function:
				all = append(all, v)
			case *ssa.Const: // nil
			default:
				return nil
			}
		}
	}
	slices.SortFunc(all, func(a, b *ssa.Function) int { return int(a.Pos() - b.Pos()) })
	return slices.Compact(all)
}
