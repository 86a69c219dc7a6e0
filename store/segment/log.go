package segment

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"allium/store/segment/record"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/store/damage"
	"allium/store/fsys"
	"allium/store/index"
	"allium/store/meta"
)

// Bucket is what the log asks and tells of a bucket that has the bytes of
// large objects, and copies of the segments.
type Bucket interface {
	// Remove adds to b that the bytes of root, which the log removes, are to be
	// deleted in the bucket.
	Remove(b *index.Batch, root b3.Root) error
	// HasSegment reports whether something of a segment is in the bucket.
	HasSegment(num uint64) (bool, error)
}

// Options say what a log works on. All but Bucket and Recovered must be set.
type Options struct {
	FS     vfs.FS
	Dir    string // of the store
	Log    *slog.Logger
	Clock  *meta.Clock
	Index  *index.Index
	Totals *meta.Totals
	Damage *damage.List
	Bucket Bucket // nil: large objects are files

	Space    func(need int64) error  // no_space when the disk is about to be full
	SetAside func(name string) error // moves a file to quarantine/

	Batches *limits.Budget // bytes of small objects, of two batches
	Changes *limits.Budget // bytes of everything else, likewise
	Batch   int            // most bytes of a batch: half of the budget, as one fills while one is written

	SegmentBytes int64 // at which a segment is closed
	OpenFiles    int   // segments that are kept open for reading
	ZeroAhead    int64 // most bytes of zeros ahead of the end; 0 turns it off

	Recovered *atomic.Int64 // grows by one for each record and object that a recovery looks at
}

// Log is the log of everything that happened to the store, and holds the bytes of
// small objects. One writer takes what is queued, writes it, syncs the segment and
// enters it in the index.
type Log struct {
	*queue
	dir

	logger *slog.Logger
	clock  *meta.Clock
	index  *index.Index
	space  func(need int64) error // no_space when the disk is about to be full
	size   int64                  // at which a segment is closed
	bucket Bucket                 // nil: large objects are files

	use   usage
	files handles
	room  spares
	tidy  chan struct{} // tells the compactor to look

	damage    *damage.List
	gone      uint64                  // the number of the last removal of a large object
	setAside  func(name string) error // moves a file to quarantine
	end       endFile                 // of the writer, but while the store opens
	recovered *atomic.Int64           // records that opening has read
	undone    []*change               // removals of what a crash cut, to be written before there is a writer
	hurt      numbers                 // segments of which the index needs what may be gone

	// The writer's own.
	log      tail
	before   index.Position // where the log ends while no segment is written
	number   uint64         // of the last batch
	nextSeg  uint64
	unsynced int64 // bytes of segments since the index was last synced
	scratch  record.Builder
	zeros    zeroer
}

// indexSyncBytes bounds what a crash makes us replay.
const indexSyncBytes = 64 << 20

// New returns a log, which Recover brings up to what is on disk.
func New(o Options) *Log {
	return &Log{
		dir: dir{fs: o.FS, root: o.FS.PathJoin(o.Dir, fsys.DirSegments)}, logger: o.Log, clock: o.Clock, index: o.Index, queue: newQueue(o),
		space: o.Space, size: o.SegmentBytes, bucket: o.Bucket, tidy: make(chan struct{}, 1), // bound: one kick
		files: handles{most: o.OpenFiles}, zeros: zeroer{most: o.ZeroAhead},
		damage: o.Damage, setAside: o.SetAside, recovered: o.Recovered,
	}
}

// Resume takes over what summary returned before an orderly close.
func (s *Log) Resume(summary []byte) error {
	use, err := decodeTotals(summary, s.count)
	if err == nil {
		s.use.reset(use)
	}
	return err
}

// Summary returns what the next start needs not count; ok is false when it has to,
// as a batch that failed may stand behind the watermark. There is no writer any
// more.
func (s *Log) Summary() (v []byte, ok bool) {
	return encodeTotals(s.count, s.use.snapshot()), !s.stalled
}

// Recount counts what is in the index, and finds what each segment holds of it.
// The tombstones of earlier are not found again: they count for nothing until
// they are moved.
func (s *Log) Recount() error {
	segs, err := s.sizes()
	if err != nil {
		return err
	}
	add := func(seg uint64, n int64) {
		if u, ok := segs[seg]; ok {
			u.live += n
			segs[seg] = u
		}
	}
	err = s.index.Entries(b3.Root{}, func(e meta.Entry) bool {
		s.recovered.Add(1)
		s.count.Add(e)
		add(e.Seg, record.SizeOf(e))
		return true
	})
	if err != nil {
		return err
	}
	err = s.index.Pins(b3.Root{}, "", func(p meta.Pin, seg uint64) bool {
		add(seg, record.PinSize(p.Label))
		return true
	})
	s.use.reset(segs)
	return err
}

// Finish ends the opening of the log, before there is a writer: it marks in the
// log what a crash cut, and gives a store of format 1 a record for every large
// object and every pin, so that the log alone tells what is there.
func (s *Log) Finish() error {
	if n := len(s.undone); n > 0 {
		if err := s.direct(s.undone); err != nil {
			s.logger.Warn("what a crash cut could not be marked in the log; a new index would list it as damaged", "records", n, "err", err)
		}
	}
	nudge(s.tidy)
	if whole, err := s.index.Whole(); whole || err != nil {
		return err
	}
	m := &mover{write: s.direct, most: moveBatch / 2}
	err := s.index.EachEntry(func(e meta.Entry) error {
		if meta.Small(e.Size) || e.Seg != 0 {
			return nil
		}
		return m.add(&change{kind: moveFile, e: e})
	})
	if err == nil {
		err = s.index.EachPin(func(p meta.Pin, seg uint64) error {
			if seg != 0 {
				return nil
			}
			return m.add(&change{kind: movePin, pin: p})
		})
	}
	if err == nil {
		err = m.flush()
	}
	if err != nil {
		return fmt.Errorf("bring the store to format %d: %w", record.Version, err)
	}
	return s.index.SetWhole(true)
}

// Segments returns the segments that the log consists of, with the end of the last
// record of each where that is known.
func (s *Log) Segments() map[uint64]int64 { return s.use.logSet() }

// Shed closes the segments that are open for reading and that nobody reads right
// now, and returns how many.
func (s *Log) Shed() int { return s.files.shed() }

// Usage is what a log takes on the disk.
type Usage struct {
	Segments   int   // of the log
	Bytes      int64 // of their files, and of spare ones
	LiveBytes  int64 // of records that are needed
	Spares     int   // files that are kept to become segments
	SpareBytes int64 // of those
}

// Usage returns what the log takes.
func (s *Log) Usage() Usage { return s.use.tell() }

// CheckUse compares what is counted of segments with what the index needs of each.
// Nothing goes on meanwhile. It is for tests.
func (s *Log) CheckUse() error {
	live := map[uint64]int64{}
	err := s.index.EachEntry(func(e meta.Entry) error { live[e.Seg] += record.SizeOf(e); return nil })
	if err == nil {
		err = s.index.EachPin(func(p meta.Pin, seg uint64) error { live[seg] += record.PinSize(p.Label); return nil })
	}
	if err != nil {
		return err
	}
	segs, sum := s.use.snapshot(), int64(0)
	for num, u := range segs {
		if u.live != live[num] {
			return fmt.Errorf("segment %s: %d bytes are counted as live, the index needs %d", record.FileName(num), u.live, live[num])
		}
		sum += u.live + u.tombs
		delete(live, num)
	}
	if told := s.Usage(); len(live) > 0 || told.Segments != len(segs) || told.LiveBytes != sum {
		return fmt.Errorf("the index names segments that are not counted: %v; told is %+v of %d segments with %d bytes", live, told, len(segs), sum)
	}
	return nil
}
