package quota

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// maxDirectories bounds the directories below one pin that are read to measure it.
const maxDirectories = 1 << 20

// measure returns what a pin of an object of size bytes protects, for a label with a quota:
// the object alone, or everything below it, each directory once. A missing object counts
// with the size that its directory names. More than 1,048,576 directories are conflict.
func (q *Quotas) measure(ctx context.Context, p meta.Pin, size int64) (meta.Count, error) {
	sum := meta.Count{Objects: 1, Bytes: size}
	if _, ok := q.limitOf(p.Label); !ok || !p.Recursive {
		return sum, nil
	}
	seen := map[b3.Root]struct{}{p.Root: {}}
	todo := []b3.Root{p.Root}
	for len(todo) > 0 {
		node := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		n, err := q.node(ctx, node)
		if errors.Is(err, meta.ErrDamagedDirectory) {
			continue
		}
		if err != nil {
			return meta.Count{}, err
		}
		if n == nil { // a file, or missing
			continue
		}
		for _, ref := range n.Refs() {
			if ref.Manifest {
				if _, ok := seen[ref.Root]; ok {
					continue
				}
				if len(seen) == maxDirectories {
					return meta.Count{}, status.Errorf(status.Conflict,
						"more than %d directories are below %s; pin parts of it, or lift the quota of %q",
						maxDirectories, p.Root, p.Label)
				}
				seen[ref.Root] = struct{}{}
				todo = append(todo, ref.Root)
			}
			sum.Add(ref.Size)
			if sum.Bytes < 0 { // overflow: sizes are claims of their authors
				return meta.Count{}, status.Errorf(status.BadRequest, "the sizes below %s are invalid", p.Root)
			}
		}
	}
	return sum, nil
}

// CountPins counts the pins that exist when the store opens. If that exceeds a quota, what
// is new is refused.
func (q *Quotas) CountPins(ctx context.Context, pins iter.Seq2[meta.Pin, error]) error {
	if len(q.limits) == 0 {
		return nil
	}
	for p, err := range pins {
		if err != nil {
			return err
		}
		if _, ok := q.limitOf(p.Label); !ok {
			continue
		}
		e, ok, err := q.backend.Get(p.Root)
		if err == nil && ok {
			var n meta.Count
			if n, err = q.measure(ctx, p, e.Size); err == nil {
				q.addPin(pinKey{p.Root, p.Label}, n)
			}
		}
		if err != nil && status.Of(err) != status.Conflict && status.Of(err) != status.BadRequest {
			return fmt.Errorf("measure the pin of %s: %w", p.Root, err)
		}
	}
	return nil
}

// addPin counts an existing pin without checking the quota.
func (q *Quotas) addPin(key pinKey, n meta.Count) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used[key.label] = q.used[key.label].Plus(n)
	q.pins[key] = n
}
