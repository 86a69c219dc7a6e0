package trace

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"allium/internal/limits"
	"allium/protocols/status"
)

// hits holds the latest lookups that were answered at once, a line of a fixed size for each.
type hits struct {
	usage  *limits.Usage
	n      atomic.Int64 // lines in use
	shards [hitShards]hitShard
}

// hitShard is a ring of lines. The hit's random ID chooses its shard.
type hitShard struct {
	mu    sync.Mutex // lock: leaf
	lines [hitsOfShard]hit
	next  int
}

// hit is a lookup that was answered at once. An ID of zero is an empty line.
type hit struct {
	id     status.LookupID
	parent status.LookupID
	key    Key
	at     Instant // when it ended
	took   time.Duration
	source Source
	kind   Kind
}

// hitSize is the most bytes that a line takes, with the name of its key.
const hitSize = int(unsafe.Sizeof(hit{})) + MaxName

// The lines fit into their share.
const _ = uint(hitBytes - hitEntries*hitSize)

func newHits(r *limits.Registry) *hits {
	h := &hits{}
	h.usage = r.NewUsage(limits.Spec{
		Name: "resolver.traces_hits", Path: "hits → why", Policy: "the oldest of 1,024 is dropped",
	}, hitBytes, func() int64 { return h.n.Load() * int64(hitSize) })
	return h
}

// Hit records a lookup that source answered at once, after took, and returns its ID. It allocates
// nothing unless it has to cut the name of the key.
func (r *Ring) Hit(kind Kind, key Key, source Source, took time.Duration) status.LookupID {
	return r.HitAt(0, kind, key, source, Now(), took)
}

// HitUnder is Hit for a lookup that another one led to, see BeginUnder.
func (r *Ring) HitUnder(
	parent status.LookupID, kind Kind, key Key, source Source, took time.Duration,
) status.LookupID {
	return r.HitAt(parent, kind, key, source, Now(), took)
}

// HitAt is HitUnder for a caller that knows the time: the lookup ended at the moment at. Reading the
// clock costs as much as the rest of Hit.
func (r *Ring) HitAt(
	parent status.LookupID, kind Kind, key Key, source Source, at Instant, took time.Duration,
) status.LookupID {
	id := status.NewLookupID()
	if r == nil {
		return id
	}
	if key.Name != "" {
		key.Name = cut(key.Name, MaxName)
	}
	s := &r.hits.shards[id%hitShards]
	s.mu.Lock()
	to := &s.lines[s.next] // the oldest of the shard
	s.next = (s.next + 1) % hitsOfShard
	grew := to.id == 0
	*to = hit{id: id, parent: parent, key: key, at: at, took: took, source: source, kind: kind}
	s.mu.Unlock()
	if took > 0 { // what lies in RAM is never slow, and the tracer does not run for it
		r.judge(id, kind, isHit, took)
	}
	if grew {
		r.hits.n.Add(1)
		r.hits.usage.Grown()
	}
	return id
}

// find returns the hits for which match is true.
func (h *hits) find(match func(*Head) bool) (found []Record) {
	now := time.Now()
	instant := InstantOf(now)
	for i := range h.shards {
		s := &h.shards[i]
		s.mu.Lock()
		lines := s.lines
		s.mu.Unlock()
		for _, line := range lines {
			if line.id == 0 {
				continue
			}
			head := Head{
				ID: line.id, Parent: line.parent, Kind: line.kind, Key: line.key, Took: max(1, line.took),
				Start: now.Add(line.at.Sub(instant) - line.took),
			}
			if match(&head) {
				step := Step{Took: line.took, Source: line.source, Verdict: Hit, Count: 1}
				found = append(found, Record{Head: head, Callers: 1, Steps: []Step{step}})
			}
		}
	}
	return found
}
