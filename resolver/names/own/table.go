package own

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"allium/protocols/name"
	"allium/protocols/status"
)

// Problem says why a record is not sent any more, until its owner publishes again.
type Problem string

// The problems.
const (
	// Superseded: the peers have a record with a higher sequence number, which was signed elsewhere.
	Superseded Problem = "superseded"
	// Equivocation: another value was signed elsewhere with the same sequence number.
	Equivocation Problem = "equivocation"
	// Refused: the key of the zone cannot be read, or the record cannot be signed again.
	Refused Problem = "refused"
)

// State is a record and what became of it. The part from Acks on is not kept over a restart.
type State struct {
	name.Record
	Acks    int       // peers that took the record when it was sent last
	Sent    time.Time // when it was sent last; zero: not since the start
	Due     time.Time // when it is sent or signed again; zero: not at all
	Problem Problem   // empty: none
	Failed  error     // why no peer took it, or the problem; nil: none
}

// entry is a record and its state.
type entry struct {
	rec     name.Signed
	checked bool // the peers were asked whether there is a higher record
	tries   int  // times in a row that no peer took it
	working bool // a goroutine sends or signs it

	// recovered says that the record was in a damaged file, so that a newer one of this node may be lost.
	recovered bool
	State     // its Record is that of rec
}

// table has the records of all zones. It is safe for concurrent use, and does no I/O.
type table struct {
	mu      sync.Mutex // lock: leaf
	entries map[name.Name]*entry
	damaged map[name.Zone]error // zones whose file cannot be read
}

func newTable() *table {
	return &table{entries: map[name.Name]*entry{}, damaged: map[name.Zone]error{}}
}

// len returns the number of records.
func (t *table) len() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int64(len(t.entries))
}

// get returns a copy of the entry of a name; it is zero if there is none.
func (t *table) get(n name.Name) (entry, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.entries[n]; ok {
		return *e, true
	}
	return entry{}, false
}

// all returns the states in the byte order of the names.
func (t *table) all() []State {
	t.mu.Lock()
	all := make([]State, 0, len(t.entries))
	for _, e := range t.entries {
		all = append(all, e.State)
	}
	t.mu.Unlock()
	slices.SortFunc(all, func(a, b State) int {
		return cmp.Or(strings.Compare(a.Name.Zone.String(), b.Name.Zone.String()),
			strings.Compare(a.Name.Label.String(), b.Name.Label.String()))
	})
	return all
}

// with returns the records of the zone of rec as they are with rec, in the byte order of their
// labels, without withdrawn ones that have expired. The error is conflict if the label looks like
// another, quota if there are too many, or that of the damaged file of the zone.
func (t *table) with(rec name.Signed, now time.Time) ([]name.Signed, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.damaged[rec.Name.Zone]; err != nil {
		return nil, err
	}
	all := []name.Signed{rec}
	var used name.Spellings
	for n, e := range t.entries {
		if n.Zone != rec.Name.Zone || n == rec.Name || over(e.rec, now) {
			continue
		}
		all = append(all, e.rec)
		if e.rec.Value.Kind() != name.Withdrawn {
			_ = used.Add(n.Label) // those that are there were compared when they came
		}
	}
	if rec.Value.Kind() != name.Withdrawn {
		if err := used.Add(rec.Name.Label); err != nil {
			return nil, err
		}
	}
	_, known := t.entries[rec.Name]
	switch {
	case len(all) > maxLabels:
		return nil, status.Errorf(status.Quota, "the zone has %d names already, and %d is the most; withdraw some, "+
			"which leave when their records expire, or use another zone", maxLabels, maxLabels)
	case !known && len(t.entries) >= maxRecords:
		return nil, status.Errorf(status.Quota, "this home directory publishes %d names already, and %d is the most; "+
			"publish the rest from another one", maxRecords, maxRecords)
	}
	slices.SortFunc(all, func(a, b name.Signed) int {
		return strings.Compare(a.Name.Label.String(), b.Name.Label.String())
	})
	return all, nil
}

// over reports whether a record withdraws a name and has expired: then it has no effect any more.
func over(rec name.Signed, now time.Time) bool {
	return rec.Value.Kind() == name.Withdrawn && !now.Before(rec.NotAfter)
}

// set takes up a record that is in its file, due at once, and drops what has no effect any more.
// The caller works on it if working is set.
func (t *table) set(rec name.Signed, checked, working bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n, e := range t.entries {
		if n.Zone == rec.Name.Zone && over(e.rec, now) {
			delete(t.entries, n)
		}
	}
	t.entries[rec.Name] = &entry{rec: rec, checked: checked, working: working,
		State: State{Record: rec.Record, Due: now}}
}

// job is a record that is to be sent or signed again.
type job struct {
	rec     name.Signed
	checked bool
}

// due takes at most n records whose time has come; work on them ends with end or problem. It
// returns the time of the next one, too.
func (t *table) due(n int, now time.Time) (jobs []job, next time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, e := range t.entries {
		switch {
		case over(e.rec, now):
			delete(t.entries, key)
		case e.working || e.Due.IsZero():
		case !e.Due.After(now) && len(jobs) < n:
			e.working = true
			jobs = append(jobs, job{e.rec, e.checked})
		case next.IsZero() || e.Due.Before(next):
			next = e.Due
		}
	}
	return jobs, next
}

// change changes the entry of a record, unless another record took its place, and ends work on it.
func (t *table) change(rec name.Signed, f func(e *entry)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.entries[rec.Name]; e != nil && e.rec.Seq == rec.Seq {
		e.working = false
		f(e)
	}
}

// damage refuses further records of a zone with err, because its file cannot be read; nil ends that.
func (t *table) damage(zone name.Zone, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		delete(t.damaged, zone)
		return
	}
	t.damaged[zone] = err
}

// refusal returns the error of damage.
func (t *table) refusal(zone name.Zone) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.damaged[zone]
}
