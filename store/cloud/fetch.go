package cloud

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"allium/store/segment/record"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/status"
	"allium/store/bucket"
	"allium/store/damage"
	"allium/store/fsys"
	"allium/store/index"
	"allium/store/meta"
)

// Rejoin is Open for a rebuild: the node goes on under its old name, which the
// bucket tells where the directory does not.
func (c *Cloud) Rejoin(ctx context.Context, x *index.Index) (node string, err error) {
	if err := c.dial(ctx, x); err != nil {
		return "", err
	}
	if err := c.name(); err != nil {
		return "", err
	}
	if c.isNew && c.cfg.Node == "" {
		if c.node, err = c.lastNode(ctx); err != nil {
			return "", err
		}
	}
	return c.node, c.enter(ctx)
}

// lastNode is the one node that the bucket has.
func (c *conn) lastNode(ctx context.Context) (string, error) {
	var names []string
	for item, err := range c.bucket.List(ctx, nodesPrefix) {
		if err != nil {
			return "", err
		}
		if name := strings.TrimPrefix(item.Key, nodesPrefix); bucket.ValidNode(name) {
			names = append(names, name)
		}
	}
	switch len(names) {
	case 0:
		return "", status.Errorf(status.NotFound, "no node has used the bucket yet; correct store.s3.url, or start the node")
	case 1:
		return names[0], nil
	}
	return "", status.Errorf(status.BadRequest, "%d nodes use the bucket (%s, …); name the one to rebuild with store.s3.node", len(names), names[0])
}

// FetchSegments brings the segments that are not here, and notes in the index what
// the bucket has. A segment that is here is what the bucket's was made of.
func (s *segments) FetchSegments(ctx context.Context) (fetched int64, err error) {
	all, err := s.list(ctx)
	if err != nil {
		return 0, err
	}
	for num, f := range all {
		_, err := s.fs.Stat(s.segmentPath(num))
		if err != nil {
			if err := s.fetch(ctx, num, f); err != nil {
				return fetched, fmt.Errorf("segment %s: %w", record.FileName(num), err)
			}
			fetched++
		}
		if err := s.index.SetShipped(num, f.shipped(), false); err != nil {
			return fetched, err
		}
	}
	return fetched, nil
}

// FetchMissing brings the segments of the log that are missing here and are in
// the bucket. Where that does not work now, the recovery says what is missing.
func (s *segments) FetchMissing(ctx context.Context) error {
	if !s.joined.Load() {
		return nil
	}
	set, known, err := s.index.Segments()
	if err != nil || !known {
		return nil //nolint:nilerr // the recovery reads it again, and judges that
	}
	var missing []uint64
	for num := range set {
		_, err := s.fs.Stat(s.segmentPath(num))
		if errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, num)
		} else if err != nil {
			return meta.ReadError(err)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	there, err := s.list(ctx)
	for _, num := range missing {
		if f := there[num]; f != nil && err == nil {
			if err = s.fetch(ctx, num, f); err == nil {
				s.damage.Count.Corrected.Add(1)
				s.log.Warn("a segment was missing and came back from the bucket", "segment", record.FileName(num))
				// What cannot be written now is with the next finding.
				_, _ = s.damage.Update(func(x *meta.Damage) bool {
					if x.State != meta.DamageOpen || x.Kind != meta.DamageLog || x.File != fsys.DirSegments+"/"+record.FileName(num) || x.Reason != damage.SegmentMissing || x.Left > 0 {
						return false
					}
					x.State = meta.DamageRepaired
					return true
				})
			}
		}
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("segments that are missing could not be fetched from the bucket", "err", err)
		err = nil
	}
	return err
}

// list lists what the bucket has.
func (s *segments) list(ctx context.Context) (map[uint64]*fetchedSegment, error) {
	all := map[uint64]*fetchedSegment{}
	for item, err := range s.bucket.List(ctx, s.segmentPrefix()) {
		if err != nil {
			return nil, err
		}
		num, off, ok := s.parseSegmentKey(item.Key)
		if !ok {
			continue
		}
		if all[num] == nil {
			all[num] = &fetchedSegment{}
		}
		all[num].add(off, item.Size)
	}
	return all, nil
}

func (s *segments) segmentPath(num uint64) string {
	return s.fs.PathJoin(s.dir, fsys.DirSegments, record.FileName(num))
}

// fetchedSegment is a segment in the bucket: whole, or the parts from offset 0 on, in
// order.
type fetchedSegment struct {
	whole int64 // size, 0 for none
	ends  []int64
}

func (f *fetchedSegment) add(off, size int64) {
	switch {
	case off < 0:
		f.whole = size
	case off == f.end(): // listed in order
		f.ends = append(f.ends, off+size)
	}
}

// end is where the parts end.
func (f *fetchedSegment) end() int64 {
	if len(f.ends) == 0 {
		return 0
	}
	return f.ends[len(f.ends)-1]
}

func (f *fetchedSegment) shipped() index.Shipped {
	if f.whole > 0 {
		return index.Shipped{Whole: true, End: f.whole}
	}
	return index.Shipped{End: f.end()}
}

// fetch makes the file of a segment.
func (s *segments) fetch(ctx context.Context, num uint64, from *fetchedSegment) error {
	temp := s.fs.PathJoin(s.dir, fsys.DirTemp, record.FileName(num))
	err := fsys.Replace(s.fs, temp, s.segmentPath(num), func(f vfs.File) error { return s.copySegment(ctx, f, num, from) })
	if err != nil {
		return err
	}
	return fsys.SyncDir(s.fs, s.fs.PathJoin(s.dir, fsys.DirSegments))
}

func (s *segments) copySegment(ctx context.Context, f vfs.File, num uint64, from *fetchedSegment) error {
	if from.whole > 0 {
		return s.copyObject(ctx, f, s.wholeKey(num), from.whole)
	}
	start := int64(0)
	for _, end := range from.ends {
		if err := s.copyObject(ctx, f, s.partKey(num, start), end-start); err != nil {
			return err
		}
		start = end
	}
	return nil
}

// copyObject appends an object of the bucket to f.
func (s *segments) copyObject(ctx context.Context, f vfs.File, key string, size int64) error {
	buf := make([]byte, min(size, maxWindow))
	for at := int64(0); at < size; {
		p := buf[:min(int64(len(buf)), size-at)]
		if err := s.space(int64(len(p))); err != nil {
			return err
		}
		if err := s.bucket.ReadAt(ctx, key, p, at); err != nil {
			return err
		}
		if _, err := f.Write(p); err != nil {
			return meta.WriteError("write a segment", err)
		}
		at += int64(len(p))
	}
	return nil
}
