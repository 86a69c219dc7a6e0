package pack

import (
	"context"
	"errors"
	"sync"
	"time"

	"allium/protocols/status"
)

// mount is a pack under its name. Its state is replaced when the file or the name has changed.
type mount struct {
	name string
	of   Mount

	// lock: held across calls, because Info does no I/O: it returns what was read when the pack was opened
	mu      sync.Mutex    // guards the rest; lock: leaf
	idle    chan struct{} // closed when the verification under way has ended; nil: there is none
	again   bool          // it is due when that has ended
	closed  bool          // the name was unmounted
	current *state        // what is served; nil: nothing yet
	failing failing
	ttl     time.Duration // of what its name stands for
	askAt   time.Time     // when its name is resolved again
}

// failing says how the latest attempt to mount a pack failed.
type failing struct {
	err     error     // nil: it did not
	file    fileFacts // of the attempt
	pause   time.Duration
	retryAt time.Time // when the pack is tried again
}

func newMount(name string, of Mount) *mount { return &mount{name: name, of: of} }

// String returns the file or the key of a mount.
func (m Mount) String() string {
	if m.File != "" {
		return m.File
	}
	return m.Key
}

// due reports whether the pack is to be looked at. If now is true, it is unless its bytes cannot change. A file that is
// being verified is, too, as it may have changed since that began. A pack that peers may take hours to send is looked
// at when its verification has ended.
func (m *mount) due(at time.Time, now bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return false
	case m.idle != nil && m.of.File != "":
		return now
	case m.idle != nil:
		m.again = m.again || now
		return false
	case m.failing.err != nil || m.current == nil:
		return now || !at.Before(m.failing.retryAt)
	case m.current.file != nil:
		return true
	}
	return m.current.named && (now || !at.Before(m.askAt))
}

// begin reports whether the caller may verify the pack. It calls end then. If another one verifies it, begin waits
// for that if wait is true.
func (m *mount) begin(ctx context.Context, wait bool) bool {
	for {
		m.mu.Lock()
		other, closed := m.idle, m.closed
		mine := other == nil && !closed
		if mine {
			m.idle = make(chan struct{})
		}
		m.mu.Unlock()
		if mine || closed || !wait {
			return mine
		}
		select {
		case <-other:
		case <-ctx.Done():
			return false
		}
	}
}

func (m *mount) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.idle)
	m.idle = nil
	if m.again {
		m.again, m.askAt, m.failing.retryAt = false, time.Time{}, time.Time{}
	}
}

// failed notes why the pack cannot be mounted, and reports whether that is news. file was seen before the attempt.
func (m *mount) failed(err error, file fileFacts) (news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.failing
	pause := min(max(2*last.pause, minRetry), maxRetry)
	m.failing = failing{err: err, file: file, pause: pause, retryAt: time.Now().Add(pause)}
	return last.err == nil || last.err.Error() != err.Error()
}

// failedFile returns the file whose verification failed last. ok is false if none did.
func (m *mount) failedFile() (file fileFacts, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failing.file, m.failing.err != nil && m.of.File != "" && m.idle == nil && !m.closed
}

// confirmed notes that the mounted state is still the pack.
func (m *mount) confirmed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.succeeded()
}

func (m *mount) succeeded() {
	m.failing = failing{}
	m.askAt = time.Now().Add(max(m.ttl, minFollow))
}

// replace mounts a new state.
func (m *mount) replace(now *state) {
	m.mu.Lock()
	old := m.current
	if m.closed {
		old = now
	} else {
		m.current = now
		m.succeeded()
	}
	m.mu.Unlock()
	if old != nil {
		old.leave()
	}
}

// close ends the mount.
func (m *mount) close() {
	m.mu.Lock()
	old := m.current
	m.closed, m.current = true, nil
	m.mu.Unlock()
	if old != nil {
		old.leave()
	}
}

// errUnmounted reports that the pack was unmounted or replaced by another one. A closed mount is in no Set.
var errUnmounted = errors.New("the pack was unmounted")

// enter returns the mounted state, which stays open until the caller calls leave. It returns not_ready
// while there is none, and errUnmounted once the mount has ended.
func (m *mount) enter() (*state, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, errUnmounted
	case m.current != nil && m.current.enter():
		return m.current, nil
	case m.failing.err != nil:
		return nil, status.Errorf(status.NotReady, "the pack %s is not mounted: %w", m.name, m.failing.err)
	}
	return nil, status.Errorf(status.NotReady, "the pack %s is being verified. Try again soon", m.name)
}

// leftTTL returns how long what the name of the pack stands for may still be believed.
func (m *mount) leftTTL() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, time.Until(m.askAt))
}

// serves reports whether a state is mounted.
func (m *mount) serves() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.current != nil
}

// failure returns why the latest attempt to mount failed.
func (m *mount) failure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failing.err
}

// Mounted says what is mounted under a name.
type Mounted struct {
	Name    string
	Of      Mount
	Version string    // differs for packs of other bytes; empty: nothing is served
	Since   time.Time // when this state was mounted
	Err     error     // why the latest attempt failed; the state before is still served
	Report            // its Info is nil while nothing is served
}

// status returns what is mounted.
func (m *mount) status() Mounted {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Mounted{Name: m.name, Of: m.of, Err: m.failing.err}
	if c := m.current; c != nil {
		s.Version, s.Since = c.version, c.since
		s.Report = Report{Root: c.root, Size: c.size, Info: c.archive.Info()}
	}
	return s
}
