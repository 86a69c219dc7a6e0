// Command lockcheck finds what must not happen while a mutex is held, here or in anything that is called: I/O, waits for
// channels and goroutines, calls of functions that nobody here knows, and other locks out of order.
//
//	lockcheck [-table FILE [-check]] PACKAGE…
//
// Each mutex says in its comment where it stands in the order of locks, after what it guards:
//
//	mu sync.Mutex // guards peers; lock: leaf
//	mu sync.Mutex // lock: metadata, before link.mu
//
// The places are config, metadata, breaker and leaf. Under a lock, only those of later places are taken, and those of
// its own place that it names; nothing is locked under a leaf. Exceptions give their reason:
//
//	// lock: held across I/O, because …     at a mutex; of I/O, waits and calls, those that happen
//	//lockcheck:ignore REASON               on a line, or above it: under the lock that is held there
//	//lockcheck:computes REASON             what the line calls only computes, whoever calls: it neither does I/O nor
//	                                        waits nor calls back, and locks at most leaves. At an interface or a field
//	                                        of a function type: its functions do
//
// A comment that excepts nothing, or gives no reason, is an error.
//
// # What is found
//
// A lock is the field or variable that declares it. So two objects of one type have one lock here, and taking the second
// under the first is an error. Locks are followed along all paths through a function, with deferred calls where they run,
// functions that return holding a lock (even only if a result is true) or unlock their caller's. RLock counts as Lock,
// and [sync.Cond.Wait] as neither a wait nor an unlock. What a function does is told to its callers in all packages.
//
// The lists in external.go say which functions of other modules do I/O; log/slog does, as it writes to a file. Readers
// and writers do if they may be files. What is not listed computes, and calls the functions that it is given before it
// returns. A function value is followed to the literals that it may be: through variables, parameters and results. A
// function in a field, and a method of an interface that another package could implement, is a call-back.
//
// # What is not found
//
// What happens below a call-back, which is an error itself unless a comment excepts it; data races; files of other
// systems than the one on which it runs; that a second caller of a [sync.Once] waits for the first; functions that other
// modules are given inside of structures; a lock that is held if a result is true, when nothing branches on the result.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
)

func main() {
	page := flag.String("table", "", "write the table of locks to this `file`")
	compare := flag.Bool("check", false, "compare the file with the table instead")
	flag.Parse()
	if err := lockcheck(".", *page, *compare, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "lockcheck:", err)
		os.Exit(1)
	}
}

// lockcheck analyzes the packages below dir and returns what is wrong, as one error. It writes the table to page, if
// any, or compares them.
func lockcheck(dir, page string, compare bool, patterns []string) error {
	all, problems, err := analyze(dir, patterns)
	if err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, p)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%d problems", len(problems))
	}
	table := writeTable(all)
	switch {
	case page == "":
		return nil
	case !compare:
		return os.WriteFile(page, table, 0o644)
	}
	is, err := os.ReadFile(page)
	if err == nil && !bytes.Equal(is, table) {
		return fmt.Errorf("%s differs from the sources: `make docs` writes it", page)
	}
	return err
}

// analyze returns the mutexes and exceptions of the packages, and what is wrong in them in the order of lines. Other
// modules are not read but for their types.
func analyze(dir string, patterns []string) (all []*found, problems []string, _ error) {
	cfg := &packages.Config{
		Dir: dir,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedExportFile | packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax |
			packages.NeedTypesInfo,
	}
	pkgs, err := packages.Load(cfg, patterns...)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range pkgs {
		for _, err := range p.Errors {
			problems = append(problems, err.Error())
		}
	}
	if problems != nil {
		return nil, problems, nil
	}
	graph, err := checker.Analyze([]*analysis.Analyzer{analyzer}, pkgs, nil)
	if err != nil {
		return nil, nil, err
	}
	for _, action := range graph.Roots {
		if action.Err != nil {
			return nil, nil, fmt.Errorf("%s: %w", action.Package, action.Err)
		}
		for _, d := range action.Diagnostics {
			problems = append(problems, fmt.Sprintf("%s: %s", action.Package.Fset.Position(d.Pos), d.Message))
		}
		all = append(all, action.Result.(*found))
	}
	slices.Sort(problems)
	return all, problems, nil
}
