package persist

// MaxChanges bounds the changes that wait for a flush, about 2 MiB of keys.
const MaxChanges = 16 << 10

// Changes holds the keys of records that changed since they were last taken: at most a fixed
// number. A nil *Changes ignores changes. It is not for concurrent use: its table guards it
// with the lock that guards the records.
type Changes[K comparable] struct {
	limit   int
	keys    map[K]struct{}
	order   []K // oldest first
	dropped int // changes that were dropped because the set was full
}

// NewChanges returns an empty set of at most 16,384 keys.
func NewChanges[K comparable]() *Changes[K] { return NewChangesOf[K](MaxChanges) }

// NewChangesOf returns an empty set of at most limit keys.
func NewChangesOf[K comparable](limit int) *Changes[K] {
	return &Changes[K]{limit: limit, keys: make(map[K]struct{})}
}

// Add adds the keys of changed records. A full set drops its oldest change: the record stays
// in RAM, and returns after a restart when its owner publishes it again.
func (c *Changes[K]) Add(keys ...K) {
	if c == nil {
		return
	}
	for _, key := range keys {
		if _, ok := c.keys[key]; ok {
			continue
		}
		if len(c.order) == c.limit {
			delete(c.keys, c.order[0])
			c.order = c.order[1:]
			c.dropped++
		}
		c.keys[key] = struct{}{}
		c.order = append(c.order, key)
	}
}

// Take returns the changes in order, with the number dropped, and empties the set.
func (c *Changes[K]) Take() (changed []K, dropped int) {
	changed, dropped = c.order, c.dropped
	*c = *NewChangesOf[K](c.limit)
	return changed, dropped
}
