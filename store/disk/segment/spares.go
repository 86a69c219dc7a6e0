package segment

import (
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

// reuseSpare turns a spare file into segment num. f is nil when there is none. The caller
// syncs the directory.
func (s *Log) reuseSpare(num uint64) (f vfs.File, epoch uint64, size int64) {
	for {
		spare, ok := s.spares.take()
		if !ok {
			return nil, 0, 0
		}
		s.usage.removeSpare(spare.size)
		f, err := s.fs.OpenReadWrite(spare.name, vfs.WriteCategoryUnspecified)
		if err == nil {
			if epoch, err = s.writeHeader(f); err == nil {
				err = s.fs.Rename(spare.name, s.path(num))
			}
			if err == nil {
				return f, epoch, spare.size
			}
			_ = f.Close()
		}
		s.logger.Warn("cannot reuse a spare segment; it is deleted", "file", spare.name, "err", err)
		_ = s.fs.Remove(spare.name) // if this fails, the next start removes it
	}
}

// fitsSpare reports whether a file of that size can become a segment. The end of a much
// longer file would stay unused and count as garbage.
func (s *Log) fitsSpare(size int64) bool {
	return size >= s.segmentBytes/2 && size <= s.segmentBytes+s.segmentBytes/4
}

// retireFile removes the file of a segment that left the log. It keeps the file as a spare
// when keep is set and there is a place. The file of a damaged segment goes to quarantine.
// When it returns nil, the name is durably gone, unless quarantine is full.
func (s *Log) retireFile(num uint64, keep, damaged bool) error {
	size := s.usage.get(num).size
	name := s.path(num)
	keep = keep && !s.spares.full() && s.fitsSpare(size)
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
	if err := s.writeNewEpoch(spare); err != nil {
		_ = s.fs.Remove(spare) // if this fails, the next start removes it
		return err
	}
	s.usage.addSpare(size)
	s.spares.add(spareFile{spare, size})
	return nil
}

// findSpares takes over the spare files of an orderly close. After a crash it removes them,
// as they may lack their new epoch.
func (s *Log) findSpares(clean bool) error {
	names, err := s.fs.List(s.root)
	if err != nil {
		return meta.ReadError(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, spareSuffix) {
			continue
		}
		name = s.fs.PathJoin(s.root, name)
		if clean && !s.spares.full() {
			size, ok, err := s.readSpare(name)
			if err != nil {
				return err
			}
			if ok && s.fitsSpare(size) {
				s.usage.addSpare(size)
				s.spares.add(spareFile{name, size})
				continue
			}
		}
		if err := s.fs.Remove(name); err != nil {
			return meta.WriteError("remove a spare segment", err)
		}
	}
	return nil
}
