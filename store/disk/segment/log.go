package segment

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"allium/store/disk/segment/codec"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/store/disk/damage"
	"allium/store/disk/fsys"
	"allium/store/disk/tables"
	"allium/store/meta"
)

// Bucket is the bucket that holds the bytes of large objects and copies of the segments.
// The log tells it of removals.
type Bucket interface {
	// Remove adds to b that the bucket's copy of root is to be deleted, as the log removes
	// root.
	Remove(b *tables.Batch, root b3.Root) error
	// HasSegment reports whether the bucket has any part of segment num.
	HasSegment(num uint64) (bool, error)
}

// Options configure a log. All fields but Bucket and Recovered must be set.
type Options struct {
	FS     vfs.FS
	Dir    string // the store's directory
	Log    *slog.Logger
	Clock  *meta.Clock
	Index  *tables.Index
	Totals *meta.Totals
	Damage *damage.List
	Bucket Bucket // nil when large objects are files on disk

	CheckSpace func(need int64) error  // fails with no_space when need bytes do not fit the disk
	Quarantine func(name string) error // moves a file to quarantine/

	ObjectBudget *limits.Budget // bounds the bytes of waiting small objects; two batches fit
	ChangeBudget *limits.Budget // bounds the bytes of waiting changes; two batches fit
	MaxBatch     int            // largest batch in bytes: half a budget, as one fills while another is written

	SegmentBytes int64 // size at which a segment is closed
	OpenFiles    int   // most segments that are kept open for reading
	MaxZeroAhead int64 // most bytes of zeros written ahead of the log's end; 0 turns them off

	Recovered *atomic.Int64 // incremented for each record and object that opening reads
}

// Log is the write-ahead log of the store, which holds the bytes of small objects. Its
// methods are safe for concurrent use after the opening: New, Recover, RestoreTotals or
// Recount, FinishOpen, then Serve in a goroutine. Close ends it after Serve has returned.
type Log struct {
	*queue
	operations
	segmentDir

	logger     *slog.Logger
	clock      *meta.Clock
	index      *tables.Index
	checkSpace func(need int64) error // fails with no_space when need bytes do not fit the disk
	bucket     Bucket                 // nil when large objects are files on disk

	usage         usageTable
	files         openFiles
	spares        spares
	wakeCompactor chan struct{}

	damage      *damage.List
	lastRemoval uint64                  // number of the last removal of a large object
	quarantine  func(name string) error // moves a file to quarantine/
	tailFile    tailWriter              // used by the writer, and while the store opens
	recovered   *atomic.Int64           // records and objects that opening has read
	repairs     []*change               // removals of what a crash cut, to be written by FinishOpen
	damaged     numberSet               // segments that lost something the index may need

	// Only the writer uses these, after the log is open.
	active      activeSegment
	lastEnd     tables.Position // where the log ends while no segment is active
	batchNumber uint64          // of the last batch
	nextSeg     uint64          // number of the next segment
	unsynced    int64           // bytes written since the index was last synced
	scratch     codec.Builder   // memory for the records of changes
	zeros       zeroer
}

// indexSyncBytes is the number of bytes of log that are written between two syncs of the index. It
// bounds the replay after a crash.
const indexSyncBytes = 64 << 20

// New returns a log. Recover brings its index up to what is on disk.
func New(o Options) *Log {
	dir := segmentDir{fs: o.FS, root: o.FS.PathJoin(o.Dir, fsys.DirSegments), segmentBytes: o.SegmentBytes}
	q := newQueue(o)
	return &Log{
		segmentDir: dir, queue: q, operations: operations{q}, logger: o.Log, clock: o.Clock, index: o.Index,
		checkSpace: o.CheckSpace, bucket: o.Bucket,
		wakeCompactor: make(chan struct{}, 1), // one pending signal is enough
		files:         openFiles{max: o.OpenFiles}, zeros: zeroer{maxAhead: o.MaxZeroAhead},
		spares: spares{segmentDir: dir, logger: o.Log},
		damage: o.Damage, quarantine: o.Quarantine, recovered: o.Recovered,
	}
}

// RestoreTotals sets the totals and the usage of segments from what EncodeTotals returned
// before an orderly close. It saves the Recount.
func (s *Log) RestoreTotals(encoded []byte) error {
	use, err := decodeTotals(encoded, s.objects.totals)
	if err == nil {
		s.usage.reset(use)
	}
	return err
}

// EncodeTotals encodes the totals and the usage of segments for the next start. ok is false
// when the next start has to count, as a failed batch may stand behind the watermark. The
// writer must have returned.
func (s *Log) EncodeTotals() (encoded []byte, ok bool) {
	return encodeTotals(s.objects.totals, s.usage.snapshot()), !s.objects.stalled
}

// Recount counts the objects of the index and the live bytes of each segment. It does not
// find the tombstones of earlier runs: they count as garbage until they are copied.
func (s *Log) Recount() error {
	nums, err := s.List()
	if err != nil {
		return err
	}
	set, _, err := s.index.Segments()
	if err != nil {
		return err
	}
	live, err := s.liveBytes(func(e meta.Entry) { s.recovered.Add(1); s.objects.totals.Add(e) })
	if err != nil {
		return err
	}
	segs := map[uint64]segmentUsage{}
	for num, end := range set { // also a segment whose file is missing
		segs[num] = segmentUsage{end: end, live: live[num]}
	}
	for _, num := range nums {
		info, err := s.fs.Stat(s.path(num))
		if err != nil {
			return meta.ReadError(err)
		}
		segs[num] = segmentUsage{size: info.Size(), end: set[num], live: live[num]}
	}
	s.usage.reset(segs)
	return nil
}

// liveBytes returns the size of the records of each segment that the index needs. It calls
// use with every object.
func (s *Log) liveBytes(use func(meta.Entry)) (live map[uint64]int64, err error) {
	live = map[uint64]int64{}
	err = s.index.Entries(b3.Root{}, func(e meta.Entry) bool {
		use(e)
		live[e.Seg] += codec.EntrySize(e)
		return true
	})
	if err != nil {
		return nil, err
	}
	return live, s.index.EachPin(func(p meta.Pin, seg uint64) error {
		live[seg] += codec.PinSize(p)
		return nil
	})
}

// FinishOpen ends the opening of the log, before Serve starts. It records the removals of
// what a crash cut. It also writes a record for every large object and pin of a format 1
// store, so that the log alone is enough to rebuild the index.
func (s *Log) FinishOpen() error {
	if n := len(s.repairs); n > 0 {
		if err := s.commitDirectly(s.repairs); err != nil {
			s.logger.Warn("cannot record what the crash cut off; a rebuilt index would list it as damaged",
				"records", n, "err", err)
		}
	}
	signal(s.wakeCompactor)
	if whole, err := s.index.LogComplete.Has(); whole || err != nil {
		return err
	}
	m := &mover{submit: s.commitDirectly, maxBytes: moveBatch / 2}
	err := s.index.EachEntry(func(e meta.Entry) error {
		if meta.Small(e.Size) || e.Seg != 0 {
			return nil
		}
		return m.add(&change{kind: moveFile, entry: e})
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
		return fmt.Errorf("bring the store to format %d: %w", codec.Version, err)
	}
	return s.index.LogComplete.Set(nil, true)
}

// Segments returns the segments of the log, each with the offset behind its last record, or
// 0 when that is not known.
func (s *Log) Segments() map[uint64]int64 { return s.usage.logEnds() }

// Shed closes the segment files that are open but not being read, and returns how many it
// closed.
func (s *Log) Shed() int { return s.files.closeIdle() }

// Usage is the disk space that a log takes.
type Usage struct {
	Segments   int   // segments of the log
	Bytes      int64 // size of their files and of the spare files
	LiveBytes  int64 // size of the records that are still needed
	Spares     int   // files that are kept to become segments
	SpareBytes int64 // size of those
}

// Usage returns the disk space that the log takes.
func (s *Log) Usage() Usage {
	u := s.usage.total()
	u.Spares, u.SpareBytes = s.spares.total()
	u.Bytes += u.SpareBytes
	return u
}

// CheckUsage compares the counted live bytes of each segment with what the index needs.
// Nothing else may run meanwhile. It is for tests.
func (s *Log) CheckUsage() error {
	live, err := s.liveBytes(func(meta.Entry) {})
	if err != nil {
		return err
	}
	segs, sum := s.usage.snapshot(), int64(0)
	for num, u := range segs {
		if u.live != live[num] {
			return fmt.Errorf("segment %s: %d bytes are counted as live, the index needs %d",
				codec.FileName(num), u.live, live[num])
		}
		sum += u.live + u.tombstones
		delete(live, num)
	}
	if total := s.Usage(); len(live) > 0 || total.Segments != len(segs) || total.LiveBytes != sum {
		return fmt.Errorf("uncounted segments in the index: %v; usage %+v, counted %d segments with %d bytes",
			live, total, len(segs), sum)
	}
	return nil
}
