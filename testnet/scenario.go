package testnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"allium/protocols/status"
	"allium/testnet/script"
)

// Event is one step that was played.
type Event struct {
	Line   int            `json:"line,omitempty"` // of its file
	Step   string         `json:"step"`
	Said   Said           `json:"said,omitempty"`
	TookMS float64        `json:"took_ms"`
	Error  *status.Report `json:"error,omitempty"`
}

// PlayOptions describe how a scenario is played.
type PlayOptions struct {
	Binary string       // as in Options
	Other  string       // as in Options
	Seed   uint64       // replaces the file's seed unless 0
	Log    *slog.Logger // as in Options
	Report func(Event)  // is called with each step when it has ended, one at a time; may be nil
	Record io.Writer    // receives the scenario as it was played; may be nil
}

// backgroundSteps is the maximum number of steps that run in the background at once.
const backgroundSteps = 64

// Play plays a scenario on a new network. It starts the network, waits until all nodes are ready,
// plays the steps and ends the network. The error of a step names its line and ends with the state
// of the network.
func Play(ctx context.Context, f *script.File, o PlayOptions) (err error) {
	bounded, cancel := context.WithTimeout(ctx, f.Deadline)
	defer cancel()
	seed := f.Seed
	if o.Seed != 0 {
		seed = o.Seed
	}
	ended := func(err error) error {
		if ctx.Err() == nil && bounded.Err() != nil {
			return errors.Join(status.Errorf(status.Timeout,
				"%s: not played within its deadline of %s", f.Name, f.Deadline),
				err)
		}
		return err
	}
	net, err := Up(bounded, Options{
		N: f.Nodes, Cluster: f.Cluster, Binary: o.Binary, Other: o.Other, Seed: seed, Log: o.Log,
	})
	if err != nil {
		return ended(fmt.Errorf("%s: %w", f.Name, err))
	}
	defer func() { err = errors.Join(ended(err), net.Down(context.WithoutCancel(ctx))) }()
	if err := net.Formed(bounded); err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	run := &play{file: f, player: NewPlayer(net, f.Within), events: make(chan Event)}
	var telling sync.WaitGroup
	telling.Go(func() {
		for e := range run.events {
			if o.Report != nil {
				o.Report(e)
			}
		}
	})
	if o.Record != nil {
		run.record = NewRecorder(net, f, o.Record)
	}
	err = run.all(bounded)
	close(run.events)
	telling.Wait()
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w\n%s", err, net.Status(context.WithoutCancel(ctx)))
	}
	if run.record != nil {
		err = errors.Join(err, run.record.Close(bounded))
	}
	return err
}

// Formed waits until every node is ready, for at most a minute.
func (n *Net) Formed(ctx context.Context) error {
	all := script.Step{Op: script.Expect, Nodes: script.All(), Condition: script.Condition{Kind: script.Ready}}
	if _, err := NewPlayer(n, readyWithin).Step(ctx, all); err != nil {
		return fmt.Errorf("the network did not form: %w\n%s", err, n.Status(context.WithoutCancel(ctx)))
	}
	return nil
}

// play is a file being played.
type play struct {
	file   *script.File
	player *Player
	record *Recorder
	events chan Event // read to its end by the reporter

	background sync.WaitGroup
	places     chan struct{} // of steps in the background

	mu   sync.Mutex // guards errs; lock: leaf
	errs []error
}

// all plays every step. The first one that fails ends the scenario: the background steps
// are then canceled, and all waits for them.
func (p *play) all(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.places = make(chan struct{}, backgroundSteps) // bound: backgroundSteps
	for _, s := range p.file.Steps {
		if s.Background {
			select {
			case p.places <- struct{}{}:
			case <-ctx.Done():
				p.keep(s, ctx.Err())
			}
			if p.failed() {
				cancel()
				break
			}
			if p.record != nil {
				p.record.Before(ctx)
				p.record.Step(s, nil)
			}
			p.background.Go(func() {
				defer func() { <-p.places }()
				_ = p.step(ctx, s) // keep has recorded the error
			})
			continue
		}
		if s.Op == script.Join {
			p.background.Wait()
		}
		if p.record != nil {
			p.record.Before(ctx)
		}
		err := p.step(ctx, s)
		if p.record != nil {
			p.record.Step(s, err)
		}
		if p.failed() {
			cancel()
			break
		}
	}
	p.background.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.errs...)
}

// step plays one step and records its error.
func (p *play) step(ctx context.Context, s script.Step) error {
	begun := time.Now()
	said, err := p.player.Step(ctx, s)
	p.events <- event(s, said, time.Since(begun), err)
	p.keep(s, err)
	return err
}

// keep records the error of a step for the end of the scenario.
func (p *play) keep(s script.Step, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && (len(p.errs) == 0 || !errors.Is(err,
		context.Canceled)) { // of the others it is the end, not the cause
		p.errs = append(p.errs, fmt.Errorf("%s:%d: %s: %w", p.file.Name, s.Line, s, err))
	}
}

// event returns the Event of a step.
func event(s script.Step, said Said, took time.Duration, err error) Event {
	e := Event{Line: s.Line, Step: s.String(), Said: said, TookMS: float64(took.Microseconds()) / 1e3}
	if err != nil {
		r := status.ReportOf(err)
		e.Error = &r
	}
	return e
}

func (p *play) failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.errs) > 0
}
