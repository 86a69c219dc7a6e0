package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"
)

// places are the places of the order of locks, first to last. A lock is taken only under one with an earlier place; a
// leaf is last, and nothing is locked under it.
var places = []string{"config", "metadata", "breaker", leaf}

const leaf = "leaf"

// A lock is the declaration of a mutex: a field or a variable.
type lock struct {
	lockFact
	pos     token.Pos
	fields  []string // that stand below it, up to an empty line
	guards  string   // what its comment says besides
	nests   bool     // something is locked under it, or may be
	used    map[string]bool
	reasons map[kind]string // of the exceptions
}

// A lockFact says the name of a mutex and its place to other packages.
type lockFact struct {
	Name   string
	Place  string
	Before []string
}

func (*lockFact) AFact()           {}
func (f *lockFact) String() string { return f.Name + ": " + f.Place }

// A computesFact says of an interface, or of a field with a function, that its functions only compute.
type computesFact struct{}

func (*computesFact) AFact()         {}
func (*computesFact) String() string { return "computes" }

// An ignore is an exception of one line, or the promise that what the line calls only computes.
type ignore struct {
	pos      token.Pos
	computes bool
	declares bool // at an exported declaration: other packages may need it
	reason   string
	what     []string // it excepts
	in       string   // the function
}

// locks are the mutexes of a package and what its comments say.
type locks struct {
	pass    *analysis.Pass
	all     []*lock
	byVar   map[types.Object]*lock
	byPos   map[token.Pos]*lock // of the variables
	byName  map[string]*lock
	known   map[string]lockFact // of other packages
	ignores []*ignore
	lines   map[string]*ignore       // by file and line
	objects map[types.Object]*ignore // the interfaces and fields whose functions only compute
}

func readLocks(pass *analysis.Pass) *locks {
	l := &locks{pass: pass, byVar: map[types.Object]*lock{}, byPos: map[token.Pos]*lock{}, byName: map[string]*lock{},
		known: map[string]lockFact{}, lines: map[string]*ignore{},
		objects: map[types.Object]*ignore{}}
	for _, fact := range pass.AllObjectFacts() {
		if f, ok := fact.Fact.(*lockFact); ok {
			l.known[f.Name] = *f
		}
	}
	for _, file := range pass.Files {
		l.readIgnores(file)
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				l.declared(funcName(decl), decl)
			case *ast.GenDecl:
				l.declared("", decl)
			}
		}
	}
	l.checkBefore()
	return l
}

func funcName(decl *ast.FuncDecl) string {
	if decl.Recv == nil {
		return decl.Name.Name
	}
	of := decl.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.IndexListExpr:
			of = t.X
		case *ast.Ident:
			return t.Name + "." + decl.Name.Name
		default:
			return decl.Name.Name
		}
	}
}

// declared finds the mutexes that n declares, in the type, variable or function called owner.
func (l *locks) declared(owner string, n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			if spec, ok := n.Specs[0].(*ast.ValueSpec); ok && len(n.Specs) == 1 && spec.Doc == nil {
				spec.Doc = n.Doc
			}
		case *ast.TypeSpec:
			l.declareComputes(n.Name)
			l.declared(dotted(owner, n.Name.Name), n.Type)
			return false
		case *ast.ValueSpec:
			for _, name := range n.Names {
				l.add(owner, name, n.Doc, n.Comment, nil)
			}
			if n.Type != nil {
				l.declared(dotted(owner, n.Names[0].Name), n.Type)
			}
			for _, v := range n.Values {
				l.declared(dotted(owner, n.Names[0].Name), v)
			}
			return false
		case *ast.StructType:
			for i, f := range n.Fields.List {
				for _, name := range f.Names {
					l.declareComputes(name)
					l.add(owner, name, f.Doc, f.Comment, n.Fields.List[i+1:])
				}
				if len(f.Names) == 0 {
					l.embedded(owner, f, n.Fields.List[i+1:])
					continue
				}
				l.declared(dotted(owner, f.Names[0].Name), f.Type)
			}
			return false
		}
		return true
	})
}

// embedded adds an embedded mutex.
func (l *locks) embedded(owner string, f *ast.Field, below []*ast.Field) {
	of := f.Type
	if ptr, ok := of.(*ast.StarExpr); ok {
		of = ptr.X
	}
	if sel, ok := of.(*ast.SelectorExpr); ok {
		for _, field := range l.pass.TypesInfo.Defs {
			if field != nil && field.Pos() == sel.Sel.Pos() && isMutex(field.Type()) {
				l.addObject(owner, field, f.Doc, f.Comment, below)
			}
		}
	}
}

func dotted(owner, name string) string {
	if owner == "" {
		return name
	}
	return owner + "." + name
}

func (l *locks) add(owner string, name *ast.Ident, doc, comment *ast.CommentGroup, below []*ast.Field) {
	if obj := l.pass.TypesInfo.Defs[name]; obj != nil && isMutex(obj.Type()) {
		l.addObject(owner, obj, doc, comment, below)
	}
}

func (l *locks) addObject(owner string, obj types.Object, doc, comment *ast.CommentGroup, below []*ast.Field) {
	k := &lock{pos: obj.Pos(), used: map[string]bool{}, reasons: map[kind]string{}}
	k.Name = strings.TrimPrefix(l.pass.Pkg.Path(), module+"/") + "." + dotted(owner, obj.Name())
	k.fields = l.fieldsBelow(k.pos, below)
	if err := k.parse(plain(doc) + "; " + plain(comment)); err != "" {
		l.pass.Reportf(k.pos, "%s: %s", k.Name, err)
	}
	l.all = append(l.all, k)
	l.byVar[obj], l.byPos[obj.Pos()], l.byName[k.Name] = k, k, k
	l.pass.ExportObjectFact(obj, &k.lockFact)
}

// plain returns the text of a comment as one line.
func plain(comment *ast.CommentGroup) string {
	return strings.Join(strings.Fields(comment.Text()), " ")
}

// fieldsBelow returns the names of the fields after the one at pos, up to an empty line or another mutex, with
// those of embedded structs.
func (l *locks) fieldsBelow(pos token.Pos, below []*ast.Field) (names []string) {
	line := l.pass.Fset.Position(pos).Line
	for _, f := range below {
		first := f.Pos()
		if f.Doc != nil {
			first = f.Doc.Pos()
		}
		if l.pass.Fset.Position(first).Line > line+1 || isMutex(l.pass.TypesInfo.TypeOf(f.Type)) {
			break
		}
		for _, name := range f.Names {
			names = append(names, name.Name)
		}
		if len(f.Names) == 0 {
			names = append(names, fieldsOf(l.pass.TypesInfo.TypeOf(f.Type))...)
		}
		line = l.pass.Fset.Position(f.End()).Line
	}
	return names
}

// fieldsOf returns the names of the fields of an embedded struct, or nil for another type.
func fieldsOf(t types.Type) (names []string) {
	if s, ok := t.Underlying().(*types.Struct); ok {
		for f := range s.Fields() {
			names = append(names, f.Name())
		}
	}
	return names
}

var (
	clause   = regexp.MustCompile(`\block: (.+?)(?:[.;]+ |[.;]*$)`)
	declares = regexp.MustCompile(`^(\w+)(?:, before (\S+(?:(?:, | and )\S+)*))?$`)
	excepts  = regexp.MustCompile(`^held across ((?:I/O|waits|calls)(?:(?:, | and )(?:I/O|waits|calls))*), because (.+)$`)
	listSep  = regexp.MustCompile(`, | and `)
)

// parse reads the comment of a mutex and returns what is wrong with it.
func (k *lock) parse(text string) string {
	for _, m := range clause.FindAllStringSubmatch(text, -1) {
		if e := excepts.FindStringSubmatch(m[1]); e != nil {
			for _, word := range listSep.Split(e[1], -1) {
				for of, name := range kindWords {
					if name == word {
						k.reasons[of] = e[2]
					}
				}
			}
			continue
		}
		d := declares.FindStringSubmatch(m[1])
		switch {
		case d == nil:
			return fmt.Sprintf("%q is neither a place (lock: metadata, before Type.mu) nor an exception "+
				"(lock: held across I/O, because …)", "lock: "+m[1])
		case !slices.Contains(places, d[1]):
			return fmt.Sprintf("there is no place %s: use %s", d[1], strings.Join(places, ", "))
		case k.Place != "":
			return "its comment declares two places"
		}
		k.Place = d[1]
		if d[2] != "" {
			k.Before = listSep.Split(d[2], -1)
		}
	}
	if k.Place == "" {
		return "its comment does not say its place in the order of locks: // lock: " + strings.Join(places, ", ")
	}
	if k.Place == leaf && k.Before != nil {
		return "nothing is locked under a leaf"
	}
	k.guards = strings.Trim(clause.ReplaceAllString(text, ""), " ;.")
	return ""
}

// names reports whether a lock is declared as one that may be taken under k: by its name, or its end.
func (k *lockFact) names(name string) (string, bool) {
	for _, before := range k.Before {
		if name == before || strings.HasSuffix(name, "."+before) || strings.HasSuffix(name, "/"+before) {
			return before, true
		}
	}
	return "", false
}

// checkBefore reports declarations of the package that lead in a circle.
func (l *locks) checkBefore() {
	for _, k := range l.all {
		reached := map[string]bool{}
		work := []*lock{k}
		for len(work) > 0 {
			from := work[0]
			work = work[1:]
			for _, to := range l.all {
				if _, ok := from.names(to.Name); !ok || reached[to.Name] {
					continue
				}
				reached[to.Name] = true
				work = append(work, to)
			}
		}
		if reached[k.Name] {
			l.pass.Reportf(k.pos, "%s is declared to be before itself", k.Name)
		}
	}
}

// name returns the name of the mutex at addr, or "".
func (l *locks) name(addr ssa.Value) string {
	switch v := addr.(type) {
	case *ssa.FieldAddr:
		return l.nameOf(fieldOf(v.X.Type(), v.Field))
	case *ssa.Field:
		return l.nameOf(fieldOf(v.X.Type(), v.Field))
	case *ssa.UnOp: // the field or variable is a pointer
		return l.name(v.X)
	case *ssa.Global:
		return l.nameOf(v.Object())
	case *ssa.FreeVar:
		if b := binding(v); b != nil {
			return l.name(b)
		}
	case *ssa.Alloc:
		if k := l.byPos[v.Pos()]; k != nil {
			return k.Name
		}
	}
	return ""
}

func (l *locks) nameOf(obj types.Object) string {
	if k := l.byVar[obj]; k != nil {
		return k.Name
	}
	var fact lockFact
	if l.pass.ImportObjectFact(obj, &fact) {
		return fact.Name
	}
	return ""
}

// declaration returns what is declared of a lock, here or in another package.
func (l *locks) declaration(name string) lockFact {
	if k := l.byName[name]; k != nil {
		return k.lockFact
	}
	return l.known[name]
}

// The comments about a line. What ignore excepts is still told to the callers, and what computes denies is not.
const (
	directive       = "//lockcheck:ignore"
	computesComment = "//lockcheck:computes"
)

// readIgnores reads the exceptions of lines. One that stands alone is about the line below.
func (l *locks) readIgnores(file *ast.File) {
	code := map[int]bool{} // the lines where something begins
	ast.Inspect(file, func(n ast.Node) bool {
		if _, ok := n.(*ast.Comment); n != nil && !ok {
			if _, ok := n.(*ast.CommentGroup); !ok {
				code[l.pass.Fset.Position(n.Pos()).Line] = true
			}
		}
		return true
	})
	for _, group := range file.Comments {
		for _, comment := range group.List {
			word, reason, _ := strings.Cut(comment.Text, " ")
			if word != directive && word != computesComment {
				continue
			}
			if reason, _, _ = strings.Cut(reason, "// want"); strings.TrimSpace(reason) == "" {
				l.pass.Reportf(comment.Pos(), "the exception has no reason: %s REASON", word)
				continue
			}
			at := l.pass.Fset.Position(comment.Pos())
			if !code[at.Line] {
				at.Line++
			}
			i := &ignore{pos: comment.Pos(), computes: word == computesComment, reason: strings.TrimSpace(reason)}
			l.ignores = append(l.ignores, i)
			l.lines[lineOf(at)] = i
		}
	}
}

// computes reports whether a comment says that the line does not have the effect.
func (l *locks) computes(pos token.Pos, fn *ssa.Function, e effect) bool {
	i := l.lines[lineOf(l.pass.Fset.Position(pos))]
	if i == nil || !i.computes || e.Kind == takesLock {
		return false
	}
	i.except(fn, e.String())
	return true
}

// declareComputes notes a comment at the declaration of an interface or of a field with a function.
func (l *locks) declareComputes(name *ast.Ident) {
	i := l.lines[lineOf(l.pass.Fset.Position(name.Pos()))]
	obj := l.pass.TypesInfo.Defs[name]
	if i == nil || !i.computes || obj == nil {
		return
	}
	_, isFunction := obj.Type().Underlying().(*types.Signature)
	_, isType := obj.(*types.TypeName)
	if isFunction || isType && types.IsInterface(obj.Type()) {
		i.declares, i.in = obj.Exported(), obj.Pkg().Name()+"."+name.Name
		l.objects[obj] = i
		l.pass.ExportObjectFact(obj, &computesFact{})
	}
}

// computesDeclared reports whether the declaration of an interface or field says that its functions only compute.
func (l *locks) computesDeclared(obj types.Object) bool {
	if i := l.objects[obj]; i != nil {
		i.what = []string{"calls of " + i.in}
		return true
	}
	return obj.Pkg() != l.pass.Pkg && l.pass.ImportObjectFact(obj, &computesFact{})
}

// except records what the comment excepts.
func (i *ignore) except(fn *ssa.Function, what string) {
	i.in = shortName(fn)
	if !slices.Contains(i.what, what) {
		i.what = append(i.what, what)
	}
}

func lineOf(at token.Position) string { return fmt.Sprintf("%s:%d", at.Filename, at.Line) }
