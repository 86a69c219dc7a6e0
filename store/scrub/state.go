package scrub

import (
	"encoding/binary"
	"fmt"
	"time"

	"allium/protocols/b3"
	"allium/store/meta"
)

// state is the position of a scrub. It is stored in the index under `m` `s`; see FORMAT.md
// there.
type state struct {
	running bool
	next    b3.Root   // the first address that is not checked yet
	started time.Time // of the cycle; times have whole seconds

	objects, bytes, bad int64

	lastEnd  time.Time
	lastTook time.Duration
	lastBad  int64
}

// begin starts a cycle.
func (st *state) begin() {
	*st = state{
		running: true, started: time.Now(),
		lastEnd: st.lastEnd, lastTook: st.lastTook, lastBad: st.lastBad,
	}
}

// end ends the cycle.
func (st *state) end() {
	st.running, st.next = false, b3.Root{}
	st.lastEnd, st.lastTook, st.lastBad = time.Now(), time.Since(st.started), st.bad
}

// due returns the time until the next cycle, which begins interval after the last one
// began.
func (st *state) due(interval time.Duration) time.Duration {
	if st.started.IsZero() {
		return 0
	}
	return min(interval, time.Until(st.started.Add(interval))) // at most interval, if the clock was set back
}

func (st *state) stats() Stats {
	s := Stats{
		Running: st.running, Started: st.started, Objects: st.objects, Bytes: st.bytes, Bad: st.bad,
		LastEnd: st.lastEnd, LastTook: st.lastTook.Seconds(), LastBad: st.lastBad,
	}
	switch {
	case st.running: // addresses are digests, so they are spread evenly
		s.Progress = float64(binary.BigEndian.Uint64(st.next[:8])) / (1 << 64)
	case !st.lastEnd.IsZero():
		s.Progress = 1
	}
	return s
}

const (
	stateForm = 1
	stateSize = 2 + b3.Size + 7*8
)

func (st *state) encode() []byte {
	p := make([]byte, 0, stateSize)
	p = append(p, stateForm, 0)
	if st.running {
		p[1] = 1
	}
	p = append(p, st.next[:]...)
	for _, n := range []int64{
		seconds(st.started), st.objects, st.bytes, st.bad,
		seconds(st.lastEnd), int64(st.lastTook / time.Second), st.lastBad,
	} {
		p = binary.LittleEndian.AppendUint64(p, uint64(n))
	}
	return p
}

// decode reverses encode.
func decode(p []byte) (st state, err error) {
	if len(p) != stateSize || p[0] != stateForm || p[1] > 1 {
		return st, fmt.Errorf("the position of the scrub is malformed: % x", meta.Excerpt(p))
	}
	st.running = p[1] == 1
	st.next = b3.Root(p[2:])
	var n [7]int64
	for i := range n {
		if n[i] = int64(binary.LittleEndian.Uint64(p[2+b3.Size+8*i:])); n[i] < 0 {
			return state{}, fmt.Errorf("the position of the scrub is malformed: % x", meta.Excerpt(p))
		}
	}
	st.started, st.objects, st.bytes, st.bad = fromSeconds(n[0]), n[1], n[2], n[3]
	st.lastEnd, st.lastTook, st.lastBad = fromSeconds(n[4]), time.Duration(min(n[5], 1<<32))*time.Second, n[6]
	return st, nil
}

// seconds returns t in Unix seconds, 0 for the zero time.
func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(0, t.Unix())
}

func fromSeconds(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(n, 0)
}

// load reads the saved position. It is zero when there is none.
func load(place StateStore) (state, error) {
	v, err := place.ScrubState()
	if err != nil || v == nil {
		return state{}, err
	}
	return decode(v)
}
