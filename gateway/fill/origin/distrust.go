package origin

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/protocols/status"
)

// distrust remembers for a while which mirrors lied, and about which paths. Its methods are safe for concurrent use.
type distrust struct {
	mu   sync.Mutex                   // lock: leaf
	lies *simplelru.LRU[lie, penalty] // the oldest is forgotten for a new one
}

// lie names a path of a mirror. Without a path, it is about the mirror.
type lie struct {
	mirror int
	path   string
}

// penalty counts consecutive lies, and ends at a time.
type penalty struct {
	lies  int
	until time.Time
}

func newDistrust() (*distrust, error) {
	lru, err := simplelru.NewLRU[lie, penalty](maxLies, nil)
	return &distrust{lies: lru}, err
}

// note notes a lie. The penalty of each further one is twice as long, unless the one before is long over.
func (d *distrust) note(l lie, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, ok := d.lies.Get(l)
	if !ok || now.After(p.until.Add(maxPenalty)) {
		p.lies = 0
	}
	d.lies.Add(l, penalty{p.lies + 1, now.Add(min(minPenalty<<min(p.lies, 16), maxPenalty))})
}

// until returns the end of a penalty, or the zero time if there is none.
func (d *distrust) until(l lie, now time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p, ok := d.lies.Peek(l); ok && now.Before(p.until) {
		return p.until
	}
	return time.Time{}
}

// Lied notes that a mirror sent wrong bytes for a path. For a while, it is asked after the other mirrors, and not for
// that path.
func (c *Client) Lied(mirror int, path string) {
	now := time.Now()
	c.distrust.note(lie{mirror: mirror}, now)
	c.distrust.note(lie{mirror, "/" + path}, now)
}

// order returns the mirrors to ask, those that lied last. It returns corrupt if only the lies of mirrors leave none.
func (c *Client) order(r Request, now time.Time) (mirrors []int, err error) {
	var liars []int
	var again time.Time // when the first of those that are left out may be asked
	for i := range c.bases {
		end := c.distrust.until(lie{i, "/" + r.Path}, now)
		switch {
		case slices.Contains(r.Except, i):
		case !end.IsZero():
			if again.IsZero() || end.Before(again) {
				again = end
			}
		case !c.distrust.until(lie{mirror: i}, now).IsZero():
			liars = append(liars, i)
		default:
			mirrors = append(mirrors, i)
		}
	}
	if mirrors = append(mirrors, liars...); len(mirrors) > 0 {
		return mirrors, nil
	}
	if again.IsZero() {
		return nil, c.fail(status.Upstream, "", "no mirror is left to ask", nil)
	}
	return nil, c.fail(status.Corrupt, "", "its mirrors sent other bytes than the manifest names; they are asked "+
		"again in "+strconv.Itoa(1+int(again.Sub(now)/time.Second))+" s", nil)
}
