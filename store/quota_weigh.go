package store

import (
	"context"
	"errors"
	"fmt"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// maxWeighed is how many directories below one pin are read to weigh it.
const maxWeighed = 1 << 20

// weigh works out what a pin of an object of size bytes leads to, for a label
// with a quota: the object alone, or all below it, each directory once. What is
// not here yet counts by what its directory says of it. More than 1,048,576
// directories are conflict.
func (s *Store) weigh(ctx context.Context, p meta.Pin, size int64) (load, error) {
	sum := load{bytes: size, objects: 1}
	if _, ok := s.quotas.of(p.Label); !ok || !p.Recursive {
		return sum, nil
	}
	seen := map[b3.Root]struct{}{p.Root: {}}
	todo := []b3.Root{p.Root}
	for len(todo) > 0 {
		node := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		n, err := s.node(ctx, node)
		if errors.Is(err, errDamagedNode) {
			continue
		}
		if err != nil {
			return load{}, err
		}
		if n == nil { // a file, or not here
			continue
		}
		for _, ref := range n.Refs() {
			if ref.Manifest {
				if _, twice := seen[ref.Root]; twice {
					continue
				}
				if len(seen) == maxWeighed {
					return load{}, status.Errorf(status.Conflict, "store: more than %d directories are below %s; pin parts of it, or lift the quota of %q", maxWeighed, p.Root, p.Label)
				}
				seen[ref.Root] = struct{}{}
				todo = append(todo, ref.Root)
			}
			sum.add(load{ref.Size, 1})
			if sum.bytes < 0 { // sizes are their authors' claims
				return load{}, status.Errorf(status.BadRequest, "store: the sizes below %s are no sizes", p.Root)
			}
		}
	}
	return sum, nil
}

// weighAll weighs the pins that are there when the store opens. A quota that is
// exceeded by then refuses what is new.
func (s *Store) weighAll(ctx context.Context) error {
	q := s.quotas
	if len(q.limits) == 0 {
		return nil
	}
	for p, err := range s.Pins(ctx) {
		if err != nil {
			return err
		}
		if _, ok := q.of(p.Label); !ok {
			continue
		}
		e, ok, err := s.backend.Get(p.Root)
		if err == nil && ok {
			var l load
			if l, err = s.weigh(ctx, p, e.Size); err == nil {
				q.count(pinKeyed{p.Root, p.Label}, l)
			}
		}
		if err != nil && status.Of(err) != status.Conflict && status.Of(err) != status.BadRequest {
			return fmt.Errorf("store: weigh the pin of %s: %w", p.Root, err)
		}
	}
	return nil
}

// count enters a pin that is there.
func (q *quotas) count(key pinKeyed, l load) {
	q.mu.Lock()
	defer q.mu.Unlock()
	used := q.used[key.label]
	used.add(l)
	q.used[key.label] = used
	q.pins[key] = l
}
