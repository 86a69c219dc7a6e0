// Package filewatch watches files and reads them again when they change.
//
// # Invariants
//
//   - Only [New], and afterwards Run, calls Config.Read, one call at a time. Reload and
//     Look wait for Run.
//   - A change is read one poll later at the latest. A file that was written less than
//     two polls ago is read at every poll, because the time stamps of the file system
//     may be too coarse to show another change.
//   - If the files cannot be read, what was read before stays in force. They are tried
//     again when they change, and also after pauses that double from one poll to a
//     minute, because the cause may be elsewhere, such as too many open files.
//   - A failure is reported once, not at every attempt.
//
// # One change, walked through
//
// An operator replaces a list. The next poll finds another file under that name (look)
// and calls Read, which parses it and swaps a pointer. The file is new, so the next two
// polls call Read again. If the list had a bad line, Read would return an error and
// leave the pointer, and Failed would log the error. Further attempts are silent until
// the file or the error changes.
package filewatch

import (
	"context"
	"io/fs"
	"os"
	"slices"
	"time"

	"allium/internal/jitter"
)

// maxRetryPause is the longest pause between two attempts to read files that cannot be
// read.
const maxRetryPause = time.Minute

// Config has the files to watch and the functions to call.
type Config struct {
	// Files returns the names of the files, which may change. A file need not exist: Read decides
	// what that means. While there is none, nothing is polled until Reload is called.
	Files func() []string
	// Every is the time between two looks at the files, > 0.
	Every time.Duration
	// Hurry is the shortest time between two looks that calls of Look cause.
	Hurry time.Duration
	// Read reads all files and puts their content in force, or changes nothing and
	// returns an error. It is also called when the files have not changed.
	Read func() error
	// Failed is called with the error of Read: after each change of the files, after
	// each Reload, and whenever the error differs from the one before.
	Failed func(error)
}

// Files are files that are watched. Reload and Look may be called from any goroutine.
type Files struct {
	c       Config
	reloads chan chan<- error // from Reload to Run
	looks   chan chan<- error // from Look to Run

	// After New, only Run uses these.
	stamps []stamp
	again  time.Time     // when to read the files although they do not change; zero: never
	pause  time.Duration // before the next attempt to read files that could not be read
	failed string        // the latest error; empty: the files could be read
	looked time.Time     // the last look that Look caused
}

// stamp describes a file at the time of a look; nil if it did not exist.
type stamp = fs.FileInfo

// New reads the files for the first time and starts nothing. It returns the error of
// Read, and does not call Failed.
func New(c Config) (*Files, error) {
	f := &Files{c: c, reloads: make(chan chan<- error), looks: make(chan chan<- error)}
	if err := f.read(f.stat()); err != nil {
		return nil, err
	}
	return f, nil
}

// Run watches the files until ctx is done.
func (f *Files) Run(ctx context.Context, ready func()) error {
	tick := time.NewTimer(jitter.Gather(f.c.Every))
	defer tick.Stop()
	ready()
	for {
		if len(f.stamps) == 0 {
			tick.Stop()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			_ = f.look() // look has called Failed
			tick.Reset(jitter.Gather(f.c.Every))
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
			tick.Reset(jitter.Gather(f.c.Every))
			answer <- err
		}
	}
}

// Reload makes Run read the files now, whether or not they have changed. It returns the
// error of Read, or the cause of ctx if ctx ends first.
func (f *Files) Reload(ctx context.Context) error { return ask(ctx, f.reloads) }

// Look makes Run look at the files now, and read them if they have changed. It does
// nothing if another Look did so less than Config.Hurry ago. It returns the error of
// Read, if that was called, or the cause of ctx if ctx ends first.
func (f *Files) Look(ctx context.Context) error { return ask(ctx, f.looks) }

// ask sends a request to Run and waits for the answer.
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

// look reads the files if they have changed, or if the time for another attempt has
// come.
func (f *Files) look() error {
	stamps := f.stat()
	changed := !slices.EqualFunc(stamps, f.stamps, same)
	if !changed && (f.again.IsZero() || time.Now().Before(f.again)) {
		return nil
	}
	if changed {
		f.pause = 0
	}
	before := f.failed
	err := f.read(stamps)
	if err != nil && (changed || f.failed != before) {
		f.c.Failed(err)
	}
	return err
}

// read reads the files, and decides when to read them again. The stamps were taken
// before, so a change during the read is noticed at the next look.
func (f *Files) read(stamps []stamp) error {
	now := time.Now()
	f.stamps, f.again = stamps, time.Time{}
	fresh := slices.ContainsFunc(stamps, func(s stamp) bool {
		return s != nil && now.Sub(s.ModTime()).Abs() < 2*f.c.Every
	})
	if fresh { // another change might not show in the stamps
		f.again = now
	}
	err := f.c.Read()
	if err == nil {
		f.pause, f.failed = 0, ""
		return nil
	}
	f.failed = err.Error()
	if !fresh {
		f.pause = min(max(2*f.pause, f.c.Every), maxRetryPause)
		f.again = now.Add(f.pause)
	}
	return err
}

// stat returns the stamps of the files now.
func (f *Files) stat() []stamp {
	names := f.c.Files()
	stamps := make([]stamp, len(names))
	for i, name := range names {
		if s, err := os.Stat(name); err == nil { // Read reports the error
			stamps[i] = s
		}
	}
	return stamps
}

// same reports whether two stamps are of the same file, size, time and permissions.
func same(a, b stamp) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}
