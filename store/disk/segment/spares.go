package segment

import (
	"log/slog"
	"strings"
	"sync"

	"allium/store/disk/segment/codec"

	"allium/store/disk/fsys"
	"allium/store/meta"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// spares holds the files of up to maxSpares retired segments, which are used for new
// segments. Their blocks are allocated, so a commit to them needs no metadata sync. Each
// file durably has a new epoch before it is added.
type spares struct {
	segmentDir
	logger *slog.Logger

	mu   sync.Mutex // lock: leaf
	list []spareFile
}

type spareFile struct {
	name string
	size int64
}

// maxSpares is the most spare files. Further ones are deleted.
const maxSpares = 2

const spareSuffix = ".spare"

func (r *spares) take() (spareFile, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) == 0 {
		return spareFile{}, false
	}
	f := r.list[0]
	r.list = r.list[1:]
	return f, true
}

func (r *spares) full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.list) >= maxSpares
}

func (r *spares) add(f spareFile) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, f)
}

// total returns the number of the files and their size in bytes.
func (r *spares) total() (count int, size int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.list {
		size += f.size
	}
	return len(r.list), size
}

// reuse turns a spare file into the segment at path, with the header h. f is nil when there
// is none. The caller syncs the directory.
func (r *spares) reuse(path string, h codec.SegmentHeader) (f vfs.File, size int64) {
	for {
		spare, ok := r.take()
		if !ok {
			return nil, 0
		}
		f, err := r.fs.OpenReadWrite(spare.name, vfs.WriteCategoryUnspecified)
		if err == nil {
			if err = codec.WriteSegmentHeader(f, h); err == nil {
				err = r.fs.Rename(spare.name, path)
			}
			if err == nil {
				return f, spare.size
			}
			_ = f.Close()
		}
		r.logger.Warn("cannot reuse a spare segment; it is deleted", "file", spare.name, "err", err)
		_ = r.fs.Remove(spare.name) // if this fails, the next start removes it
	}
}

// fits reports whether a file of that size can become a segment. The end of a much longer
// file would stay unused and count as garbage.
func (r *spares) fits(size int64) bool {
	return size >= r.segmentBytes/2 && size <= r.segmentBytes+r.segmentBytes/4
}

// find takes over the spare files of an orderly close. After a crash it removes them, as
// they may lack their new epoch.
func (r *spares) find(clean bool) error {
	names, err := r.fs.List(r.root)
	if err != nil {
		return meta.ReadError(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, spareSuffix) {
			continue
		}
		name = r.fs.PathJoin(r.root, name)
		if clean && !r.full() {
			size, ok, err := r.readSize(name)
			if err != nil {
				return err
			}
			if ok && r.fits(size) {
				r.add(spareFile{name, size})
				continue
			}
		}
		if err := r.fs.Remove(name); err != nil {
			return meta.WriteError("remove a spare segment", err)
		}
	}
	return nil
}

// readSize returns the size of a spare file. ok is false when it has no segment header.
func (r *spares) readSize(name string) (size int64, ok bool, err error) {
	f, err := r.fs.Open(name)
	if err != nil {
		return 0, false, meta.ReadError(err)
	}
	defer f.Close()
	size, _, ok, _, err = codec.ReadSegmentHeader(f)
	return size, ok, err
}

// writeNewEpoch durably gives a file a header with a new epoch.
func (r *spares) writeNewEpoch(name string) error {
	f, err := r.fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return meta.ReadError(err)
	}
	if err = codec.WriteSegmentHeader(f, codec.SegmentHeader{Epoch: newEpoch()}); err == nil {
		err = f.SyncData()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return meta.WriteError("write a segment", err)
}

// retireFile removes the file of a segment that left the log. It keeps the file as a spare
// when keep is set and there is a place. The file of a damaged segment goes to quarantine.
// When it returns nil, the name is durably gone, unless quarantine is full.
func (s *Log) retireFile(num uint64, keep, damaged bool) error {
	size := s.usage.get(num).size
	name := s.path(num)
	keep = keep && !s.spares.full() && s.spares.fits(size)
	spare := strings.TrimSuffix(name, codec.FileSuffix) + spareSuffix
	var err error
	if damaged {
		keep, err = false, s.quarantineRetired(num)
	} else if keep {
		err = s.fs.Rename(name, spare)
	} else {
		err = s.fs.Remove(name)
	}
	if err != nil {
		return meta.WriteError("retire a segment", err)
	}
	if err := fsys.SyncDir(s.fs, s.root); err != nil {
		return err
	}
	s.usage.remove(num)
	s.files.drop(num) // readers that looked earlier look again
	if !keep {
		return nil
	}
	if err := s.spares.writeNewEpoch(spare); err != nil {
		_ = s.fs.Remove(spare) // if this fails, the next start removes it
		return err
	}
	s.spares.add(spareFile{spare, size})
	return nil
}
