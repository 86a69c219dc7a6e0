package failure

import (
	"fmt"

	"allium/protocols/status"
)

// Usage reports a command line that cannot be run. Its outcome is bad_request.
type Usage struct {
	Why string
	Do  string
}

// NewUsage returns a *Usage error that says do and why, which is a format.
func NewUsage(do, why string, args ...any) error {
	return &Usage{Why: fmt.Sprintf(why, args...), Do: do}
}

// Error returns both parts as one message.
func (u *Usage) Error() string {
	if u.Do == "" {
		return u.Why
	}
	return u.Why + "; " + u.Do
}

// Status returns bad_request.
func (u *Usage) Status() status.Outcome { return status.BadRequest }

// In returns err with the name of what it is about: a file, a flag, standard
// input. Sentences show it, unless the reason has it already. In of nil is nil.
func In(name string, err error) error {
	if err == nil {
		return nil
	}
	return &subject{name, err}
}

type subject struct {
	name string
	err  error
}

func (s *subject) Error() string { return s.name + ": " + s.err.Error() }
func (s *subject) Unwrap() error { return s.err }

// Found returns err as a result: the command did its work, and err is what it
// found. The sentence then does not begin with "cannot". Found of nil is nil.
func Found(err error) error {
	if err == nil {
		return nil
	}
	return &finding{err}
}

type finding struct{ err error }

func (f *finding) Error() string { return f.err.Error() }
func (f *finding) Unwrap() error { return f.err }
