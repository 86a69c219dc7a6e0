package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"allium/internal/ballast"
	"allium/protocols/status"
)

// file is what a chain appends to.
type file interface {
	io.Writer
	Sync() error
	Truncate(size int64) error
	Close() error
}

// chain is the log on disk. One goroutine uses it.
type chain struct {
	dir      string
	maxBytes int64
	keep     int
	open     func(name string) (file, error)
	ballast  *ballast.Ballast // space for the records of what gives space back

	f      file
	number int   // of the file
	size   int64 // of the file
	at     position
	headed position // what the head file says
	dirty  bool     // written and not synced
}

// The ballast of a log: room for some thousands of records. It is made when the
// disk has that much beside it.
const (
	ballastDir  = "ballast"
	ballastSize = 4 << 20
	ballastKeep = 16 << 20
)

// sparing runs op again after each file of the ballast that is removed for it,
// while it finds no space.
func (c *chain) sparing(op func() error) error {
	err := op()
	for full(err) && c.ballast.Release() {
		err = op()
	}
	return err
}

// full reports whether err says that the disk has no space left.
func full(err error) bool {
	o, ok := status.System(err)
	return ok && o == status.NoSpace
}

func openAppend(name string) (file, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// recover opens the log after whatever ended it, and returns what there is to
// record about that. It changes nothing but an unfinished last line.
func (c *chain) recover() ([]Event, error) {
	c.close()
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, fmt.Errorf("audit: make the log's directory: %w", err)
	}
	numbers, err := listFiles(c.dir)
	if err != nil {
		return nil, err
	}
	head, headErr := readHead(c.dir)
	if headErr != nil && status.Of(headErr) != status.NotFound && status.Of(headErr) != status.Corrupt {
		return nil, headErr
	}
	if len(numbers) == 0 {
		return c.first(head, headErr)
	}
	last := numbers[len(numbers)-1]
	t, err := readTail(filepath.Join(c.dir, fileName(last)), head)
	if err != nil {
		return nil, err
	}
	if headErr == nil && !t.reached {
		t.why = fmt.Sprintf("the head file names record %d with hash %s, which is not where it should be", head.seq, head.hash.Hex())
	}
	if headErr != nil && t.why == "" {
		t.why = headErr.Error()
		head = t.at
	}
	c.headed = head
	if t.why != "" {
		c.number, c.at = last, head
		return []Event{{Kind: Damaged, Detail: t.why}}, c.next()
	}
	f, err := c.open(filepath.Join(c.dir, fileName(last)))
	if err != nil {
		return nil, fmt.Errorf("audit: open the log: %w", err)
	}
	c.f, c.number, c.size, c.at = f, last, t.size, t.at
	c.dirty = t.at != head // they may be in the page cache only
	if t.half == 0 {
		return nil, nil
	}
	if err := errors.Join(f.Truncate(t.size), f.Sync()); err != nil {
		return nil, fmt.Errorf("audit: cut off an unfinished record: %w", err)
	}
	return []Event{{Kind: Cut, Bytes: t.half}}, nil
}

// first begins a log that has no file.
func (c *chain) first(head position, headErr error) (events []Event, err error) {
	switch {
	case status.Of(headErr) == status.NotFound:
		// The head file comes first: without it a log is damaged.
		if err := errors.Join(writeHead(c.dir, position{}), syncDir(c.dir)); err != nil {
			return nil, fmt.Errorf("audit: begin the log: %w", err)
		}
	case headErr != nil:
		events = []Event{{Kind: Damaged, Detail: headErr.Error()}}
	case head.seq > 0:
		events = []Event{{Kind: Damaged, Detail: fmt.Sprintf("the head file names record %d, and the files are gone", head.seq)}}
	}
	c.number, c.at, c.headed = 0, head, head
	return events, c.next()
}

// tail is what a log's last file says.
type tail struct {
	at      position
	size    int64  // of the whole lines
	half    int64  // bytes of an unfinished one after them
	reached bool   // the head was passed, and was right
	why     string // what is wrong with a line, if something is
}

// readTail reads a file through.
func readTail(name string, head position) (tail, error) {
	f, err := os.Open(name)
	if err != nil {
		return tail{}, fmt.Errorf("audit: open the log: %w", err)
	}
	defer f.Close()
	t := tail{at: head, reached: true} // of a file that was begun and never written to
	first := true
	err = scan(f, func(line []byte) error {
		r, err := parse(line)
		if err == nil && first {
			// What comes before is in another file, or nothing.
			t.at = position{seq: r.Seq - 1}
			if t.at.hash, err = parseHash(r.Prev); err == nil {
				t.reached = t.at == head
			}
		}
		if err == nil {
			err = r.follows(t.at.seq, t.at.hash)
		}
		if err != nil {
			return err
		}
		first = false
		t.at = position{seq: r.Seq, hash: hashOf(line)}
		t.reached = t.reached || t.at == head
		t.size += int64(len(line)) + 1
		return nil
	})
	switch {
	case errors.Is(err, errHalf):
		fi, err := f.Stat()
		if err != nil {
			return tail{}, fmt.Errorf("audit: look at the log: %w", err)
		}
		t.half = fi.Size() - t.size
	case status.Of(err) == status.Corrupt:
		t.why = err.Error()
	case err != nil:
		return tail{}, fmt.Errorf("audit: read the log: %w", err)
	}
	return t, nil
}

// next begins the next file and removes the oldest of too many.
func (c *chain) next() error {
	c.close()
	c.number++
	f, err := c.open(filepath.Join(c.dir, fileName(c.number)))
	if err != nil {
		return fmt.Errorf("audit: begin a file of the log: %w", err)
	}
	c.f, c.size = f, 0
	numbers, err := listFiles(c.dir)
	if err != nil {
		return err
	}
	for len(numbers) > c.keep {
		if err := os.Remove(filepath.Join(c.dir, fileName(numbers[0]))); err != nil {
			return fmt.Errorf("audit: remove the oldest file of the log: %w", err)
		}
		numbers = numbers[1:]
	}
	if err := syncDir(c.dir); err != nil {
		return fmt.Errorf("audit: begin a file of the log: %w", err)
	}
	return nil
}

// append writes events and returns their records. They are durable after sync.
func (c *chain) append(now time.Time, events []Event) ([]Record, error) {
	if c.size >= c.maxBytes {
		if err := c.sync(); err != nil {
			return nil, err
		}
		if err := c.next(); err != nil {
			return nil, err
		}
	}
	fresh := 0
	if c.size == 0 {
		events, fresh = append([]Event{{Kind: Begin}}, events...), 1
	}
	at := c.at
	var buf []byte
	records := make([]Record, len(events))
	for i, e := range events {
		r := Record{Seq: at.seq + 1, Time: now, Event: e.clipped(), Prev: at.hash.Hex()}
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		at = position{seq: r.Seq, hash: hashOf(line)}
		buf = append(append(buf, line...), '\n')
		records[i] = r
	}
	if _, err := c.f.Write(buf); err != nil {
		return nil, fmt.Errorf("audit: write to the log: %w", err)
	}
	c.at, c.size, c.dirty = at, c.size+int64(len(buf)), true
	return records[fresh:], nil
}

// sync makes what was written durable.
func (c *chain) sync() error {
	if !c.dirty {
		return nil
	}
	if err := c.f.Sync(); err != nil {
		return fmt.Errorf("audit: make the log durable: %w", err)
	}
	c.dirty = false
	return nil
}

// mark lets the head file name the last record, which is durable.
func (c *chain) mark() error {
	if c.headed == c.at || c.dirty {
		return nil
	}
	if err := c.sparing(func() error { return writeHead(c.dir, c.at) }); err != nil {
		return fmt.Errorf("audit: write the head file: %w", err)
	}
	c.headed = c.at
	return nil
}

func (c *chain) close() {
	if c.f != nil {
		_ = c.f.Close() // what matters was synced before
		c.f = nil
	}
}
