package files

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"allium/gateway/api"
	"allium/node/files/extract"
	"allium/protocols/status"
)

// ExtractOptions are the options of Extract.
type ExtractOptions = extract.Options

// CanExtract returns the error with which Extract would refuse the target as it is now: it exists, or its
// directory does not. It writes nothing.
func CanExtract(target string, o ExtractOptions) error {
	x, err := extract.Begin(target, o)
	if err != nil {
		return err
	}
	return x.Abort()
}

// Extract writes a stream of [api.Reader.Get] to the file or directory target. The
// target appears only when it is complete, and nothing is written outside it. Extract
// does not close the stream. report may be nil; it gets the bytes of files.
func Extract(s *api.Stream, target string, o ExtractOptions, report api.ProgressFunc) error {
	x, err := extract.Begin(target, o)
	if err != nil {
		return err
	}
	moved, err := moveFile(x, s, report)
	if err == nil && !moved {
		if err = extractStream(x, s, report); err == nil {
			err = x.Commit()
		}
	}
	if err != nil {
		return errors.Join(err, x.Abort())
	}
	return nil
}

// moveFile makes the target of the store's own file, if the reader of the stream gives it away. If moved
// is false, the extractor is as it was.
func moveFile(x *extract.Extractor, s *api.Stream, report api.ProgressFunc) (moved bool, err error) {
	if s.MoveFile == nil {
		return false, nil
	}
	return s.MoveFile(progressOf(s, report), func(path string) (bool, error) {
		moved, err := x.Move(path, s.Size, s.Executable)
		if err == nil && moved {
			err = x.Commit()
		}
		return moved && err == nil, err
	})
}

// progressOf returns a ProgressFunc for a stream of a file whose reader moves its bytes.
func progressOf(s *api.Stream, report api.ProgressFunc) api.ProgressFunc {
	return func(p api.Progress) {
		if report != nil {
			report(api.Progress{Bytes: p.Bytes, TotalBytes: s.Size, Resumed: s.Resumed})
		}
	}
}

// extractStream passes the entries of a stream to the extractor. When the stream ends
// early, its Body returns an error, so a cut stream never looks complete.
func extractStream(x *extract.Extractor, s *api.Stream, report api.ProgressFunc) error {
	p := api.Progress{Resumed: s.Resumed}
	if s.Kind == api.File {
		p.TotalBytes = s.Size
		return x.FileBy("", s.Size, s.Executable, func(f *os.File) (bool, error) {
			return writeFile(x, f, s, &extract.ProgressReader{Reader: s.Body, Report: report, Progress: &p})
		})
	}
	p.TotalBytes = s.TreeBytes
	tr := tar.NewReader(s.Body)
	file := &extract.ProgressReader{Reader: tr, Report: report, Progress: &p}
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, s.Body) // reads the padding; an error here means that the stream was cut
			return err
		}
		if err != nil {
			return err
		}
		p.Objects++
		path := strings.TrimSuffix(h.Name, "/")
		if path == "." {
			path = "" // the directory itself
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = x.Dir(path)
		case tar.TypeSymlink:
			err = x.Symlink(path, h.Linkname)
		case tar.TypeReg:
			err = x.File(path, h.Size, h.Mode&0o111 != 0, file)
		default:
			err = status.Errorf(status.Upstream, "the node sent an entry of type %q for %s", h.Typeflag, path)
		}
		if err != nil {
			return err
		}
	}
}

// writeFile lets the reader of the stream write the file, or replace it, if it can. Otherwise, or if that fails before
// the first byte, it copies the body.
func writeFile(x *extract.Extractor, f *os.File, s *api.Stream, body *extract.ProgressReader) (moved bool, err error) {
	if s.WriteFile == nil {
		return false, x.Fill(f, s.Size, body)
	}
	path, err := filepath.Abs(f.Name())
	if err != nil {
		path = "" // the directory was removed
	}
	report := progressOf(s, body.Report)
	var begun atomic.Bool
	moved, err = s.WriteFile(f, path, func(p api.Progress) {
		begun.Store(true)
		report(p)
	})
	if err == nil {
		report(api.Progress{Bytes: s.Size})
		return moved, nil
	}
	if info, statErr := f.Stat(); begun.Load() || statErr != nil || info.Size() > 0 {
		return false, err
	}
	return false, x.Fill(f, s.Size, body)
}
