package allium

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestOtherSystems type-checks what the binary consists of for systems on which no test runs: a file for macOS that
// nobody compiles is soon broken. 32-bit ARM finds what takes an int for 64 bits.
func TestOtherSystems(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("type-checks some 1,000 packages for each system")
	}
	sources := &sources{files: map[string]*ast.File{}}
	if root, err := os.Getwd(); err != nil {
		t.Fatal(err)
	} else {
		sources.own = root + string(os.PathSeparator)
	}
	for _, system := range []string{"darwin/arm64", "freebsd/amd64", "linux/arm"} {
		t.Run(system, func(t *testing.T) {
			goos, goarch, _ := strings.Cut(system, "/")
			cfg := &packages.Config{
				Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps |
					packages.NeedTypes | packages.NeedSyntax, // of the dependencies as well: so nothing is compiled
				Env:       append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0"),
				Fset:      &sources.fset,
				ParseFile: sources.parse,
			}
			loaded, err := packages.Load(cfg, "./cmd/...", "./gateway/...", "./internal/...", "./node/...",
				"./protocols/...", "./resolver/...", "./store/...", "./testnet/...")
			if err != nil {
				t.Fatal(err)
			}
			if len(loaded) < 100 {
				t.Errorf("only %d packages were found", len(loaded))
			}
			for _, p := range loaded {
				for _, err := range p.Errors {
					t.Error(err)
				}
			}
		})
	}
}

// sources parses each file once for all systems, and of dependencies the declarations alone: nothing is checked
// in the functions of others.
type sources struct {
	own   string // the prefix of this module's files
	fset  token.FileSet
	mu    sync.Mutex // guards files; lock: leaf
	files map[string]*ast.File
}

// parse is packages.Config.ParseFile. A file that cannot be parsed is parsed again for each system that has it.
func (s *sources) parse(_ *token.FileSet, name string, src []byte) (*ast.File, error) {
	s.mu.Lock()
	known := s.files[name]
	s.mu.Unlock()
	if known != nil {
		return known, nil
	}
	f, err := parser.ParseFile(&s.fset, name, src, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return f, err
	}
	if !strings.HasPrefix(name, s.own) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name != "init" && fn.Type.TypeParams == nil {
				fn.Body = nil
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = f
	return f, nil
}
