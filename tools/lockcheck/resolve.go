package main

import (
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// A target is something that a function value may be.
type target struct {
	fn       *ssa.Function  // of this package, or declared by another
	returned *summary       // of a literal that fn, of another package, returns; then that is meant
	param    *ssa.Parameter // of this function or one around it
	index    int            // of param
	unknown  string         // what is called, for people
}

// resolve returns what the function value v may be.
func (c *check) resolve(v ssa.Value, seen map[ssa.Value]bool) []target {
	if seen[v] {
		return nil
	}
	if seen == nil {
		seen = map[ssa.Value]bool{}
	}
	seen[v] = true
	if harmlessFunction(v.Type()) {
		return nil
	}
	switch v := v.(type) {
	case *ssa.Const:
		return nil
	case *ssa.Function:
		return []target{{fn: c.declared(v)}}
	case *ssa.MakeClosure:
		return []target{{fn: c.declared(v.Fn.(*ssa.Function))}}
	case *ssa.Parameter:
		for i, p := range v.Parent().Params {
			if p == v {
				return []target{{param: v, index: i}}
			}
		}
	case *ssa.ChangeType:
		return c.resolve(v.X, seen)
	case *ssa.Phi:
		var all []target
		for _, edge := range v.Edges {
			all = append(all, c.resolve(edge, seen)...)
		}
		return all
	case *ssa.FreeVar:
		if bound := binding(v); bound != nil {
			return c.resolve(bound, seen)
		}
	case *ssa.UnOp:
		if v.Op == token.MUL {
			if at, ok := v.X.(*ssa.FieldAddr); ok && c.locks.computesDeclared(fieldOf(at.X.Type(), at.Field)) {
				return nil
			}
			if stored := c.storedIn(v.X); stored != nil {
				var all []target
				for _, s := range stored {
					all = append(all, c.resolve(s, seen)...)
				}
				return all
			}
		}
	case *ssa.Field:
		if c.locks.computesDeclared(fieldOf(v.X.Type(), v.Field)) {
			return nil
		}
	case *ssa.Call:
		if all, ok := c.results(v, seen); ok {
			return all
		}
	}
	return []target{{unknown: "a call of " + describe(v)}}
}

// results returns what a call returns, where that is known.
func (c *check) results(call *ssa.Call, seen map[ssa.Value]bool) ([]target, bool) {
	callee := call.Call.StaticCallee()
	if callee == nil {
		return nil, false
	}
	callee = c.declared(callee)
	if c.summaries[callee] != nil {
		returned := c.returnedFunctions(callee)
		var all []target
		for _, fn := range returned {
			all = append(all, target{fn: c.declared(fn)})
		}
		return all, len(returned) > 0
	}
	obj, ok := callee.Object().(*types.Func)
	if !ok || obj.Pkg() == nil {
		return nil, false
	}
	if ours(obj.Pkg().Path()) {
		var fact summaryFact
		if !c.pass.ImportObjectFact(obj.Origin(), &fact) || len(fact.Results) == 0 {
			return nil, false
		}
		var all []target
		for _, result := range summaryOf(&fact, callee).results {
			all = append(all, target{fn: callee, returned: result})
		}
		return all, true
	}
	if !returnsCaller(obj) {
		return nil, false
	}
	var all []target
	for _, arg := range call.Call.Args {
		if _, ok := arg.Type().Underlying().(*types.Signature); ok {
			all = append(all, c.resolve(arg, seen)...)
		}
	}
	return append(all, target{fn: callee, returned: callsAll(callee, call.Call.Signature().Results().At(0).Type())}), true
}

// callsAll returns the summary of a function of type t that calls the functions that it is given: of an iterator.
func callsAll(of *ssa.Function, t types.Type) *summary {
	s := newSummary()
	sig, ok := t.Underlying().(*types.Signature)
	for i := 0; ok && i < sig.Params().Len(); i++ {
		if _, ok := sig.Params().At(i).Type().Underlying().(*types.Signature); ok {
			s.add(effect{Kind: callsParam, What: "a call of " + sig.Params().At(i).Name(), Param: i, of: of})
		}
	}
	return s
}

// declared returns the function that was written: not its instance, and not what binds its receiver.
func (c *check) declared(fn *ssa.Function) *ssa.Function {
	if origin := fn.Origin(); origin != nil {
		fn = origin
	}
	if c.summaries[fn] != nil {
		return fn
	}
	if obj, ok := fn.Object().(*types.Func); ok {
		if written := c.program.FuncValue(obj.Origin()); written != nil {
			return written
		}
	}
	return fn
}

// binding returns the variable that a literal captures.
func binding(v *ssa.FreeVar) ssa.Value {
	fn := v.Parent()
	for i, free := range fn.FreeVars {
		if free != v || fn.Parent() == nil {
			continue
		}
		for _, b := range fn.Parent().Blocks {
			for _, instr := range b.Instrs {
				if made, ok := instr.(*ssa.MakeClosure); ok && made.Fn == fn {
					return made.Bindings[i]
				}
			}
		}
	}
	return nil
}

// storedIn returns the values that are stored in a variable, or nil when those are not known.
func (c *check) storedIn(addr ssa.Value) []ssa.Value {
	for {
		free, ok := addr.(*ssa.FreeVar)
		if !ok {
			break
		}
		if addr = binding(free); addr == nil {
			return nil
		}
	}
	if variable, ok := addr.(*ssa.Global); ok {
		return c.stored[variable]
	}
	variable, ok := addr.(*ssa.Alloc)
	if !ok {
		return nil
	}
	var all []ssa.Value
	if !stores(variable, &all) {
		return nil
	}
	return all
}

// stores adds what is stored at addr, and reports whether all uses of addr are known.
func stores(addr ssa.Value, all *[]ssa.Value) bool {
	for _, use := range *addr.Referrers() {
		switch use := use.(type) {
		case *ssa.Store:
			if use.Addr != addr {
				return false // the address is stored
			}
			*all = append(*all, use.Val)
		case *ssa.UnOp, *ssa.DebugRef:
		case *ssa.MakeClosure:
			for i, b := range use.Bindings {
				if b == addr && !stores(use.Fn.(*ssa.Function).FreeVars[i], all) {
					return false
				}
			}
		default:
			return false
		}
	}
	return true
}

// concrete returns the methods that an interface's method stands for, where the value's type is known, or only this
// package implements the interface.
func (c *check) concrete(call *ssa.CallCommon) []target {
	found := c.dynamicTypes(call.Value, map[ssa.Value]bool{})
	if slices.Contains(found, nil) {
		found = c.implementers(call.Value.Type())
	}
	var all []target
	for _, t := range found {
		obj, _, _ := types.LookupFieldOrMethod(t, true, call.Method.Pkg(), call.Method.Name())
		fn, ok := obj.(*types.Func)
		if !ok || c.program.FuncValue(fn.Origin()) == nil {
			return nil
		}
		all = append(all, target{fn: c.program.FuncValue(fn.Origin())})
	}
	return all
}

// implementers returns the types that implement an interface with a method that only this package can name.
func (c *check) implementers(t types.Type) (all []types.Type) {
	iface, ok := t.Underlying().(*types.Interface)
	if !ok {
		return nil
	}
	sealed := false
	for m := range iface.Methods() {
		sealed = sealed || !m.Exported() && m.Pkg() == c.pass.Pkg
	}
	if !sealed {
		return nil
	}
	scope := c.pass.Pkg.Scope()
	for _, name := range scope.Names() {
		obj, ok := scope.Lookup(name).(*types.TypeName)
		if !ok || obj.IsAlias() || types.IsInterface(obj.Type()) {
			continue
		}
		if named, ok := obj.Type().(*types.Named); ok && named.TypeParams().Len() > 0 {
			params := make([]types.Type, named.TypeParams().Len())
			for i := range params {
				params[i] = named.TypeParams().At(i)
			}
			of, err := types.Instantiate(nil, named, params, false)
			if err != nil {
				return nil
			}
			if types.Implements(types.NewPointer(of), iface) {
				all = append(all, types.NewPointer(of))
			}
			continue
		}
		if types.Implements(types.NewPointer(obj.Type()), iface) {
			all = append(all, types.NewPointer(obj.Type()))
		}
	}
	return all
}

// dynamicTypes returns the types that the interface value v may have; nil is one that is not known.
func (c *check) dynamicTypes(v ssa.Value, seen map[ssa.Value]bool) []types.Type {
	if seen[v] {
		return nil
	}
	seen[v] = true
	switch v := v.(type) {
	case *ssa.MakeInterface:
		return []types.Type{v.X.Type()}
	case *ssa.ChangeInterface:
		return c.dynamicTypes(v.X, seen)
	case *ssa.Phi:
		var all []types.Type
		for _, edge := range v.Edges {
			all = append(all, c.dynamicTypes(edge, seen)...)
		}
		return all
	case *ssa.UnOp:
		if v.Op == token.MUL {
			if stored := c.storedIn(v.X); stored != nil {
				var all []types.Type
				for _, s := range stored {
					all = append(all, c.dynamicTypes(s, seen)...)
				}
				return all
			}
		}
	}
	return []types.Type{nil}
}

// unwrapped returns v without the changes of its type.
func unwrapped(v ssa.Value) ssa.Value {
	for {
		change, ok := v.(*ssa.ChangeType)
		if !ok {
			return v
		}
		v = change.X
	}
}

// describe names a function value for people.
func describe(v ssa.Value) string {
	switch v := v.(type) {
	case *ssa.UnOp:
		return describe(v.X)
	case *ssa.FieldAddr:
		return "the field " + fieldOf(v.X.Type(), v.Field).Name()
	case *ssa.Field:
		return "the field " + fieldOf(v.X.Type(), v.Field).Name()
	case *ssa.Global:
		return "the variable " + v.Name()
	case *ssa.FreeVar:
		return v.Name()
	case *ssa.Call:
		if callee := v.Call.StaticCallee(); callee != nil {
			return "what " + shortName(callee) + " returns"
		}
	}
	return "a function value"
}

// fieldOf returns a field of the structure t, or of the one that it points to, as it was declared.
func fieldOf(t types.Type, index int) *types.Var {
	if ptr, ok := t.Underlying().(*types.Pointer); ok {
		t = ptr.Elem()
	}
	return structOf(t).Field(index).Origin()
}

func structOf(t types.Type) *types.Struct {
	if param, ok := types.Unalias(t).(*types.TypeParam); ok {
		t = param.Constraint() // of structures with one core type
	}
	return t.Underlying().(*types.Struct)
}
