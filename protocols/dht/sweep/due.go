package sweep

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"
	"sync"
	"time"

	"allium/protocols/b3"
	"allium/protocols/kad"
)

// cellBits is the number of key bits that select a cell of the key space. A region of the sweep
// has at least K peers. In networks of up to about 40,000 peers a cell therefore lies within
// one region and is published with it.
const cellBits = 12

// cellID is the first cellBits bits of a key.
type cellID uint16

func cellOf(root b3.Root) cellID {
	key := kad.Hash(root.Multihash())
	return cellID(binary.BigEndian.Uint16(key[:]) >> (16 - cellBits))
}

// prefix returns the cell as a string of bits.
func (c cellID) prefix() string {
	s := strconv.FormatUint(1<<cellBits|uint64(c), 2)
	return s[1:]
}

// dueTable records when each cell must have been published again.
//
// Invariants: a cell without roots has no due time. A due time moves only when a peer has
// acknowledged a record of the cell. So a cell stays due while no peer takes its records.
type dueTable struct {
	mu      sync.Mutex // lock: leaf
	cells   [1 << cellBits]due
	round   uint32 // of the current or last listing
	changed bool   // since the last snapshot
}

// due is the due time of a cell in seconds since 1970; 0: the cell has no roots.
type due struct {
	at    int64
	round uint32 // last listing with a root of the cell
}

// begin starts a listing.
func (t *dueTable) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.round++
}

// seen records a root of the listing. If its cell has no due time yet, that becomes at.
func (t *dueTable) seen(root b3.Root, at time.Time) {
	c := cellOf(root)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cells[c].round = t.round
	if t.cells[c].at == 0 {
		t.set(c, at.Unix())
	}
}

// end clears the cells without a root in the listing.
func (t *dueTable) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.cells {
		if t.cells[c].at != 0 && t.cells[c].round != t.round {
			t.set(cellID(c), 0)
		}
	}
}

// done sets the due time of root's cell to next. It ignores a cell without roots: the root was
// dropped while it was being published.
func (t *dueTable) done(root b3.Root, next time.Time) {
	c := cellOf(root)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cells[c].at != 0 {
		t.set(c, next.Unix())
	}
}

// clear marks a cell as one without roots.
func (t *dueTable) clear(c cellID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set(c, 0)
}

func (t *dueTable) set(c cellID, at int64) {
	if t.cells[c].at != at {
		t.cells[c].at = at
		t.changed = true
	}
}

// lag returns how long ago the oldest due time passed, 0 if none has.
func (t *dueTable) lag(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	lag := time.Duration(0)
	for _, d := range t.cells {
		if d.at != 0 {
			lag = max(lag, now.Sub(time.Unix(d.at, 0)))
		}
	}
	return lag
}

// late lists the cells that were due before the given time, oldest first.
func (t *dueTable) late(before time.Time) []cellID {
	t.mu.Lock()
	defer t.mu.Unlock()
	var cells []cellID
	for c, d := range t.cells {
		if d.at != 0 && d.at < before.Unix() {
			cells = append(cells, cellID(c))
		}
	}
	slices.SortStableFunc(cells, func(a, b cellID) int { return cmp.Compare(t.cells[a].at, t.cells[b].at) })
	return cells
}

// The stored form: a version, then 32 bits of seconds for each cell.
const (
	dueVersion = 1
	dueSize    = 1 + 4<<cellBits
)

// snapshot returns the stored form of the table, nil if it has not changed since the last
// snapshot.
func (t *dueTable) snapshot() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.changed {
		return nil
	}
	t.changed = false
	p := append(make([]byte, 0, dueSize), dueVersion)
	for _, d := range t.cells {
		p = binary.BigEndian.AppendUint32(p, uint32(d.at))
	}
	return p
}

// again makes the next snapshot return the table, because the last one was not stored.
func (t *dueTable) again() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = true
}

// restore reads a snapshot and reports whether p is one. It limits due times to most, because
// the clock may have been wrong when they were stored.
func (t *dueTable) restore(p []byte, most time.Time) bool {
	if len(p) != dueSize || p[0] != dueVersion {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.cells {
		t.cells[c] = due{at: min(int64(binary.BigEndian.Uint32(p[1+4*c:])), most.Unix())}
	}
	return true
}
