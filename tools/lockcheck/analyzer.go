package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"reflect"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"
)

// analyzer is the check of one package. What its functions do is told to the packages that import it.
var analyzer = &analysis.Analyzer{
	Name: "lockcheck",
	Doc: "find I/O, waits and call-backs under a mutex, and locks out of order\n\n" +
		"Each mutex says in a comment where in the order of locks it stands (lock: leaf), and each exception says why.",
	Run:        run,
	ResultType: reflect.TypeFor[*found](),
	FactTypes:  []analysis.Fact{(*summaryFact)(nil), (*lockFact)(nil), (*computesFact)(nil)},
}

// found lists the mutexes and the exceptions of one package, for the table.
type found struct {
	locks   []*lock
	ignored []*ignore
}

// A check analyzes one package.
type check struct {
	pass      *analysis.Pass
	program   *ssa.Program
	functions []*ssa.Function // and literals, in the order of the source
	locks     *locks
	summaries map[*ssa.Function]*summary
	values    map[*ssa.Function]bool      // used as values, not only called
	stored    map[*ssa.Global][]ssa.Value // what is stored in variables; nil when that is not known
	changed   bool                        // since the round began
	reporting bool                        // the summaries are complete: say what is wrong
	reported  map[string]bool
}

func run(pass *analysis.Pass) (any, error) {
	if !ours(pass.Pkg.Path()) {
		return &found{}, nil
	}
	c := &check{
		pass: pass, locks: readLocks(pass), summaries: map[*ssa.Function]*summary{}, reported: map[string]bool{},
		values: map[*ssa.Function]bool{}, stored: map[*ssa.Global][]ssa.Value{},
	}
	c.build()
	for _, fn := range c.functions {
		c.summaries[fn] = newSummary()
	}
	c.readValues()
	// A function does what those that it calls do, which may call it: until nothing is added.
	for c.changed = true; c.changed; {
		c.changed = false
		for _, fn := range c.functions {
			c.walk(fn)
		}
	}
	c.reporting = true
	for _, fn := range c.functions {
		c.walk(fn)
	}
	c.exportFacts()
	c.locks.reportUnused(pass)
	return &found{locks: c.locks.all, ignored: c.locks.ignores}, nil
}

// build makes the package's functions. As buildssa does, but that wants facts about every package of the world.
func (c *check) build() {
	c.program = ssa.NewProgram(c.pass.Fset, ssa.BuilderMode(0))
	c.program.SetNoReturn(func(fn *types.Func) bool {
		return fn.FullName() == "os.Exit" || fn.FullName() == "runtime.Goexit"
	})
	for _, imported := range c.pass.Pkg.Imports() {
		c.program.CreatePackage(imported, nil, nil, true)
	}
	pkg := c.program.CreatePackage(c.pass.Pkg, c.pass.Files, c.pass.TypesInfo, false)
	pkg.Build()
	c.addFunctions(pkg.Func("init")) // the values of variables
	for _, file := range c.pass.Files {
		for _, decl := range file.Decls {
			if decl, ok := decl.(*ast.FuncDecl); ok {
				c.addFunctions(c.program.FuncValue(c.pass.TypesInfo.Defs[decl.Name].(*types.Func)))
			}
		}
	}
}

func (c *check) addFunctions(fn *ssa.Function) {
	c.functions = append(c.functions, fn)
	for _, literal := range fn.AnonFuncs {
		c.addFunctions(literal)
	}
}

// readValues finds the functions that are used as values, and what is stored in variables that nobody else changes.
func (c *check) readValues() {
	for _, fn := range c.functions {
		for _, b := range fn.Blocks {
			for _, instr := range b.Instrs {
				c.readOperands(instr)
			}
		}
	}
	maps.DeleteFunc(c.stored, func(_ *ssa.Global, values []ssa.Value) bool { return values == nil })
}

func (c *check) readOperands(instr ssa.Instruction) {
	store, _ := instr.(*ssa.Store)
	call, _ := instr.(ssa.CallInstruction)
	for _, operand := range instr.Operands(nil) {
		switch v := (*operand).(type) {
		case *ssa.Function:
			if call == nil || operand != &call.Common().Value {
				c.values[c.declared(v)] = true
			}
		case *ssa.Global:
			values, known := c.stored[v]
			load, _ := instr.(*ssa.UnOp)
			switch {
			case known && values == nil || load != nil:
			case store != nil && store.Addr == v && !token.IsExported(v.Name()):
				c.stored[v] = append(values, store.Val)
			default:
				c.stored[v] = nil
			}
		}
	}
}

// exportFacts tells importing packages what the functions do.
func (c *check) exportFacts() {
	for _, fn := range c.functions {
		obj, ok := fn.Object().(*types.Func)
		if !ok {
			continue // a function literal
		}
		if fact := c.factOf(fn, 2); !fact.empty() {
			c.pass.ExportObjectFact(obj, fact)
		}
	}
}

// factOf returns the summary of fn for other packages, and those of the functions that it returns, so many deep.
func (c *check) factOf(fn *ssa.Function, deep int) *summaryFact {
	fact := c.summaries[fn].fact(fn)
	if deep == 0 {
		return fact
	}
	for _, result := range c.returnedFunctions(fn) {
		if sub := c.summaries[result]; sub != nil {
			fact.Results = append(fact.Results, c.factOf(result, deep-1))
		}
	}
	return fact
}
