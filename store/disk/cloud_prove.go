package disk

import (
	"context"
	"errors"
	"io/fs"

	"allium/store/damage"
	"allium/store/fsys"
	"allium/store/meta"
	"allium/store/segment"
)

// bringMissing fetches the segments of the log that are missing here and are in
// the bucket. Where that does not work now, the recovery says what is missing.
func (d *Backend) bringMissing(ctx context.Context) error {
	if d.cloud == nil || !d.cloud.joined.Load() {
		return nil
	}
	set, known, err := d.index.Segments()
	if err != nil || !known {
		return nil //nolint:nilerr // the recovery reads it again, and judges that
	}
	var missing []uint64
	for num := range set {
		_, err := d.fs.Stat(d.path(fsys.DirSegments, segment.FileName(num)))
		if errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, num)
		} else if err != nil {
			return meta.ReadError(err)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	r := &rebuild{ctx: ctx, d: d}
	there, err := r.listSegments()
	for _, num := range missing {
		if f := there[num]; f != nil && err == nil {
			if err = r.fetchSegment(num, f); err == nil {
				d.damage.Count.Corrected.Add(1)
				d.log.Warn("a segment was missing and came back from the bucket", "segment", segment.FileName(num))
				// What cannot be written now is with the next finding.
				_, _ = d.damage.Update(func(x *meta.Damage) bool {
					if x.State != meta.DamageOpen || x.Kind != meta.DamageLog || x.File != fsys.DirSegments+"/"+segment.FileName(num) || x.Reason != damage.SegmentMissing || x.Left > 0 {
						return false
					}
					x.State = meta.DamageRepaired
					return true
				})
			}
		}
	}
	if err != nil && ctx.Err() == nil {
		d.log.Warn("segments that are missing could not be fetched from the bucket", "err", err)
		err = nil
	}
	return err
}
