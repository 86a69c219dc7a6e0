package files

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"allium/gateway/api"
	"allium/internal/openmode"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// PassedItems yields an open file, which another process may have opened. The error is bad_request if it is not a
// regular file that is open for reading.
func PassedItems(p *api.PassedFile) Items {
	return func(yield func(Item, error) bool) {
		info, err := checkPassed(p.File)
		if err != nil {
			yield(Item{}, err)
			return
		}
		yield(Item{
			Path: p.Name, Kind: manifest.File, Executable: info.Mode()&0o111 != 0, Root: p.Root,
			Open: func() (io.ReadCloser, error) { return openPassed(p) },
			file: diskFile{size: info.Size()}, listed: p.Name,
		}, nil)
	}
}

// checkPassed describes f, or returns bad_request.
func checkPassed(f *os.File) (fs.FileInfo, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, status.Errorf(status.BadRequest, "the passed file cannot be examined: %w", err)
	case !info.Mode().IsRegular():
		return nil, status.Errorf(status.BadRequest, "the passed file is not a regular file")
	}
	return info, checkReadable(f)
}

// checkReadable returns bad_request unless f is open for reading.
func checkReadable(f *os.File) error {
	mode, err := openmode.Of(f)
	switch {
	case err != nil:
		return status.Errorf(status.BadRequest, "the passed file cannot be examined: %w", err)
	case !mode.Read:
		return status.Errorf(status.BadRequest, "the passed file is not open for reading")
	}
	return nil
}

// passedReader reads an open file from its beginning. It does not close it.
type passedReader struct {
	from *io.SectionReader
	name string
	told fs.FileInfo
}

// openPassed returns a reader of p that ends one byte after the size that the file has now, where the add sees that
// it grew.
func openPassed(p *api.PassedFile) (io.ReadCloser, error) {
	info, err := p.File.Stat()
	if err != nil {
		return nil, diskError(err)
	}
	return passedReader{io.NewSectionReader(p.File, 0, info.Size()+1), p.Name, info}, nil
}

// Read implements io.Reader.
func (r passedReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		err = diskError(&fs.PathError{Op: e.Op, Path: r.name, Err: e.Err})
	}
	return n, err
}

// Close implements io.Closer.
func (passedReader) Close() error { return nil }

// Stat describes the file as it was when it was opened.
func (r passedReader) Stat() (fs.FileInfo, error) { return r.told, nil }
