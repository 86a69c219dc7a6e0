package audit

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"allium/internal/ballast"
	"allium/protocols/status"
)

// file is the open file of a chain. Tests replace it to provoke errors of the disk.
type file interface {
	io.Writer
	Sync() error
	Truncate(size int64) error
	Close() error
}

// chain is the log on disk: numbered files and a head file. It is not safe for
// concurrent use.
type chain struct {
	dir     string
	cfg     *atomic.Pointer[Config]
	open    func(name string) (file, error)
	ballast *ballast.Ballast // space that deletions use for their records on a full disk

	f         file
	number    int      // number of f
	size      int64    // bytes of f
	at        position // last record written
	savedHead position // last record named by the head file
	dirty     bool     // f has bytes that were not synced
}

// The ballast of a log has space for some thousands of records. It is filled only
// while the disk keeps ballastKeep bytes free beside it.
const (
	ballastDir  = "ballast"
	ballastSize = 4 << 20  // bytes
	ballastKeep = 16 << 20 // bytes
)

// withBallast runs op. While op fails because the disk is full, it removes one file of
// the ballast and runs op again.
func (c *chain) withBallast(op func() error) error {
	err := op()
	for full(err) && c.ballast.Release() {
		err = op()
	}
	return err
}

// fillBallast fills the ballast as far as the disk has space for it. An error other
// than a full or read-only disk is logged.
func (c *chain) fillBallast(log *slog.Logger) {
	for more := true; more; {
		var err error
		if more, err = c.ballast.Fill(ballastKeep); err != nil && !unwritable(err) {
			log.Warn("cannot reserve disk space for the audit log; on a full disk deletions may be refused", "err",
				err)
		}
	}
}

// full reports whether err says that the disk has no space left.
func full(err error) bool {
	o, ok := status.System(err)
	return ok && o == status.NoSpace
}

func openAppend(name string) (file, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// recover opens the log after a stop or a crash. It returns the events to record first: what was cut off or found
// damaged. In the existing files it changes only an unfinished last line, which it cuts off. A damaged log continues in
// a new file.
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
	if headErr == nil && !t.headFound {
		t.damage = fmt.Sprintf("the head file names record %d with hash %s, which is not where it should be", head.seq,
			head.hash.Hex())
	}
	if headErr != nil && t.damage == "" {
		t.damage = headErr.Error()
		head = t.at
	}
	c.savedHead = head
	if t.damage != "" {
		c.number, c.at = last, head
		return []Event{{Kind: Damaged, Detail: t.damage}}, c.next()
	}
	f, err := c.open(filepath.Join(c.dir, fileName(last)))
	if err != nil {
		return nil, fmt.Errorf("audit: open the log: %w", err)
	}
	c.f, c.number, c.size, c.at = f, last, t.size, t.at
	c.dirty = t.at != head // records after the head may be in the page cache only
	if t.unfinished == 0 {
		return nil, nil
	}
	if err := errors.Join(f.Truncate(t.size), f.Sync()); err != nil {
		return nil, fmt.Errorf("audit: cut off an unfinished record: %w", err)
	}
	return []Event{{Kind: Cut, Bytes: t.unfinished}}, nil
}

// first begins a log that has no files. It returns an event of damage if the head
// file shows that there were some.
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
		events = []Event{{
			Kind: Damaged, Detail: fmt.Sprintf("the head file names record %d, and the files are gone", head.seq),
		}}
	}
	c.number, c.at, c.savedHead = 0, head, head
	return events, c.next()
}

// tail describes the last file of a log.
type tail struct {
	at         position // last whole record
	size       int64    // bytes of the whole lines
	unfinished int64    // bytes of an unfinished line after them
	headFound  bool     // the file contains the record that the head file names, with the right hash
	damage     string   // what is wrong with a line; empty: nothing
}

// readTail reads the last file of a log and checks its chain of hashes.
func readTail(name string, head position) (tail, error) {
	f, err := os.Open(name)
	if err != nil {
		return tail{}, fmt.Errorf("audit: open the log: %w", err)
	}
	defer f.Close()
	t := tail{at: head, headFound: true} // holds for a file without records
	first := true
	err = scan(f, func(line []byte) error {
		r, err := parse(line)
		if err == nil && first {
			// The record before this one is in the file before, or does not exist.
			t.at = position{seq: r.Seq - 1}
			if t.at.hash, err = parseHash(r.Prev); err == nil {
				t.headFound = t.at == head
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
		t.headFound = t.headFound || t.at == head
		t.size += int64(len(line)) + 1
		return nil
	})
	switch {
	case errors.Is(err, errUnfinished):
		fi, err := f.Stat()
		if err != nil {
			return tail{}, fmt.Errorf("audit: look at the log: %w", err)
		}
		t.unfinished = fi.Size() - t.size
	case status.Of(err) == status.Corrupt:
		t.damage = err.Error()
	case err != nil:
		return tail{}, fmt.Errorf("audit: read the log: %w", err)
	}
	return t, nil
}

// next begins the next file. It removes the oldest files until at most Config.Keep are left.
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
	for len(numbers) > c.cfg.Load().Keep {
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

// append writes events with one write and returns their records, without that of a
// new file's beginning. The records are durable after sync. A file that has
// Config.MaxBytes is followed by the next one.
func (c *chain) append(now time.Time, events []Event) ([]Record, error) {
	if c.size >= int64(c.cfg.Load().MaxBytes) {
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

// sync makes the written records durable.
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

// saveHead writes the last record's number and hash to the head file. It does nothing
// while records wait for a sync: the head names durable records only.
func (c *chain) saveHead() error {
	if c.savedHead == c.at || c.dirty {
		return nil
	}
	if err := c.withBallast(func() error { return writeHead(c.dir, c.at) }); err != nil {
		return fmt.Errorf("audit: write the head file: %w", err)
	}
	c.savedHead = c.at
	return nil
}

func (c *chain) close() {
	if c.f != nil {
		_ = c.f.Close() // records that matter were synced before
		c.f = nil
	}
}
