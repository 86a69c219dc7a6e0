package model_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shapes are the sizes that each model is checked in. A guard is gone when one
// of them shows it.
var shapes = map[string][]string{
	"permits.pml": {
		"-DTAKERS=3 -DCAP=1 -DROUNDS=2",
		"-DTAKERS=3 -DCAP=2 -DROUNDS=2",
	},
	"pipeline.pml": {
		"-DOTHERS=1 -DREQUESTS=1 -DINGRESS=2 -DEGRESS=1",
		"-DOTHERS=0 -DREQUESTS=2 -DINGRESS=1 -DEGRESS=2",
	},
}

// The bounds of one verification.
const (
	maxDepth  = "20000"
	maxMemory = "512" // MB
)

var (
	property = regexp.MustCompile(`(?m)^ltl (\w+) `)
	guard    = regexp.MustCompile(`/\* guard: (\w+), (\w+) \*/ \(`)
	stored   = regexp.MustCompile(`(\d+) states, stored`)
)

// TestProperties: every property of both models holds in every shape, over
// every state that there is, and no step of a process is without use.
func TestProperties(t *testing.T) {
	needSpin(t)
	for name, sizes := range shapes {
		v := verifiers(t, name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			unreached := map[string]int{}
			for i, v := range v {
				for _, p := range property.FindAllStringSubmatch(read(t, name), -1) {
					start := time.Now()
					r := v.check(t, p[1], 0)
					if r.violated {
						t.Errorf("%s does not hold; `spin -t -p -g` shows why:\n%s", p[1], r.out)
					}
					t.Logf("%s: %-14s %s states, %s", sizes[i], p[1], r.states, time.Since(start).Round(time.Millisecond))
					for _, line := range r.unreached() {
						unreached[line]++
					}
				}
			}
			t.Log(unreached)
		})
	}
}

// TestGuards takes each guard away in turn: the property that it names fails.
func TestGuards(t *testing.T) {
	needSpin(t)
	for name := range shapes {
		v := verifiers(t, name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			guards := guard.FindAllStringSubmatch(read(t, name), -1)
			for i, g := range guards {
				broken := false
				for _, v := range v {
					broken = broken || v.check(t, g[2], i+1).violated
				}
				if !broken {
					t.Errorf("without the guard %s, %s still holds", g[1], g[2])
				}
			}
			if len(guards) == 0 {
				t.Error("no guard found")
			}
			t.Logf("%d guards in %s", len(guards), time.Since(start).Round(time.Millisecond))
		})
	}
}

// TestGuardMarks: a mark that the pattern misses would be a guard untested.
func TestGuardMarks(t *testing.T) {
	for name := range shapes {
		src := read(t, name)
		if marks, found := strings.Count(src, "guard: "), len(guard.FindAllString(src, -1)); marks != found {
			t.Errorf("%s: %d marks, of which %d are written as /* guard: name, property */ (condition)", name, marks, found)
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
		why := fmt.Sprintf("no %s in PATH (%s): the models of the session's concurrency are not checked here", tool, where)
		if os.Getenv("ALLIUM_CI") != "" { // CI installs it
			t.Fatal(why)
		}
		t.Skip(why)
	}
}

// verifier is a compiled model.
type verifier struct{ dir string }

// compile makes the verifier of a model. Optimising costs more than what a
// search that soon fails gains.
func compile(t *testing.T, src, size, level string) verifier {
	v := verifier{t.TempDir()}
	if err := os.WriteFile(filepath.Join(v.dir, "model.pml"), []byte(src), 0o600); err != nil {
		t.Error(err)
	}
	v.run(t, "spin", append(strings.Fields(size), "-a", "model.pml")...)
	v.run(t, "gcc", level, "-w", "-DMEMLIM="+maxMemory, "-o", "pan", "pan.c")
	return v
}

// result is what a verification found.
type result struct {
	violated bool
	states   string
	out      string
}

// check verifies one property. A search that did not see everything fails the
// test, unless it found a violation.
func (v verifier) check(t *testing.T, property string) result {
	out := v.run(t, filepath.Join(v.dir, "pan"), "-a", "-m"+maxDepth, "-w21", "-N", property)
	r := result{violated: strings.Contains(out, "errors: 1"), out: out, states: "no"}
	if m := stored.FindStringSubmatch(out); m != nil {
		r.states = m[1]
	}
	complete := strings.Contains(out, "errors: 0") && !strings.Contains(out, "max search depth too small") && !strings.Contains(out, "Search not completed")
	if !r.violated && !complete {
		t.Errorf("%s: the search is not complete:\n%s", property, out)
	}
	return r
}

func (v verifier) run(t *testing.T, name string, args ...string) string {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = v.dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out.String())
	}
	return out.String()
}

// TestNames: what the models say they stand for is in the code.
func TestNames(t *testing.T) {
	files, err := filepath.Glob("../*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var code strings.Builder
	for _, f := range files {
		code.WriteString(read(t, f))
	}
	comment := regexp.MustCompile(`(?s)/\*.*?\*/`)
	mention := regexp.MustCompile(`\b(link|Service|task|permits|egress|inflight|peerEntry|outgoing)\.(\w+)`)
	for name := range shapes {
		for _, c := range comment.FindAllString(read(t, name), -1) {
			for _, m := range mention.FindAllStringSubmatch(c, -1) {
				method := fmt.Sprintf(`func \(\w+ \*%s\) %s\(`, m[1], m[2])
				field := fmt.Sprintf(`(?m)^\t(\w+, )*%s(, \w+)* +\S`, m[2])
				if !regexp.MustCompile(method + "|" + field).MatchString(code.String()) {
					t.Errorf("%s speaks of %s, which is not there", name, m[0])
				}
			}
		}
	}
}
