package files

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
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// The bounds of one sorter. It sorts a small record of each entry; the contents of
// files are in the store already.
const (
	maxSortRAM    = 4 << 20 // bytes of records in RAM; more are written to disk
	maxSpoolBytes = 1 << 30 // bytes of records on disk; an archive that needs more is refused with body_cap
	recordCost    = 160     // bytes of RAM for a record without its strings
)

// record describes an entry of an archive whose content is in the store.
type record struct {
	key        string // the path with NUL for each slash: keys sort in the order of Items
	seq        uint64 // position in the archive; of several records with one key the last counts
	rawHash    uint64 // hash of the path before it was normalised; 0 when that did not change it
	kind       manifest.EntryKind
	executable bool
	reused     bool
	isNew      bool
	root       b3.Root
	size       int64
	target     string
}

// cost returns the bytes of RAM that r takes.
func (r *record) cost() int { return recordCost + len(r.key) + len(r.target) }

// compare orders records by key, then by position.
func (r *record) compare(o *record) int {
	return cmp.Or(strings.Compare(r.key, o.key), cmp.Compare(r.seq, o.seq))
}

// sorter sorts the entries of an archive into the order of Items. It sorts runs of
// maxSortRAM bytes, writes them to an unnamed file, and merges them. Of several
// entries with one path the last counts. It adds the directories that the archive
// does not name. One goroutine uses it. Pair newSorter with close.
type sorter struct {
	dir   string
	notes *addNotes
	skip  bool // skip one of two entries whose names become equal when normalised

	ram  []record
	used int // bytes of RAM of the records in ram
	seq  uint64
	file *os.File
	runs []int64 // the end of each run in file
}

func newSorter(dir string, notes *addNotes, onBad api.OnBadEntry) *sorter {
	return &sorter{dir: dir, notes: notes, skip: onBad == api.SkipBadEntries}
}

func (s *sorter) close() {
	if s.file != nil {
		_ = s.file.Close() // the file has no name, so closing removes it
	}
}

// add takes an item that is stored and has a clean path.
func (s *sorter) add(_ context.Context, a *pipelineItem) error {
	s.seq++
	r := record{
		key: strings.ReplaceAll(a.Path, "/", "\x00"), seq: s.seq, rawHash: a.rawHash,
		kind: a.Kind, executable: a.Executable, target: a.Target,
		root: a.object.Root, size: a.object.Size, isNew: a.object.New, reused: a.reused,
	}
	s.ram = append(s.ram, r)
	if s.used += r.cost(); s.used < maxSortRAM {
		return nil
	}
	return s.spill()
}

// spill writes the records in RAM to the file as a sorted run.
func (s *sorter) spill() error {
	if s.dir == "" {
		return status.Errorf(status.BodyCap,
			"the archive has too many entries (%d) to sort in RAM, and this node writes nothing to disk. "+
				"Add it with `allium add`, or in parts", s.seq)
	}
	if s.file == nil {
		f, err := unnamedFile(s.dir, "sort-*")
		if err != nil {
			return err
		}
		s.file = f
	}
	slices.SortFunc(s.ram, func(a, b record) int { return a.compare(&b) })
	var buf bytes.Buffer // the encoded run, smaller than the records
	for i := range s.ram {
		s.ram[i].encode(&buf)
	}
	end := int64(0)
	if len(s.runs) > 0 {
		end = s.runs[len(s.runs)-1]
	}
	if end+int64(buf.Len()) > maxSpoolBytes {
		return status.Errorf(status.BodyCap,
			"the archive has too many entries: sorting %d of them takes more than %d bytes of disk. Add it in parts",
			s.seq, int64(maxSpoolBytes))
	}
	if _, err := s.file.WriteAt(buf.Bytes(), end); err != nil {
		return spoolError("sort the entries of an archive", err)
	}
	s.runs = append(s.runs, end+int64(buf.Len()))
	clear(s.ram)
	s.ram, s.used = s.ram[:0], 0
	return nil
}

// each calls use for every entry in the order of Items, once for each path. An entry
// below a path that is not a directory is bad_request.
func (s *sorter) each(ctx context.Context, use func(context.Context, *pipelineItem) error) error {
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

// choose returns which of two entries with one path counts. It is b, the later one,
// when both paths were equal before they were normalised. Otherwise one of them is a
// bad entry: the add fails, or skips it and uses the entry that had the name before.
// Two directories become one.
func (s *sorter) choose(a, b *record) (*record, error) {
	if a.rawHash == b.rawHash || s.skip && a.kind == manifest.Directory && b.kind == manifest.Directory {
		return b, nil
	}
	s.notes.skipped(strings.ReplaceAll(b.key, "\x00", "/"), oneName)
	if !s.skip {
		return nil, s.notes.refusal(true)
	}
	if a.rawHash == 0 {
		return a, nil
	}
	return b, nil
}

// ordering passes sorted records to use, and adds the directories that are missing.
type ordering struct {
	use  func(context.Context, *pipelineItem) error
	path []string // the elements of the last entry's path
	kind manifest.EntryKind
}

// record passes one record to use, after the directories above it.
func (o *ordering) record(ctx context.Context, r *record) error {
	names := strings.Split(r.key, "\x00")
	same := 0
	for same < len(o.path) && same < len(names) && o.path[same] == names[same] {
		same++
	}
	if same == len(o.path) && same > 0 && o.kind != manifest.Directory {
		return status.Errorf(status.BadRequest,
			"the archive has %q as a %s and as a directory", strings.Join(o.path, "/"), o.kind)
	}
	for n := same + 1; n < len(names); n++ {
		dir := storedItem(Item{Path: strings.Join(names[:n], "/"), Kind: manifest.Directory})
		if err := o.use(ctx, dir); err != nil {
			return err
		}
	}
	o.path, o.kind = names, r.kind
	a := storedItem(Item{Path: strings.Join(names, "/"), Kind: r.kind, Executable: r.executable, Target: r.target})
	a.object, a.reused = Object{Root: r.root, Size: r.size, New: r.isNew}, r.reused
	return o.use(ctx, a)
}

// storedItem returns an item that needs no storing.
func storedItem(it Item) *pipelineItem { return &pipelineItem{Item: it} }

// mergeRun is a sorted sequence of records, in the file or in RAM.
type mergeRun struct {
	r   *bufio.Reader // nil: the run is ram
	ram []record      // the records after now
	now *record       // nil at the end
}

// advance sets now to the next record.
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
		return fmt.Errorf("sort the entries of an archive: %w", err)
	}
	m.now = r
	return nil
}

// merge is a heap of runs, ordered by their current records.
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

// begin reads the first record of each run.
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

// next returns the smallest record that is left, or nil at the end.
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

// encode appends r to w. Only this process reads it again.
func (r *record) encode(w *bytes.Buffer) {
	var b []byte
	flags := bit(r.executable) | bit(r.reused)<<1 | bit(r.isNew)<<2
	for _, n := range []uint64{
		r.seq, r.rawHash, uint64(r.kind), flags, uint64(r.size), uint64(len(r.key)), uint64(len(r.target)),
	} {
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
		seq: n[0], rawHash: n[1], kind: manifest.EntryKind(n[2]), size: int64(n[4]),
		executable: n[3]&1 != 0, reused: n[3]&2 != 0, isNew: n[3]&4 != 0,
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
