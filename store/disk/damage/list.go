package damage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/status"
	"allium/store/disk/fsys"
	"allium/store/meta"
)

// maxDamage is the maximum number of findings in the list. In a full list a new finding replaces
// the oldest one that is not open. When all are open, the new one only adds to Left of the last
// one.
const maxDamage = 4096

// FileList is the name of the list's file. Each line is one finding: the CRC-32C of the JSON
// in 8 hex digits, a space, and the JSON. Each change replaces the whole file by a rename.
const FileList = "DAMAGE"

// List is the list of damage of one store. It outlives restarts, so that an operator need not
// search the log for findings. Methods may be called concurrently. A nil List ignores Add and
// has no findings.
type List struct {
	fs    vfs.FS
	dir   string
	log   *slog.Logger
	Now   func() time.Time // the clock for findings
	Count *recoveryCounters
	// lock: held across I/O, because the file has one writer, which nothing waits for but other findings
	// of damage
	save sync.Mutex // held while the file is written; taken before mu; lock: metadata

	mu    sync.Mutex // lock: leaf
	list  []meta.Damage
	dirty bool // list has changes that are not in the file
}

// NewList returns an empty list for the store in dir. Load fills it from the file.
func NewList(f vfs.FS, dir string, log *slog.Logger, now func() time.Time) *List {
	return &List{fs: f, dir: dir, log: log, Now: now, Count: newRecoveryCounters()}
}

// Load reads the list's file. If some lines cannot be read, Load adds one finding that counts
// them: what they said is unknown. A missing file is an empty list.
func (d *List) Load() error {
	h, err := d.fs.Open(d.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return meta.ReadError(err)
	}
	p, err := io.ReadAll(io.LimitReader(h, maxDamage*4096))
	_ = h.Close() // was only read
	if err != nil {
		return meta.ReadError(err)
	}
	bad := 0
	d.mu.Lock()
	for line := range bytes.Lines(p) {
		var x meta.Damage
		if decodeDamage(line, &x) != nil {
			bad++
			continue
		}
		d.list = append(d.list, x)
	}
	d.mu.Unlock()
	if bad > 0 {
		d.Add(meta.Damage{Kind: meta.DamageFormat, State: meta.DamageOpen, File: FileList, Event: d.Now().UnixNano(),
			Left:   1,
			Reason: fmt.Sprintf("%d lines of the list of damage cannot be read, so what they said is unknown", bad)})
	}
	return nil
}

func (d *List) path() string { return d.fs.PathJoin(d.dir, FileList) }

func encodeDamage(x meta.Damage) ([]byte, error) {
	p, err := json.Marshal(x)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(p, meta.Castagnoli), p), nil
}

func decodeDamage(line []byte, x *meta.Damage) error {
	line, whole := bytes.CutSuffix(line, []byte("\n"))
	var sum uint32
	if len(line) < 9 || !whole {
		return errors.New("the line is truncated")
	}
	if _, err := fmt.Sscanf(string(line[:9]), "%08x ", &sum); err != nil ||
		crc32.Checksum(line[9:], meta.Castagnoli) != sum {
		return errors.New("the checksum of the line does not match")
	}
	if err := json.Unmarshal(line[9:], x); err != nil {
		return err
	}
	if wholeFile := x.Kind == meta.DamageIndex || x.Kind == meta.DamageFormat; wholeFile && x.Offset > 0 {
		x.Event, x.Offset, x.Length = x.Offset, 0, 0 // the list was written when Offset had the time
	}
	return nil
}

// Add adds a finding, logs it and writes the list's file. It does nothing when the list has a
// finding of the same place, except for a segment that came back and is missing again. If the
// file cannot be written, the next change writes it, or the next start finds the damage again.
func (d *List) Add(x meta.Damage) {
	if d == nil {
		return
	}
	x.Found = d.Now().UTC().Truncate(time.Second)
	if len(x.Roots) > meta.MaxDamageRoots {
		x.Roots = x.Roots[:meta.MaxDamageRoots]
	}
	if x.State != meta.DamageOpen {
		x.Ended, x.Left = x.Found, 0
	}
	if !d.insert(x) {
		return
	}
	d.Count.countFound(x.Kind)
	report := d.log.Error
	if x.State != meta.DamageOpen {
		report = d.log.Warn
	}
	report("the store is damaged", "kind", x.Kind, "state", x.State, "file", x.File, "offset", x.Offset,
		"length", x.Length, "roots", x.Roots, "reason", x.Reason)
	_ = d.write() // write logs a failure, and the next change tries again
}

// insert adds x to the list and reports whether x is new. It does not write the file.
func (d *List) insert(x meta.Damage) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, o := range d.list {
		if !o.Same(x) {
			continue
		}
		again := o.State == meta.DamageRepaired && x.State == meta.DamageOpen && x.Reason == SegmentMissing
		if again { // the segment came back after the first finding
			d.list[i], d.dirty = x, true
		}
		return again
	}
	d.dirty = true
	if len(d.list) < maxDamage {
		d.list = append(d.list, x)
		return true
	}
	for i, o := range d.list {
		if o.State != meta.DamageOpen {
			d.list = append(append(d.list[:i:i], d.list[i+1:]...), x)
			return true
		}
	}
	last := &d.list[len(d.list)-1]
	last.Left += max(1, x.Left)
	last.Reason = "the list of damage is full; there is more"
	return true
}

// All returns a copy of the findings, oldest first.
func (d *List) All() []meta.Damage {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]meta.Damage(nil), d.list...)
}

// Names reports whether a finding, open or not, is about file.
func (d *List) Names(file string) bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.list, func(x meta.Damage) bool { return x.File == file })
}

// Open returns how many findings are open, and how many of those have lost records that
// cannot be named.
func (d *List) Open() (open, unknown int) {
	if d == nil {
		return 0, 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.list {
		if x.State == meta.DamageOpen {
			open++
		}
		if x.Unknown() {
			unknown++
		}
	}
	return open, unknown
}

// Update calls change for each finding; change may modify the finding and reports whether it
// did. Update then writes the file. It returns how many findings changed, and an error when
// the file could not be written. change must not call methods of d.
func (d *List) Update(change func(*meta.Damage) bool) (n int, err error) {
	if d == nil {
		return 0, nil
	}
	var ended []meta.Damage
	d.mu.Lock()
	for i := range d.list {
		x := &d.list[i]
		was := x.State
		if !change(x) { //lockcheck:ignore it edits the finding, and must not call methods of d
			continue
		}
		n++
		d.dirty = true
		if x.State != was {
			x.Ended = d.Now().UTC().Truncate(time.Second)
			ended = append(ended, *x)
		}
	}
	d.mu.Unlock()
	for _, x := range ended {
		d.Count.countEnded(x.State)
		d.log.Info("damage of the store is no longer open", "kind", x.Kind, "state", x.State, "file", x.File, "offset",
			x.Offset)
	}
	return n, d.write()
}

// Accept ends all open findings and returns them. An operator calls it to accept the loss.
func (d *List) Accept() (accepted []meta.Damage, err error) {
	_, err = d.Update(func(x *meta.Damage) bool {
		if x.State != meta.DamageOpen {
			return false
		}
		x.State, x.Ended = meta.DamageAccepted, d.Now().UTC().Truncate(time.Second)
		accepted = append(accepted, *x)
		return true
	})
	return accepted, err
}

// write writes the list's file unless the file has all changes. It logs a failure.
func (d *List) write() error {
	d.save.Lock()
	defer d.save.Unlock()
	d.mu.Lock()
	list, dirty := append([]meta.Damage(nil), d.list...), d.dirty
	d.dirty = false
	d.mu.Unlock()
	if !dirty {
		return nil
	}
	err := d.replace(list)
	if err != nil {
		d.mu.Lock()
		d.dirty = true
		d.mu.Unlock()
		d.log.Warn("cannot write the list of damage; new findings are only in memory", "err", err)
	}
	return err
}

// replace replaces the list's file, durably.
func (d *List) replace(list []meta.Damage) error {
	var p []byte
	for _, x := range list {
		line, err := encodeDamage(x)
		if err != nil {
			return status.Errorf(status.Internal, "encode the list of damage: %w", err)
		}
		p = append(p, line...)
	}
	return fsys.ReplaceFile(d.fs, d.dir, FileList, p)
}

// SegmentMissing is the reason of a finding that ends when the segment is fetched from the
// bucket. A segment with records that the index lacks is an exception: its finding stays
// open, as those records are not read again.
const SegmentMissing = "a segment is missing"
