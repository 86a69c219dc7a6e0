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

// maxWeighed is how many directories below one pin are read to weigh it.
const maxWeighed = 1 << 20

// weigh works out what a pin of an object of size bytes leads to, for a label
// with a quota: the object alone, or all below it, each directory once. What is
// not here yet counts by what its directory says of it. More than 1,048,576
// directories are conflict.
func (q *Quotas) weigh(ctx context.Context, p meta.Pin, size int64) (meta.Count, error) {
	sum := meta.Count{Objects: 1, Bytes: size}
	if _, ok := q.of(p.Label); !ok || !p.Recursive {
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
		if n == nil { // a file, or not here
			continue
		}
		for _, ref := range n.Refs() {
			if ref.Manifest {
				if _, twice := seen[ref.Root]; twice {
					continue
				}
				if len(seen) == maxWeighed {
					return meta.Count{}, status.Errorf(status.Conflict, "store: more than %d directories are below %s; pin parts of it, or lift the quota of %q", maxWeighed, p.Root, p.Label)
				}
				seen[ref.Root] = struct{}{}
				todo = append(todo, ref.Root)
			}
			sum.Add(ref.Size)
			if sum.Bytes < 0 { // sizes are their authors' claims
				return meta.Count{}, status.Errorf(status.BadRequest, "store: the sizes below %s are no sizes", p.Root)
			}
		}
	}
	return sum, nil
}

// WeighAll weighs the pins that are there when the store opens. A quota that is
// exceeded by then refuses what is new.
func (q *Quotas) WeighAll(ctx context.Context, pins iter.Seq2[meta.Pin, error]) error {
	if len(q.limits) == 0 {
		return nil
	}
	for p, err := range pins {
		if err != nil {
			return err
		}
		if _, ok := q.of(p.Label); !ok {
			continue
		}
		e, ok, err := q.backend.Get(p.Root)
		if err == nil && ok {
			var n meta.Count
			if n, err = q.weigh(ctx, p, e.Size); err == nil {
				q.count(pinKeyed{p.Root, p.Label}, n)
			}
		}
		if err != nil && status.Of(err) != status.Conflict && status.Of(err) != status.BadRequest {
			return fmt.Errorf("store: weigh the pin of %s: %w", p.Root, err)
		}
	}
	return nil
}

// count enters a pin that is there.
func (q *Quotas) count(key pinKeyed, n meta.Count) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used[key.label] = q.used[key.label].Plus(n)
	q.pins[key] = n
}
