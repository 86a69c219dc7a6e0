package testnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"allium/internal/limits"
	"allium/protocols/status"
	"allium/testnet/script"
)

// Recorder writes what happens on a network as a scenario that can be played again: the
// steps, the pauses between them, which nodes become ready or not, and how adds and gets
// end. It is not for concurrent use.
type Recorder struct {
	net   *Net
	w     io.Writer
	last  time.Time      // the end of the last step
	gates map[int]string // by node, the first closed gate, as written; "" is ready
	steps int
	err   error // the first error of writing
}

// The bounds of a recording.
const (
	recordDeadline = 10 * time.Minute // of the file
	// longer pauses are cut to this: the next step waits for its condition anyway
	longestPause  = 5 * time.Second
	shortestPause = 100 * time.Millisecond // shorter pauses are not written
	settled       = 5 * time.Second        // shorter times without readiness are chance
	recordWithin  = time.Minute            // time for an expectation, since pauses were left out
)

// byChance are outcomes that may replace each other when the same steps are played again,
// because they only differ in which side gave up first.
var byChance = map[status.Outcome]bool{
	status.Timeout: true, status.TransportDown: true, status.Busy: true, status.BreakerOpen: true,
	status.NotReady: true, status.Draining: true, status.HopExceeded: true,
}

// NewRecorder writes the head of a file. Every node of the network must be ready.
func NewRecorder(n *Net, like *script.File, w io.Writer) *Recorder {
	head := *like
	head.Deadline = max(head.Deadline, recordDeadline)
	r := &Recorder{net: n, w: w, last: time.Now(), gates: map[int]string{}}
	r.write(strings.TrimSuffix(head.Head(), "\n"))
	return r
}

// Before writes what has happened since the last step: the pause, and which nodes became
// ready or not ready.
func (r *Recorder) Before(ctx context.Context) {
	changed := r.changes(ctx)
	for begun := time.Now(); unready(changed) && time.Since(begun) < settled && limits.Sleep(ctx, pollEvery) == nil; {
		again := r.changes(ctx)
		maps.DeleteFunc(changed, func(i int, gate string) bool {
			now, still := again[i]
			return gate != "" && (!still || now != gate)
		})
	}
	if pause := min(time.Since(r.last), longestPause).Round(shortestPause); pause >= shortestPause {
		r.step(script.Step{Op: script.Wait, Time: pause})
	}
	byGate := map[string]script.Nodes{}
	var order []string
	for i := 1; i <= len(r.net.Members); i++ {
		if gate, ok := changed[i]; ok {
			if byGate[gate] == nil {
				order = append(order, gate)
			}
			byGate[gate] = append(byGate[gate], i)
			r.gates[i] = gate
		}
	}
	for _, gate := range order {
		c := script.Condition{Kind: script.NotReady, Gate: gate}
		if gate == "" {
			c = script.Condition{Kind: script.Ready}
		}
		r.step(script.Step{Op: script.Expect, Nodes: byGate[gate], Condition: c, Within: recordWithin})
	}
	r.last = time.Now()
}

// unready reports whether changed contains a node that became not ready.
func unready(changed map[int]string) bool {
	for _, gate := range changed {
		if gate != "" {
			return true
		}
	}
	return false
}

// changes returns the nodes whose readiness differs from what is written, with the first
// closed gate of each. A node that does not run or does not answer is left out.
func (r *Recorder) changes(ctx context.Context) map[int]string {
	changed := map[int]string{}
	for _, n := range r.net.Status(ctx).Nodes {
		if !n.Running || n.Error != "" {
			continue
		}
		gate := ""
		if len(n.Closed) > 0 {
			gate = n.Closed[0]
		}
		if gate != r.gates[n.Number] {
			changed[n.Number] = gate
		}
	}
	return changed
}

// Step writes a step that ended with err. A failed step that may begin with ! becomes
// one that is expected to fail. Any other failed step has changed nothing and becomes a comment.
func (r *Recorder) Step(s script.Step, err error) {
	defer func() { r.last = time.Now() }()
	outcome := status.Of(err)
	switch {
	case err == nil:
	case s.MayFail() && !s.Fails && outcome.Code() >= 400 &&
		outcome != status.Canceled && outcome != status.BadRequest:
		s.Fails = true
		if !byChance[outcome] {
			s.Outcome = outcome
		}
	default:
		text, _, _ := strings.Cut(err.Error(), "\n")
		r.write(fmt.Sprintf("# %s: %s", s, text))
		return
	}
	r.step(s)
	if s.Op == script.Restart { // the readiness before the restart does not matter
		for _, i := range s.Nodes.In(len(r.net.Members)) {
			r.gates[i] = ""
			r.step(script.Step{Op: script.Expect, Nodes: script.Nodes{i},
				Condition: script.Condition{Kind: script.Ready}})
		}
	}
}

// Close writes what has happened since the last step. It returns the first error of
// writing.
func (r *Recorder) Close(ctx context.Context) error {
	r.Before(ctx)
	return r.err
}

func (r *Recorder) step(s script.Step) {
	if r.steps++; r.steps > script.MaxSteps {
		if r.err == nil {
			r.err = status.Errorf(status.BodyCap,
				"the recording ends: a scenario has at most %d steps", script.MaxSteps)
		}
		return
	}
	r.write(s.String())
}

func (r *Recorder) write(line string) {
	if r.err != nil {
		return
	}
	if _, err := fmt.Fprintln(r.w, line); err != nil {
		r.err = errors.Join(errors.New("testnet: the recording ends"), err)
	}
}
