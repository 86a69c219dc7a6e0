package cloud

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"allium/store/disk/segment/codec"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/status"
	"allium/store/bucket/s3"
	"allium/store/disk/damage"
	"allium/store/disk/fsys"
	"allium/store/disk/tables"
	"allium/store/meta"
)

// Rejoin is Open for a rebuild of the index. The node keeps its name. When neither the
// directory nor the configuration has the name, Rejoin takes the only one in the bucket.
// Rejoin fails when it cannot reach the bucket.
func (c *Cloud) Rejoin(ctx context.Context, x *tables.Index) (node string, err error) {
	if err := c.dial(ctx, x); err != nil {
		return "", err
	}
	if err := c.chooseNode(); err != nil {
		return "", err
	}
	if c.isNew && c.cfg.Node == "" {
		if c.node, err = c.onlyNode(ctx); err != nil {
			return "", err
		}
	}
	return c.node, c.enter(ctx)
}

// onlyNode returns the only node name in the bucket: not_found when there is none,
// bad_request when there are several.
func (c *conn) onlyNode(ctx context.Context) (string, error) {
	var names []string
	for item, err := range c.bucket.List(ctx, nodesPrefix) {
		if err != nil {
			return "", err
		}
		if name := strings.TrimPrefix(item.Key, nodesPrefix); s3.ValidNode(name) {
			names = append(names, name)
		}
	}
	switch len(names) {
	case 0:
		return "", status.Errorf(status.NotFound,
			"no node has used the bucket yet; correct store.s3.url, or start the node")
	case 1:
		return names[0], nil
	}
	return "", status.Errorf(status.BadRequest,
		"%d nodes use the bucket (%s, …); name the one to rebuild with store.s3.node", len(names), names[0])
}

// FetchSegments downloads the segments that the directory lacks, and records in the index
// what the bucket has. A local segment stays as it is: the copy in the bucket was made from
// it. fetched counts the downloaded segments.
func (s *segments) FetchSegments(ctx context.Context) (fetched int64, err error) {
	all, err := s.list(ctx)
	if err != nil {
		return 0, err
	}
	for num, f := range all {
		_, err := s.fs.Stat(s.segmentPath(num))
		if err != nil {
			if err := s.fetch(ctx, num, f); err != nil {
				return fetched, fmt.Errorf("segment %s: %w", codec.FileName(num), err)
			}
			fetched++
		}
		if err := s.index.Shipped(num).Set(f.shipped().Encode(), false); err != nil {
			return fetched, err
		}
	}
	return fetched, nil
}

// FetchMissing downloads the segments that the index names, the directory lacks and the
// bucket has. A failed download is only logged: recovery then reports the missing segment.
// It does nothing before the node has joined.
func (s *segments) FetchMissing(ctx context.Context) error {
	if !s.joined.Load() {
		return nil
	}
	segments, known, err := s.index.Segments()
	if err != nil || !known {
		return nil //nolint:nilerr // recovery reads it again and handles the error
	}
	var missing []uint64
	for num := range segments {
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
	inBucket, err := s.list(ctx)
	for _, num := range missing {
		if f := inBucket[num]; f != nil && err == nil {
			if err = s.fetch(ctx, num, f); err == nil {
				s.damage.Count.Corrected.Add(1)
				s.log.Warn("a missing segment was fetched from the bucket", "segment", codec.FileName(num))
				// If this write fails, the next change of the list writes it again.
				_, _ = s.damage.Update(func(x *meta.Damage) bool {
					if x.State != meta.DamageOpen || x.Kind != meta.DamageLog ||
						x.File != fsys.DirSegments+"/"+codec.FileName(num) ||
						x.Reason != damage.SegmentMissing || x.Left > 0 {
						return false
					}
					x.State = meta.DamageRepaired
					return true
				})
			}
		}
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("cannot fetch missing segments from the bucket", "err", err)
		err = nil
	}
	return err
}

// list returns the segments that the bucket has for this node, by number.
func (s *segments) list(ctx context.Context) (map[uint64]*bucketSegment, error) {
	all := map[uint64]*bucketSegment{}
	for item, err := range s.bucket.List(ctx, s.segmentPrefix()) {
		if err != nil {
			return nil, err
		}
		num, off, ok := s.parseSegmentKey(item.Key)
		if !ok {
			continue
		}
		if all[num] == nil {
			all[num] = &bucketSegment{}
		}
		all[num].add(off, item.Size)
	}
	return all, nil
}

func (s *segments) segmentPath(num uint64) string {
	return s.fs.PathJoin(s.dir, fsys.DirSegments, codec.FileName(num))
}

// bucketSegment is a segment in the bucket: one whole object, or parts that follow each
// other from offset 0.
type bucketSegment struct {
	whole int64   // bytes of the whole object; 0 when there is none
	ends  []int64 // where each part ends, ascending
}

// add adds a listed object: the part at off, or the whole segment when off is negative.
// Parts are added in the order of their offsets; add ignores a part behind a gap.
func (f *bucketSegment) add(off, size int64) {
	switch {
	case off < 0:
		f.whole = size
	case off == f.end():
		f.ends = append(f.ends, off+size)
	}
}

// end returns the offset at which the last part ends; 0 without parts.
func (f *bucketSegment) end() int64 {
	if len(f.ends) == 0 {
		return 0
	}
	return f.ends[len(f.ends)-1]
}

func (f *bucketSegment) shipped() tables.Shipped {
	if f.whole > 0 {
		return tables.Shipped{Whole: true, End: f.whole}
	}
	return tables.Shipped{End: f.end()}
}

// fetch downloads a segment. Its file appears whole or not at all, and is durable.
func (s *segments) fetch(ctx context.Context, num uint64, from *bucketSegment) error {
	temp := s.fs.PathJoin(s.dir, fsys.DirTemp, codec.FileName(num))
	err := fsys.Replace(s.fs, temp, s.segmentPath(num),
		func(f vfs.File) error { return s.copySegment(ctx, f, num, from) })
	if err != nil {
		return err
	}
	return fsys.SyncDir(s.fs, s.fs.PathJoin(s.dir, fsys.DirSegments))
}

func (s *segments) copySegment(ctx context.Context, f vfs.File, num uint64, from *bucketSegment) error {
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

// copyObject appends an object of the bucket to f, maxWindow bytes a request.
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
