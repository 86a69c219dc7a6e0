// Package doctor examines a node, its home directory and its machine. Each problem that it finds has three parts: the
// observation, its effect, and the remedy.
//
// A check is a function of an [exam]: the facts that the running node told, and the parts of this machine that it looks
// at itself, which tests replace. It never changes anything but a file of 4 KiB, which it writes to time the disk and
// removes. A check that cannot look (no node, no rights, no network, another system) is skipped, or reports that as a
// finding. It is never an error of the examination.
//
// One examination, walked through: [Run] asks the running node all questions at once, within askWait. Then it runs the
// checks of [Checks], checksAtOnce at a time and each within checkWait, and sorts what they found, the worst first.
// [Diagnose] does the same for the way to one peer. [WriteBundle] packs a bug report, only from data that identifies
// nobody.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"allium/gateway/api"
	"allium/node/config"
)

// Severity says how bad a finding is.
type Severity string

// The severities, from good to bad.
const (
	OK      Severity = "ok"
	Note    Severity = "note"    // worth knowing
	Warning Severity = "warning" // something works badly, or will soon
	Error   Severity = "error"   // something does not work
)

// Worse reports whether a severity is worse than another.
func (s Severity) Worse(than Severity) bool { return s.rank() > than.rank() }

// rank orders severities.
func (s Severity) rank() int { return slices.Index([]Severity{OK, Note, Warning, Error}, s) }

// Finding is something that is wrong.
type Finding struct {
	Check    string   `json:"check"` // the name of the check
	Severity Severity `json:"severity"`
	Evidence string   `json:"evidence"` // what was seen
	Impact   string   `json:"impact"`   // what follows from it
	Fix      string   `json:"fix"`      // what to do

	seen saying // Evidence, for a bundle
}

// Skipped is a check that could not be made.
type Skipped struct {
	Check string `json:"check"`
	Why   string `json:"why"`
}

// Report is the result of an examination.
type Report struct {
	Worst    Severity  `json:"worst"`    // of the findings; OK if there are none
	Findings []Finding `json:"findings"` // the worst first
	Passed   []string  `json:"passed"`   // checks that found nothing
	Skipped  []Skipped `json:"skipped"`
}

// Node answers what only a running node knows.
type Node interface {
	Health(ctx context.Context, o api.HealthOptions) (api.Health, error)
	ID(ctx context.Context) (api.ID, error)
	Version(ctx context.Context) (api.Version, error)
	Peers(ctx context.Context) ([]api.Peer, error)
	Reach(ctx context.Context) (api.Reach, error)
	Seeds(ctx context.Context) (api.Seeds, error)
	Durability(ctx context.Context) (api.Durability, error)
	OwnNames(ctx context.Context) iter.Seq2[api.OwnName, error]
	Limits(ctx context.Context) (api.Limits, error)
}

// Deps holds the objects of an examination, and its access to them.
type Deps struct {
	Home string // empty: the node is on another machine or has none, and only the node is examined

	Config    config.Loaded // the defaults if it cannot be loaded
	ConfigErr error         // why it cannot
	// Check reads the files that a node reads when it starts. It may be nil.
	Check func(context.Context) error

	Node    Node                                      // it need not run; nil: none does
	Metrics func(ctx context.Context) ([]byte, error) // of the node, for a bundle; it may be nil

	// Sample proves a part of the store while no node runs. It may be nil.
	Sample  func(ctx context.Context) (api.StoreSample, error)
	Version api.Version // of the command
	Now     func() time.Time
	Machine Machine
	Network Network
}

// The bounds of an examination. Together they keep it within 5 s.
const (
	askWait      = 2500 * time.Millisecond // for all answers of the node
	checkWait    = 2 * time.Second         // for one check
	runWait      = 4800 * time.Millisecond // for everything
	checksAtOnce = 8
)

// Run examines the node, and returns also what the node told. progress may be nil; it counts checks. The end of ctx
// ends it early: checks that were not made are skipped.
//
// A check that does not return in time, as a look at a network file system whose server is gone, is left behind:
// nothing can end such a system call. The process should end soon after Run.
func Run(ctx context.Context, d Deps, progress api.ProgressFunc) (Report, Facts) {
	ctx, cancel := context.WithTimeout(ctx, runWait)
	defer cancel()
	e := newExam(ctx, d)
	results := make([]result, len(checks))
	places := make(chan struct{}, checksAtOnce) // bound: checks at once
	finished := make(chan struct{})
	var all sync.WaitGroup
	for i, c := range checks {
		all.Go(func() {
			select {
			case places <- struct{}{}:
				results[i] = runCheck(ctx, e, c)
				<-places
			case <-ctx.Done():
				results[i] = skip("there was no time left")
			}
			finished <- struct{}{}
		})
	}
	for done := range checks {
		<-finished
		if progress != nil {
			progress(api.Progress{Objects: int64(done + 1), TotalObjects: int64(len(checks))})
		}
	}
	all.Wait()
	r := reportOf(results)
	return r, factsOf(e, r)
}

// runCheck makes one check within its time, unless it cannot be made.
func runCheck(ctx context.Context, e *exam, c check) result {
	switch {
	case c.onNode && e.Node == nil:
		return skip("no node runs")
	case c.onNode && e.silent():
		return skip("the node does not answer")
	case c.onMachine && e.Home == "":
		return skip("the node is on another machine, or has no home directory")
	}
	own, cancel := context.WithTimeout(ctx, checkWait)
	defer cancel()
	answer := make(chan result, 1)
	var running sync.WaitGroup
	running.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				answer <- skip(fmt.Sprintf("the check failed: %v", p))
			}
		}()
		answer <- c.run(own, e)
	})
	select {
	case r := <-answer:
		return r
	case <-own.Done():
	}
	select {
	case r := <-answer: // it heeds its context
		return r
	case <-time.After(checkGrace):
	}
	if ctx.Err() != nil { // it began late
		return skip("there was no time left")
	}
	return warn(say("the check did not end within %s", plain(checkWait.String())),
		"the part of the system that it looks at hangs, and the node hangs when it uses that",
		"look for a disk or a network file system that does not answer")
}

// checkGrace is the time that a check has to return once its context has ended.
const checkGrace = 200 * time.Millisecond

// reportOf sorts the results of the checks.
func reportOf(results []result) Report {
	r := Report{Worst: OK, Findings: []Finding{}, Passed: []string{}, Skipped: []Skipped{}}
	for i, res := range results {
		name := checks[i].Name
		switch {
		case res.skipped != "":
			r.Skipped = append(r.Skipped, Skipped{name, res.skipped})
		case len(res.found) == 0:
			r.Passed = append(r.Passed, name)
		}
		for _, f := range res.found {
			f.Check, f.Evidence = name, f.seen.String()
			r.Findings = append(r.Findings, f)
			if f.Severity.rank() > r.Worst.rank() {
				r.Worst = f.Severity
			}
		}
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Compare(b.Severity.rank(), a.Severity.rank())
	})
	return r
}

// result holds the findings of one check. The zero value reports none.
type result struct {
	skipped string // why the check could not be made; empty: it was made
	found   []Finding
}

func skip(why string) result { return result{skipped: why} }

// skipErr is skip because of an error.
func skipErr(err error) result {
	if errors.Is(err, context.DeadlineExceeded) {
		return skip("there was no answer in time")
	}
	return skip(err.Error())
}

func finding(sev Severity, seen saying, impact, fix string) result {
	return result{found: []Finding{{Severity: sev, Impact: impact, Fix: fix, seen: seen}}}
}

func note(seen saying, impact, fix string) result { return finding(Note, seen, impact, fix) }
func warn(seen saying, impact, fix string) result { return finding(Warning, seen, impact, fix) }
func fail(seen saying, impact, fix string) result { return finding(Error, seen, impact, fix) }

// and adds the findings of another result.
func (r result) and(o result) result {
	r.found = append(r.found, o.found...)
	if r.skipped == "" {
		r.skipped = o.skipped
	}
	if len(r.found) > 0 {
		r.skipped = ""
	}
	return r
}

// saying is evidence in its parts, so that a bundle can leave out what names something of somebody.
type saying struct {
	format string
	args   []any
}

// plain is text that tells nothing of anybody: a word of this program, or of the kernel.
type plain string

func say(format string, args ...any) saying { return saying{format, args} }

func (s saying) String() string { return fmt.Sprintf(s.format, s.args...) }
