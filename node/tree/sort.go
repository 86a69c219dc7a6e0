package tree

import (
	"bufio"
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// The bounds of one sorter, of the records that it keeps of entries: their
// contents are in the store already.
const (
	sortRAM   = 4 << 20 // in RAM; what is more goes to disk
	sortSpool = 1 << 30 // on disk; a tar that needs more is body_cap
	sortCost  = 160     // RAM of a record beside its strings
	sortPlace = 16      // sorters at a time, and as many that wait
)

// TarAdder adds tars that any program made. Its methods are safe for concurrent
// use; a bounded number of tars is sorted at a time.
type TarAdder struct {
	places   *limits.Gate
	spoolDir string
}

// NewTarAdder returns an adder that keeps what does not fit in RAM of a tar's
// entries in an unnamed file in spoolDir, nowhere when that is "". registry may be
// nil.
func NewTarAdder(spoolDir string, registry *limits.Registry) *TarAdder {
	return &TarAdder{spoolDir: spoolDir, places: registry.NewGate(limits.Spec{
		Name: "add.sorts", Path: "tars in any order → trees", Policy: "as many wait, the rest are refused with busy",
	}, sortPlace, sortPlace)}
}

// Add is [Add] of a tar whose entries come in any order. The first tree that each
// is told of carries what was left out of all.
func (t *TarAdder) Add(ctx context.Context, st Store, tar io.Reader, onBad api.OnBadEntry, progress api.ProgressFunc, each func(context.Context, api.Added) error) error {
	done, err := t.places.Acquire(ctx)
	if err != nil {
		return err
	}
	defer done()
	var notes addNotes
	sorter := newSorter(t.spoolDir, &notes, onBad)
	defer sorter.close()
	some := false
	err = add(ctx, st, anyTarItems(tar, &notes, onBad), sorter, progress, func(ctx context.Context, added api.Added) error {
		added.Notes, notes = notes.get(), addNotes{} // all was read before the first is there
		some = true
		return each(ctx, added)
	})
	if err == nil && !some {
		err = notes.refusal(false) // there is nothing else
	}
	return err
}

// record is an entry whose content is in the store.
type record struct {
	key        string // path with NUL for each slash: the order of keys is that of Items
	seq        uint64 // the last of several with one key counts
	was        uint64 // hash of the path as it was before it was normalised; 0 when that is the key's
	kind       manifest.EntryKind
	executable bool
	reused     bool
	isNew      bool
	root       b3.Root
	size       int64
	target     string
}

func (r *record) cost() int { return sortCost + len(r.key) + len(r.target) }

func (r *record) compare(o *record) int {
	return cmp.Or(strings.Compare(r.key, o.key), cmp.Compare(r.seq, o.seq))
}

// sorter brings the entries of trees that come in any order into that of
// Items: runs of sortRAM bytes are sorted and written to a file without a name,
// then merged. Of entries with one path the last counts; directories that no
// entry names are made. One goroutine uses it. Pair newSorter with close.
type sorter struct {
	dir   string
	notes *addNotes
	skip  bool // of two names that became one, one is left out

	ram  []record
	used int // RAM of them
	seq  uint64
	file *os.File
	runs []int64 // ends in file
}

func newSorter(dir string, notes *addNotes, onBad api.OnBadEntry) *sorter {
	return &sorter{dir: dir, notes: notes, skip: onBad == api.SkipBadEntries}
}

func (s *sorter) close() {
	if s.file != nil {
		_ = s.file.Close() // it has no name: that removes it
	}
}

// add takes an item whose content is stored. Its path is clean.
func (s *sorter) add(_ context.Context, a *adding) error {
	s.seq++
	r := record{
		key: strings.ReplaceAll(a.Path, "/", "\x00"), seq: s.seq, kind: a.Kind, executable: a.Executable, reused: a.reused,
		isNew: a.object.New, root: a.object.Root, size: a.object.Size, target: a.Target, was: a.was,
	}
	s.ram = append(s.ram, r)
	if s.used += r.cost(); s.used < sortRAM {
		return nil
	}
	return s.spill()
}

// spill writes what is in RAM as a sorted run.
func (s *sorter) spill() error {
	if s.dir == "" {
		return status.Errorf(status.BodyCap, "a tar with so many entries (%d) cannot be sorted in RAM, and this node keeps nothing on disk; add it with `allium add`, or in parts", s.seq)
	}
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "sort-*")
		if err != nil {
			return spoolError(err)
		}
		s.file = f
		if err := os.Remove(f.Name()); err != nil {
			return spoolError(err)
		}
	}
	slices.SortFunc(s.ram, func(a, b record) int { return a.compare(&b) })
	var buf bytes.Buffer // of the run, smaller than what it comes from
	for i := range s.ram {
		s.ram[i].encode(&buf)
	}
	end := int64(0)
	if len(s.runs) > 0 {
		end = s.runs[len(s.runs)-1]
	}
	if end+int64(buf.Len()) > sortSpool {
		return status.Errorf(status.BodyCap, "the tar has too many entries: what is to be sorted of %d has more than %d bytes; add it in parts", s.seq, int64(sortSpool))
	}
	if _, err := s.file.WriteAt(buf.Bytes(), end); err != nil {
		return spoolError(err)
	}
	s.runs = append(s.runs, end+int64(buf.Len()))
	clear(s.ram)
	s.ram, s.used = s.ram[:0], 0
	return nil
}

func spoolError(err error) error {
	if e := status.FromSystem("sort the entries of a tar", err); e != nil {
		return e
	}
	return status.Errorf(status.NotReady, "sort the entries of a tar: %w; check the disk", err)
}

// each calls use for every entry in order, each path once and after its
// directory. An entry below one that is no directory is bad_request.
func (s *sorter) each(ctx context.Context, use func(context.Context, *adding) error) error {
	slices.SortFunc(s.ram, func(a, b record) int { return a.compare(&b) })
	m := merge{}
	from := int64(0)
	for _, end := range s.runs {
		m = append(m, &mergeRun{r: bufio.NewReaderSize(io.NewSectionReader(s.file, from, end-from), 16<<10)})
		from = end
	}
	m = append(m, &mergeRun{ram: s.ram})
	if err := m.begin(); err != nil {
		return err
	}
	o := ordering{use: use}
	var last *record
	for {
		r, err := m.next()
		if err != nil {
			return err
		}
		if last != nil && r != nil && r.key == last.key {
			if last, err = s.choose(last, r); err != nil {
				return err
			}
			continue
		}
		if last != nil {
			if err := o.record(ctx, last); err != nil {
				return err
			}
		}
		if last = r; r == nil {
			return nil
		}
	}
}

// choose returns which of two entries with one path counts: the later one. Where
// the path was not the same before it was normalised, that is a bad entry, and
// the one that had the name counts. Directories become one.
func (s *sorter) choose(a, b *record) (*record, error) {
	if a.was == b.was || s.skip && a.kind == manifest.Directory && b.kind == manifest.Directory {
		return b, nil
	}
	s.notes.skipped(strings.ReplaceAll(b.key, "\x00", "/"), oneName)
	if !s.skip {
		return nil, s.notes.refusal(true)
	}
	if a.was == 0 {
		return a, nil
	}
	return b, nil
}

// ordering makes the directories that are missing.
type ordering struct {
	use  func(context.Context, *adding) error
	path []string // names of the last entry's path
	kind manifest.EntryKind
}

func (o *ordering) record(ctx context.Context, r *record) error {
	names := strings.Split(r.key, "\x00")
	same := 0
	for same < len(o.path) && same < len(names) && o.path[same] == names[same] {
		same++
	}
	if same == len(o.path) && same > 0 && o.kind != manifest.Directory {
		return status.Errorf(status.BadRequest, "the tar has %q as a %s and as a directory", strings.Join(o.path, "/"), o.kind)
	}
	for n := same + 1; n < len(names); n++ {
		if err := o.use(ctx, storedItem(Item{Path: strings.Join(names[:n], "/"), Kind: manifest.Directory})); err != nil {
			return err
		}
	}
	o.path, o.kind = names, r.kind
	a := storedItem(Item{Path: strings.Join(names, "/"), Kind: r.kind, Executable: r.executable, Target: r.target})
	a.object, a.reused = Object{Root: r.root, Size: r.size, New: r.isNew}, r.reused
	return o.use(ctx, a)
}

// storedItem is an item of which nothing is left to be stored.
func storedItem(it Item) *adding { return &adding{Item: it} }

// mergeRun is one sorted sequence of records.
type mergeRun struct {
	r   *bufio.Reader // or
	ram []record
	now *record // nil at the end
}

func (m *mergeRun) advance() error {
	m.now = nil
	if m.r == nil {
		if len(m.ram) > 0 {
			m.now, m.ram = &m.ram[0], m.ram[1:]
		}
		return nil
	}
	if _, err := m.r.Peek(1); errors.Is(err, io.EOF) {
		return nil
	}
	r, err := decodeRecord(m.r)
	if err != nil {
		return fmt.Errorf("sort the entries of a tar: %w", err)
	}
	m.now = r
	return nil
}

// merge is a heap of runs by their first records.
type merge []*mergeRun

func (m merge) Len() int           { return len(m) }
func (m merge) Less(i, j int) bool { return m[i].now.compare(m[j].now) < 0 }
func (m merge) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }

// Push and Pop implement heap.Interface.
func (m *merge) Push(x any) { *m = append(*m, x.(*mergeRun)) }

// Pop removes the last run.
func (m *merge) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}

func (m *merge) begin() error {
	all := (*m)[:0]
	for _, r := range *m {
		if err := r.advance(); err != nil {
			return err
		}
		if r.now != nil {
			all = append(all, r)
		}
	}
	*m = all
	heap.Init(m)
	return nil
}

// next returns the first record of all, nil at the end.
func (m *merge) next() (*record, error) {
	if len(*m) == 0 {
		return nil, nil
	}
	run := (*m)[0]
	r := run.now
	if err := run.advance(); err != nil {
		return nil, err
	}
	if run.now == nil {
		heap.Pop(m)
	} else {
		heap.Fix(m, 0)
	}
	return r, nil
}

// encode appends r as this process reads it back.
func (r *record) encode(w *bytes.Buffer) {
	var b []byte
	for _, n := range []uint64{r.seq, r.was, uint64(r.kind), bit(r.executable) | bit(r.reused)<<1 | bit(r.isNew)<<2, uint64(r.size), uint64(len(r.key)), uint64(len(r.target))} {
		b = binary.AppendUvarint(b, n)
	}
	w.Write(b)
	w.Write(r.root[:])
	w.WriteString(r.key)
	w.WriteString(r.target)
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// decodeRecord reads what encode wrote.
func decodeRecord(in *bufio.Reader) (*record, error) {
	var n [7]uint64
	for i := range n {
		var err error
		if n[i], err = binary.ReadUvarint(in); err != nil {
			return nil, err
		}
	}
	r := &record{
		seq: n[0], was: n[1], kind: manifest.EntryKind(n[2]), executable: n[3]&1 != 0, reused: n[3]&2 != 0, isNew: n[3]&4 != 0, size: int64(n[4]),
	}
	text := make([]byte, n[5]+n[6])
	if _, err := io.ReadFull(in, r.root[:]); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(in, text); err != nil {
		return nil, err
	}
	r.key, r.target = string(text[:n[5]]), string(text[n[5]:])
	return r, nil
}
