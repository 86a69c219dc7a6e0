package disk

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/status"
	"allium/store/bucket"
	"allium/store/fsys"
	"allium/store/index"
	"allium/store/meta"
	"allium/store/segment"
)

// connect opens the bucket under the node's old name and brings the segments
// that are only there.
func (r *rebuild) connect() (err error) {
	c := r.d.cloud
	if err := c.dial(r.ctx, r.d); err != nil {
		return err
	}
	if err := c.name(r.d); err != nil {
		return err
	}
	if c.isNew && c.cfg.Node == "" {
		if c.node, err = r.lastNode(); err != nil {
			return err
		}
	}
	r.report.Node = c.node
	if err := c.enter(r.ctx, r.d); err != nil {
		return err
	}
	return r.fetchSegments()
}

// lastNode is the one node that the bucket has.
func (r *rebuild) lastNode() (string, error) {
	var names []string
	for item, err := range r.d.cloud.bucket.List(r.ctx, cloudNodes) {
		if err != nil {
			return "", err
		}
		if name := strings.TrimPrefix(item.Key, cloudNodes); bucket.ValidNode(name) {
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

// fetchSegments brings what is not here. A segment that is here is what the
// bucket's was made of.
func (r *rebuild) fetchSegments() error {
	c := r.d.cloud
	all, err := r.listSegments()
	if err != nil {
		return err
	}
	for num, f := range all {
		if err := r.fetchSegment(num, f); err != nil {
			return fmt.Errorf("segment %s: %w", segment.FileName(num), err)
		}
		if err := c.index.SetShipped(num, f.shipped(), false); err != nil {
			return err
		}
	}
	return nil
}

// listSegments lists what the bucket has.
func (r *rebuild) listSegments() (map[uint64]*fetchedSegment, error) {
	c := r.d.cloud
	all := map[uint64]*fetchedSegment{}
	for item, err := range c.bucket.List(r.ctx, c.segmentPrefix()) {
		if err != nil {
			return nil, err
		}
		num, off, ok := c.parseSegmentKey(item.Key)
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

func (r *rebuild) fetchSegment(num uint64, from *fetchedSegment) error {
	d := r.d
	name := d.path(fsys.DirSegments, segment.FileName(num))
	if _, err := d.fs.Stat(name); err == nil {
		return nil
	}
	temp := d.path(fsys.DirTemp, segment.FileName(num))
	f, err := d.fs.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return meta.WriteError("create a file", err)
	}
	err = r.copySegment(f, num, from)
	if err == nil {
		err = meta.WriteError("sync a segment", f.Sync())
	}
	if e := f.Close(); err == nil {
		err = meta.WriteError("close a segment", e)
	}
	if err == nil {
		err = meta.WriteError("rename a segment", d.fs.Rename(temp, name))
	}
	if err != nil {
		return err
	}
	r.report.Fetched++
	return fsys.SyncDir(d.fs, d.path(fsys.DirSegments))
}

func (r *rebuild) copySegment(f vfs.File, num uint64, from *fetchedSegment) error {
	c := r.d.cloud
	if from.whole > 0 {
		return r.copyObject(f, c.wholeKey(num), from.whole)
	}
	start := int64(0)
	for _, end := range from.ends {
		if err := r.copyObject(f, c.partKey(num, start), end-start); err != nil {
			return err
		}
		start = end
	}
	return nil
}

// copyObject appends an object of the bucket to f.
func (r *rebuild) copyObject(f vfs.File, key string, size int64) error {
	buf := make([]byte, min(size, maxWindow))
	for at := int64(0); at < size; {
		p := buf[:min(int64(len(buf)), size-at)]
		if err := r.d.space(int64(len(p))); err != nil {
			return err
		}
		if err := r.d.cloud.bucket.ReadAt(r.ctx, key, p, at); err != nil {
			return err
		}
		if _, err := f.Write(p); err != nil {
			return meta.WriteError("write a segment", err)
		}
		at += int64(len(p))
	}
	return nil
}
