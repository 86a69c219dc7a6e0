package allium

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// layers lists every package of the module and the module's own packages it
// may import ("x/..." means x and everything below). A package that is not
// listed is an error: adding one is a decision. protocols/status and
// protocols/b3 are open to all and not repeated.
var layers = map[string][]string{
	".": {},

	"protocols/status":        {},
	"protocols/b3":            {},
	"protocols/bao":           {},
	"protocols/admission":     {},
	"protocols/kad":           {},
	"protocols/dcbor":         {},
	"protocols/capability":    {"protocols/admission"},
	"protocols/envelope":      {},
	"protocols/followed":      {},
	"protocols/message":       {},
	"protocols/manifest":      {},
	"protocols/oap":           {},
	"protocols/streamtest":    {},
	"protocols/runtest":       {},
	"protocols/scheduletest":  {},
	"protocols/timed":         {},
	"protocols/session":       {"protocols/..."},
	"protocols/session/model": {"protocols/..."},
	"protocols/object":        {"protocols/..."},
	"protocols/gossip":        {"protocols/admission"},
	"protocols/announce":      {"protocols/..."},
	"protocols/dht":           {"protocols/..."},
	"protocols/dht/routing":   {"protocols/admission", "protocols/kad"},
	"protocols/dht/guard":     {"protocols/..."},
	"protocols/dht/pace":      {"protocols/admission"},
	"protocols/dht/seeds":     {"protocols/dcbor", "protocols/envelope", "protocols/dht/pace"},
	"protocols/dht/sweep":     {"protocols/..."},

	"store":            {"store/arena", "store/bucket", "protocols/manifest", "protocols/admission"},
	"store/arena":      {},
	"store/bucket":     {"protocols/admission"},
	"store/storetest":  {"store", "store/bucket", "protocols/manifest", "protocols/admission"},
	"resolver":         {"protocols/..."},
	"gateway":          {"protocols/manifest", "protocols/bao", "protocols/admission", "protocols/capability", "protocols/followed", "gateway/..."},
	"gateway/client":   {"protocols/bao"},
	"gateway/audit":    {"protocols/admission"},
	"gateway/denylist": {"protocols/followed"},

	"node":           {"protocols/...", "store", "resolver", "gateway/...", "node/..."},
	"node/config":    {"protocols/...", "store", "resolver", "gateway", "gateway/audit", "node/p2p"},
	"node/supervise": {},
	"node/addcache":  {},
	"node/p2p":       {"protocols/admission"},
	"testnet":        {"node/...", "gateway/client", "protocols/manifest", "protocols/kad", "protocols/admission", "testnet/script"},
	"testnet/script": {"protocols/admission"},
	"testnet/dhtsim": {"protocols/kad"},
	"cmd/allium":     {"node/...", "testnet/...", "gateway/client", "protocols/capability"},
	"bench":          {"node/p2p", "protocols/admission", "protocols/dht", "protocols/oap", "protocols/session"},
}

// libp2pHosts are the import paths that only node/p2p and tests may use.
var libp2pHosts = []string{
	"github.com/libp2p/go-libp2p",
	"github.com/libp2p/go-libp2p/p2p/...",
	"github.com/libp2p/go-libp2p/x/...",
}

func TestArchitecture(t *testing.T) {
	t.Parallel()
	comments := map[string]bool{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "bin" || base == "tools") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(name))
		problems, documented, err := check(pkg, name, src)
		if err != nil {
			return err
		}
		for _, p := range problems {
			t.Error(p)
		}
		comments[pkg] = comments[pkg] || documented
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg, ok := range comments {
		if !ok {
			t.Errorf("%s: no package comment", pkg)
		}
	}
}

// check returns what is wrong with one file, and whether it carries the
// package comment.
func check(pkg, name string, src []byte) (problems []string, documented bool, err error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, parser.ParseComments)
	if err != nil {
		return nil, false, err
	}
	testFile := strings.HasSuffix(name, "_test.go")
	test := testFile || strings.HasSuffix(pkg, "test") // storetest, streamtest, runtest, scheduletest: libraries of tests
	say := func(at token.Pos, what string) {
		problems = append(problems, fset.Position(at).String()+": "+what)
	}
	allowed, listed := layers[pkg]
	if !listed {
		say(f.Package, "package "+pkg+" is not in the layer table of arch_test.go")
	}
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, false, err
		}
		if own, ok := strings.CutPrefix(p, "allium/"); ok && own != pkg && !importable(own, allowed, test) {
			say(spec.Pos(), pkg+" may not import "+own)
		}
		if !test && pkg != "node/p2p" && pkg != "bench" && matches(p, libp2pHosts) {
			say(spec.Pos(), "only node/p2p builds libp2p hosts, "+pkg+" may not import "+p)
		}
	}
	if !test {
		checkCode(pkg, fset, f, say)
	}
	return problems, f.Doc != nil && !testFile, nil
}

// importable applies the layer table; tests may also use the test packages.
func importable(own string, allowed []string, test bool) bool {
	open := []string{"protocols/status", "protocols/b3"}
	if test {
		open = append(open, "protocols/streamtest", "protocols/runtest", "protocols/scheduletest", "store/storetest")
	}
	return matches(own, open) || matches(own, allowed)
}

// matches reports whether p is one of the patterns or, for "x/...", below it.
func matches(p string, patterns []string) bool {
	for _, pat := range patterns {
		if root, tree := strings.CutSuffix(pat, "/..."); p == root || tree && strings.HasPrefix(p, root+"/") {
			return true
		}
	}
	return false
}

// checkCode applies the rules on goroutines, contexts, channels and errgroups.
func checkCode(pkg string, fset *token.FileSet, f *ast.File, say func(token.Pos, string)) {
	bounds := map[int]bool{} // lines with a "// bound:" comment
	for _, g := range f.Comments {
		for _, c := range g.List {
			if strings.HasPrefix(c.Text, "// bound:") {
				bounds[fset.Position(c.Pos()).Line] = true
			}
		}
	}
	groups, limits := 0, 0
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			say(n.Pos(), "a bare go statement: use sync.WaitGroup.Go or an errgroup with a limit, so that somebody waits")
		case *ast.CompositeLit:
			if isSelector(n.Type, "errgroup", "Group") {
				groups++
			}
		case *ast.ValueSpec:
			if isSelector(n.Type, "errgroup", "Group") {
				groups++
			}
		case *ast.SelectorExpr:
			if n.Sel.Name == "SetLimit" {
				limits++
			}
		case *ast.CallExpr:
			switch {
			case (isSelector(n.Fun, "context", "Background") || isSelector(n.Fun, "context", "TODO")) && !strings.HasPrefix(pkg, "cmd/") && pkg != "bench":
				say(n.Pos(), "a context out of nowhere: take the caller's")
			case isSelector(n.Fun, "errgroup", "WithContext"):
				groups++
			case pkg != "protocols/admission" && bufferedChan(n) && !bounds[fset.Position(n.Pos()).Line]:
				say(n.Pos(), "a buffered channel that does not say what bounds it (// bound: …)")
			}
		}
		return true
	})
	if groups > limits {
		say(f.Package, "an errgroup without SetLimit")
	}
}

// bufferedChan reports make(chan T, n) with n other than the literals 0 and 1.
func bufferedChan(call *ast.CallExpr) bool {
	id, ok := call.Fun.(*ast.Ident)
	if !ok || id.Name != "make" || len(call.Args) != 2 {
		return false
	}
	if _, ok := call.Args[0].(*ast.ChanType); !ok {
		return false
	}
	lit, ok := call.Args[1].(*ast.BasicLit)
	return !ok || lit.Value != "0" && lit.Value != "1"
}

func isSelector(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	id, ok := s.X.(*ast.Ident)
	return ok && id.Name == pkg
}

// TestArchitectureBites feeds the check what it must refuse.
func TestArchitectureBites(t *testing.T) {
	t.Parallel()
	for want, src := range map[string]string{
		"may not import gateway":   "import _ \"allium/gateway\"",
		"only node/p2p builds":     "import _ \"github.com/libp2p/go-libp2p/p2p/host/basic\"",
		"bare go statement":        "func f() { go f() }",
		"out of nowhere":           "import \"context\"\nvar _ = context.Background()",
		"does not say what bounds": "var c = make(chan int, 8)",
		"an errgroup without":      "import \"golang.org/x/sync/errgroup\"\nvar g errgroup.Group",
	} {
		problems, _, err := check("store", "store/x.go", []byte("package store\n"+src+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if len(problems) != 1 || !strings.Contains(problems[0], want) {
			t.Errorf("%q gave %q, want %q", src, problems, want)
		}
	}
	if problems, _, _ := check("nowhere", "nowhere/x.go", []byte("package nowhere\n")); len(problems) != 1 {
		t.Errorf("an unlisted package passes: %q", problems)
	}
	for _, src := range []string{"var c = make(chan int, 8) // bound: eight", "var c = make(chan int, 1)", "func f() { defer func() {}() }"} {
		if problems, _, _ := check("store", "store/x.go", []byte("package store\n"+src+"\n")); len(problems) != 0 {
			t.Errorf("%q gave %q", src, problems)
		}
	}
}
