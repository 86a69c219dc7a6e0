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
	"allium/store/fsys"
	"allium/store/meta"
)

// maxDamage bounds the list of damage. Where it is full, entries that are not
// open make room; open ones beyond it are counted in the last one.
const maxDamage = 4096

// FileList is the list on disk: a line of JSON each, behind the CRC-32C of
// it in 8 hex digits. It is rewritten whole, by rename.
const FileList = "DAMAGE"

// List is the list of damage of one store. It outlives restarts, so that
// nobody needs to have read the log. A nil list takes nothing and has nothing.
type List struct {
	fs    vfs.FS
	dir   string
	log   *slog.Logger
	Now   func() time.Time // the time of findings
	Count *recoveryCounters
	save  sync.Mutex // held while the file is written; taken before mu

	mu    sync.Mutex
	list  []meta.Damage
	dirty bool // the file is behind the list
}

// NewList returns the list of the store in dir, which Load reads.
func NewList(f vfs.FS, dir string, log *slog.Logger, now func() time.Time) *List {
	return &List{fs: f, dir: dir, log: log, Now: now, Count: newRecoveryCounters()}
}

// Load reads the list. Lines that do not parse are damage themselves.
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
		d.Add(meta.Damage{Kind: meta.DamageFormat, State: meta.DamageOpen, File: FileList, Offset: d.Now().UnixNano(), Length: int64(bad), Left: 1,
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
		return errors.New("a line is cut")
	}
	if _, err := fmt.Sscanf(string(line[:9]), "%08x ", &sum); err != nil || crc32.Checksum(line[9:], meta.Castagnoli) != sum {
		return errors.New("a line has another checksum")
	}
	return json.Unmarshal(line[9:], x)
}

// Add notes damage, tells the log, and writes the list. What is noted already
// is not told again. A list that cannot be written is written with the next
// entry: the damage is found again by the next start.
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
	d.Count.noted(x.Kind)
	tell := d.log.Error
	if x.State != meta.DamageOpen {
		tell = d.log.Warn
	}
	tell("the store is damaged", "kind", x.Kind, "state", x.State, "file", x.File, "offset", x.Offset,
		"length", x.Length, "roots", x.Roots, "reason", x.Reason)
	_ = d.write() // it was logged, and is tried again with the next entry
}

// insert reports whether x is new.
func (d *List) insert(x meta.Damage) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, o := range d.list {
		if !o.Same(x) {
			continue
		}
		again := o.State == meta.DamageRepaired && x.State == meta.DamageOpen && x.Reason == SegmentMissing
		if again { // it was back since
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

// All returns a copy of the list, oldest first.
func (d *List) All() []meta.Damage {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]meta.Damage(nil), d.list...)
}

// Names reports whether an entry, open or not, is of that file.
func (d *List) Names(file string) bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.list, func(x meta.Damage) bool { return x.File == file })
}

// Open reports how much damage is open, and of how much nobody knows what was
// lost.
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

// Update changes entries: change reports whether it changed one. It returns how
// many were changed, when the list is on disk.
func (d *List) Update(change func(*meta.Damage) bool) (n int, err error) {
	if d == nil {
		return 0, nil
	}
	var ended []meta.Damage
	d.mu.Lock()
	for i := range d.list {
		x := &d.list[i]
		was := x.State
		if !change(x) {
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
		d.Count.ended(x.State)
		d.log.Info("damage of the store is no longer open", "kind", x.Kind, "state", x.State, "file", x.File, "offset", x.Offset)
	}
	return n, d.write()
}

// Accept ends all that is open, and returns it: whoever runs the store says that
// what is lost is lost.
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

// write puts the list on disk, unless it is there.
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
		d.log.Warn("the list of damage cannot be written; it is in memory alone", "err", err)
	}
	return err
}

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

// SegmentMissing is the reason of damage that ends when the segment is back. Of one
// with records that the index does not know it stays open: they are not read again.
const SegmentMissing = "a segment is missing"
