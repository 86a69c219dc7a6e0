// Package promela checks Promela models of concurrency with spin, which explores every state of them. Only
// tests import it.
//
// A model is a file beside the test. Its properties are ltl formulas. It marks each guard of the code as
//
//	/* guard: name, property */ (condition)
//
// and [Check] removes the guards one by one: the property has to fail without it. A shape is the
// definitions that a model is compiled with, such as "-DCALLERS=3".
//
// One check: Check writes a model to a temporary directory, spin translates it to C, and gcc compiles it.
// With every guard, the program searches all states once for what must always be, all such properties at a
// time ([] p and [] q is [] (p and q)), and once for each other property. Without each guard, it searches
// for the one property that fails.
package promela

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"allium/internal/testkit"
)

// The bounds of one verification.
const (
	maxDepth  = "20000"
	maxMemory = "512" // MB
)

var (
	property = regexp.MustCompile(`(?m)^ltl (\w+) \{ (.*) \}$`)
	guard    = regexp.MustCompile(`/\* guard: (\w+), (\w+) \*/ \(`)
	stored   = regexp.MustCompile(`(\d+) states, stored`)
)

// Check runs a test that fails unless every property of each model holds in every shape, over every state that
// there is, and without any one of its guards the property that the guard names fails in some shape.
// It skips the test where spin or a C compiler is missing, but not in CI.
func Check(t *testing.T, shapes map[string][]string) {
	t.Helper()
	needSpin(t)
	for name, sizes := range shapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := read(t, name)
			properties, conjunction := atOnce(src)
			if n, read := strings.Count(src, "\nltl "), len(property.FindAllString(src, -1)); n != read {
				t.Fatalf("%d of %d properties stand in one line as `ltl name { formula }`", read, n)
			}
			var all []verifier
			for _, size := range sizes {
				all = append(all, compile(t, mayLack(src)+conjunction, size, optimize(sizes)))
			}
			for _, v := range all {
				t.Run(v.size, func(t *testing.T) {
					t.Parallel()
					for _, p := range properties {
						start := time.Now()
						r := v.check(t, p, 0)
						if r.violated {
							t.Errorf("%s does not hold; `spin -t -p -g` shows why:\n%s", p, r.out)
						}
						t.Logf("%-14s %s states, %s", p, r.states, time.Since(start).Round(time.Millisecond))
					}
				})
			}
			guards := guard.FindAllStringSubmatch(src, -1)
			if len(guards) == 0 {
				t.Fatal("no guard found")
			}
			for i, g := range guards {
				t.Run("without "+g[1], func(t *testing.T) {
					t.Parallel()
					for _, v := range all {
						if v.check(t, g[2], i+1).violated {
							return
						}
					}
					t.Errorf("%s still holds", g[2])
				})
			}
		})
	}
}

// atOnce returns the properties that prove all those of a model, and the text of the one that stands for those
// that must always hold: a violation of it shows which.
func atOnce(src string) (properties []string, conjunction string) {
	var always []string
	for _, p := range property.FindAllStringSubmatch(src, -1) {
		if body, ok := strings.CutPrefix(p[2], "[] "); ok {
			always = append(always, "("+body+")")
		} else {
			properties = append(properties, p[1])
		}
	}
	return append(properties, "always"), "\nltl always { [] (" + strings.Join(always, " && ") + ") }\n"
}

// mayLack is the model in which guard n, from 1, is always true when the
// environment has WITHOUT=n: one verifier for all of them.
func mayLack(src string) string {
	var b strings.Builder
	b.WriteString("byte without;\n")
	end := 0
	for n, at := range guard.FindAllStringIndex(src, -1) {
		open := at[1] - 1
		fmt.Fprintf(&b, "%s(without == %d || ", src[end:open], n+1)
		end = closing(src, open)
		b.WriteString(src[open:end] + ")")
	}
	const first = "init {\n"
	rest := strings.Replace(src[end:], first,
		first+`	c_code { char *n = getenv("WITHOUT"); now.without = n ? atoi(n) : 0; };`+"\n", 1)
	return b.String() + rest
}

// CheckMarks fails the test for a guard mark that Check would miss.
func CheckMarks(t *testing.T, shapes map[string][]string) {
	t.Helper()
	for name := range shapes {
		src := read(t, name)
		if marks, found := strings.Count(src, "guard: "), len(guard.FindAllString(src, -1)); marks != found {
			t.Errorf("%s: %d marks, of which %d are written as /* guard: name, property */ (condition)", name, marks,
				found)
		}
	}
}

// closing is the index after the parenthesis that closes the one at open.
func closing(src string, open int) int {
	depth := 0
	for i := open; ; i++ {
		switch src[i] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	src, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(src)
}

// needSpin skips the test without spin and a C compiler.
func needSpin(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("model checking takes its time")
	}
	for tool, where := range map[string]string{"spin": "Debian has it in spin", "gcc": "spin's verifiers are C"} {
		if _, err := exec.LookPath(tool); err == nil {
			continue
		}
		why := fmt.Sprintf("no %s in PATH (%s): the models of concurrency are not checked here", tool, where)
		testkit.Missing(t, why)
	}
}

// verifier is a compiled model.
type verifier struct{ size, pan string }

// optimize returns how gcc compiles the verifiers of a model. Optimised, one takes a second longer to compile and
// searches three times as fast, which pays for a few large shapes and not for many small ones.
func optimize(sizes []string) string {
	if len(sizes) > 4 {
		return "-O0"
	}
	return "-O1"
}

// compile makes the verifier of a model.
func compile(t *testing.T, src, size, optimize string) verifier {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "model.pml"), []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, dir, nil, "spin", append(strings.Fields(size), "-a", "model.pml")...)
	run(t, dir, nil, "gcc", optimize, "-w", "-DMEMLIM="+maxMemory, "-o", "pan", "pan.c")
	return verifier{size, filepath.Join(dir, "pan")}
}

// result is the outcome of a verification.
type result struct {
	violated bool
	states   string
	out      string
}

// check verifies one property, without a guard unless that is 0. A search that
// did not see everything fails the test, unless it found a violation.
func (v verifier) check(t *testing.T, property string, without int) result {
	out := run(t, t.TempDir(), []string{fmt.Sprint("WITHOUT=", without)}, v.pan, "-a", "-n",
		"-m"+maxDepth, "-w21", "-N",
		property)
	r := result{violated: strings.Contains(out, "errors: 1"), out: out, states: "no"}
	if m := stored.FindStringSubmatch(out); m != nil {
		r.states = m[1]
	}
	complete := strings.Contains(out, "errors: 0") && !strings.Contains(out, "max search depth too small") &&
		!strings.Contains(out, "Search not completed")
	if !r.violated && !complete {
		t.Errorf("%s: the search is not complete:\n%s", property, out)
	}
	return r
}

func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute) // seconds, where nothing else runs
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out.String())
	}
	return out.String()
}

// CheckNames fails the test if a comment of a model speaks of a method or a field that is not in the Go
// files of code, which are patterns such as ../*.go. types are the types that it may speak of.
func CheckNames(t *testing.T, shapes map[string][]string, types []string, code ...string) {
	t.Helper()
	var src strings.Builder
	for _, pattern := range code {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, f := range files {
			src.WriteString(read(t, f))
		}
	}
	comment := regexp.MustCompile(`(?s)/\*.*?\*/`)
	mention := regexp.MustCompile(`\b(` + strings.Join(types, "|") + `)\.(\w+)`)
	for name := range shapes {
		for _, c := range comment.FindAllString(read(t, name), -1) {
			for _, m := range mention.FindAllStringSubmatch(c, -1) {
				method := fmt.Sprintf(`func \(\w+ \*%s\) %s\(`, m[1], m[2])
				field := fmt.Sprintf(`(?m)^\t(\w+, )*%s(, \w+)* +\S`, m[2])
				if !regexp.MustCompile(method + "|" + field).MatchString(src.String()) {
					t.Errorf("%s speaks of %s, which is not there", name, m[0])
				}
			}
		}
	}
}
