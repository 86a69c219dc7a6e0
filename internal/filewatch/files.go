// Package filewatch reads files again when they change.
//
// # Invariants
//
//   - Only [New] and then Run read, one at a time; who asks waits for Run.
//   - What can be read is in force one poll after its last change at the latest,
//     also where the clock of the file system is too coarse to show that: what was
//     written within two polls is read again at the next.
//   - What cannot be read leaves in force what was read before. It is tried again
//     when it changes, and without that after pauses that double from one poll to a
//     minute: the cause may be elsewhere, as too many open files.
//   - A failure is told once, not at each try.
//
// # One change, walked through
//
// An operator puts another list in its place. The next poll finds another file
// under that name and calls Read, which parses it and swaps a pointer. It was
// written just now, so the next two polls call Read once more each. Had the list
// a bad line, Read would return an error and leave the pointer, and Failed would
// write that error to the log; the tries that follow are silent until the file
// changes, or the error does.
package filewatch

import (
	"context"
	"io/fs"
	"os"
	"slices"
	"time"
)

// retryMost is how long what cannot be read is left alone at the most.
const retryMost = time.Minute

// Config says what is followed and who reads it.
type Config struct {
	// Files are looked at. One that is missing is a state like others, and
	// Read says what it means.
	Files []string
	// Every is the time between two looks, > 0.
	Every time.Duration
	// Hurry is the least time between two looks for Look.
	Hurry time.Duration
	// Read takes the files over as they are, also when they have not changed,
	// or leaves everything as it was and says why.
	Read func() error
	// Failed is told why Read could not: each time the files changed or
	// somebody asked, and when the error is another than before.
	Failed func(error)
}

// Files are files that are followed. Reload and Look may be called from any
// goroutine.
type Files struct {
	c       Config
	reloads chan chan<- error // of Reload to Run
	looks   chan chan<- error // of Look to Run

	// After New these are Run's alone.
	stamps []stamp
	again  time.Time     // when they are read even if they do not change; zero: never
	wait   time.Duration // before the latest try again of what could not be read
	failed string        // why it could not; empty: it could
	looked time.Time     // for Look
}

// stamp is a file as it was when it was looked at; nil where there was none.
type stamp = fs.FileInfo

// New reads the files for the first time and starts nothing. What Read returns
// is the error; Failed is not told.
func New(c Config) (*Files, error) {
	f := &Files{c: c, reloads: make(chan chan<- error), looks: make(chan chan<- error)}
	if err := f.read(f.stat()); err != nil {
		return nil, err
	}
	return f, nil
}

// Run follows the files until ctx is done.
func (f *Files) Run(ctx context.Context, ready func()) error {
	tick := time.NewTicker(f.c.Every)
	defer tick.Stop()
	ready()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			_ = f.look() // Failed was told
		case answer := <-f.looks:
			var err error
			if now := time.Now(); f.looked.IsZero() || now.Sub(f.looked) >= f.c.Hurry {
				f.looked = now
				err = f.look()
			}
			answer <- err
		case answer := <-f.reloads:
			err := f.read(f.stat())
			if err != nil {
				f.c.Failed(err)
			}
			answer <- err
		}
	}
}

// Reload lets Run read the files now, whether or not they changed. Its error is
// that of Read, or the cause of ctx when that ends first.
func (f *Files) Reload(ctx context.Context) error { return ask(ctx, f.reloads) }

// Look lets Run look at the files now, unless it did so for another Look less
// than Config.Hurry ago. Its error is that of Read, if they were read, or the
// cause of ctx when that ends first.
func (f *Files) Look(ctx context.Context) error { return ask(ctx, f.looks) }

func ask(ctx context.Context, asks chan<- chan<- error) error {
	answer := make(chan error, 1)
	select {
	case asks <- answer:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// look reads the files if they changed or it is time to.
func (f *Files) look() error {
	stamps := f.stat()
	changed := !slices.EqualFunc(stamps, f.stamps, same)
	if !changed && (f.again.IsZero() || time.Now().Before(f.again)) {
		return nil
	}
	if changed {
		f.wait = 0
	}
	before := f.failed
	err := f.read(stamps)
	if err != nil && (changed || f.failed != before) {
		f.c.Failed(err)
	}
	return err
}

// read reads the files, which have these stamps, and settles when to do so
// again. The stamps are older than what is read: what changes meanwhile is seen
// the next time.
func (f *Files) read(stamps []stamp) error {
	now := time.Now()
	f.stamps, f.again = stamps, time.Time{}
	fresh := slices.ContainsFunc(stamps, func(s stamp) bool {
		return s != nil && now.Sub(s.ModTime()).Abs() < 2*f.c.Every
	})
	if fresh { // it may be written again and have the same stamp
		f.again = now
	}
	err := f.c.Read()
	if err == nil {
		f.wait, f.failed = 0, ""
		return nil
	}
	f.failed = err.Error()
	if !fresh {
		f.wait = min(max(2*f.wait, f.c.Every), retryMost)
		f.again = now.Add(f.wait)
	}
	return err
}

// stat says how the files are now.
func (f *Files) stat() []stamp {
	stamps := make([]stamp, len(f.c.Files))
	for i, name := range f.c.Files {
		if s, err := os.Stat(name); err == nil { // else Read will say why
			stamps[i] = s
		}
	}
	return stamps
}

// same reports whether a file is as it was; its permissions matter, too.
func same(a, b stamp) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}
