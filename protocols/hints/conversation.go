package hints

import (
	"bufio"
	"errors"
	"io"
	"time"

	"allium/protocols/delimited"
	"allium/protocols/status"
)

// conversation holds the messages of one side of a comparison.
type conversation struct {
	y      *syncer
	w      io.Writer
	r      *bufio.Reader
	origin string // IP group that received announcements count for, see memory
	moved  int    // announcements sent, and new ones received
}

func (y *syncer) conversation(rw io.ReadWriter, origin string) *conversation {
	return &conversation{y: y, w: rw, r: bufio.NewReader(rw), origin: origin}
}

func (c *conversation) read() ([]byte, error) { return delimited.Read(c.r, maxMessage) }

func (c *conversation) write(v any) error {
	p, err := canonical.Marshal(v)
	if err != nil {
		return err
	}
	return delimited.Write(c.w, p)
}

// send writes the IDs that this side wants and the announcements that the other side wants, up to
// the bounds of a comparison, in messages of at most 64 KiB.
func (c *conversation) send(wants, ids []id) error {
	b, left := batch{Wants: joinIDs(wants)}, maxMessage-64-len(wants)*len(id{})
	total := 0
	for _, i := range ids[:min(len(ids), maxWants)] {
		a := c.y.s.memory.get(i)
		if a == nil {
			continue
		}
		n := len(a.envelope) + 4
		if total += n; total > maxBytes {
			break
		}
		if n > left || len(b.Items) == maxItems {
			if err := c.write(b); err != nil {
				return err
			}
			b, left = batch{}, maxMessage-64
		}
		b.Items = append(b.Items, a.envelope)
		left -= n
		c.y.s.m.sent.Inc()
		c.moved++
	}
	b.Last = true
	return c.write(b)
}

// receive reads announcements until the last message. It returns the IDs of the first message.
func (c *conversation) receive(wanted []id) (first batch, err error) {
	asked := make(map[id]bool, len(wanted))
	for _, i := range wanted {
		asked[i] = true
	}
	total := 0
	for n := 0; ; n++ {
		p, err := c.read()
		if err != nil {
			return first, err
		}
		b, err := decodeBatch(p)
		if err != nil {
			return first, err
		}
		if n == 0 {
			first = b
		}
		total += len(p)
		// Only the first message may carry no announcements.
		if n > 0 && (len(b.Items) == 0 || len(b.Wants)+len(b.Has) > 0) || n == 0 && len(b.Items) == 0 && !b.Last ||
			total > maxBytes+2*maxMessage {
			return first, wrong(errors.New("more than a comparison brings"))
		}
		for _, raw := range b.Items {
			if err := c.take(raw, asked); err != nil {
				return first, err
			}
		}
		if b.Last {
			return first, nil
		}
	}
}

// take verifies and remembers an announcement like one from gossip, but from any peer. It returns
// an error only if the peer must not have forwarded it. A late announcement, or one without a
// place, is not an error.
func (c *conversation) take(raw []byte, asked map[id]bool) error {
	now := c.y.s.deps.Now()
	a, err := trust(raw, now)
	if a != nil {
		if !asked[a.id] {
			return wrong(errors.New("an announcement that was not asked for"))
		}
		delete(asked, a.id)
	}
	if err == nil {
		err = c.keep(a, now)
	}
	if err == nil {
		return nil
	}
	c.y.s.m.refuse(viaSync, err)
	switch status.Of(err) {
	case status.Stale, status.Denied:
		c.y.declined.Add(a.id, time.Now().Add(declineLate))
		return nil
	case status.Quota:
		c.y.declined.Add(a.id, time.Time{})
		return nil
	}
	return err
}

// keep verifies and remembers an announcement, unless it has arrived meanwhile.
func (c *conversation) keep(a *announcement, now time.Time) error {
	if here, err := c.y.s.memory.known(a, now); here || err != nil {
		return err
	}
	if _, err := verify(a.envelope, now); err != nil {
		return err
	}
	c.moved++
	a.origin = c.origin
	return c.y.s.keep(a, viaSync, now)
}
